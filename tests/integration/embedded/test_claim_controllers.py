"""Claims made from templates, reserved and released around the life of their Pods."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.embedded.controllers import Controllers
from dra_driver.kube.client import Client
from dra_driver.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

Object = dict[str, Any]
Until = Callable[..., Any]

FINALIZER = "resource.kubernetes.io/delete-protection"


@pytest.fixture
def controllers(client: Client) -> Iterator[Controllers]:
    controllers = Controllers(client)
    controllers.start()
    yield controllers
    controllers.stop()


@pytest.fixture
def template(server: ApiServer, claim: Callable[..., Object]) -> Object:
    spec = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}, "spec": claim()["spec"]}
    return server.store.create(
        RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "one-gpu", "namespace": "team"}, "spec": spec}
    )


def has_claim(pod: Object | None) -> bool:
    return bool(pod and pod["status"].get("resourceClaimStatuses"))


def uses(template: str) -> list[Object]:
    return [{"name": "gpu", "resourceClaimTemplateName": template}]


def allocate(server: ApiServer, name: str, *pods: Object) -> Object:
    """What a scheduler does: finalizer first, then allocation and reservation."""
    server.store.patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": [FINALIZER]}}, namespace="team")
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-a/gpu", "device": "gpu-0"}
    reserved = [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods
    ]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    return server.store.patch(
        RESOURCE_CLAIMS, name, {"status": status}, namespace="team", subresource="status"
    )


def finish(server: ApiServer, name: str) -> None:
    server.store.patch(PODS, name, {"status": {"phase": "Succeeded"}}, namespace="team", subresource="status")


def test_a_pod_whose_claim_has_no_name_keeps_no_other_pod_waiting(
    server: ApiServer, controllers: Controllers, template: Object, pod: Callable[..., Object], until: Until
) -> None:
    server.store.create(PODS, pod("odd", resourceClaims=[{"resourceClaimTemplateName": "one-gpu"}]))
    server.store.create(PODS, pod("p", resourceClaims=uses("one-gpu")))

    until(PODS, "p", has_claim)


def test_a_pod_gets_a_claim_of_its_own_from_the_template(
    server: ApiServer, controllers: Controllers, template: Object, pod: Callable[..., Object], until: Until
) -> None:
    made = server.store.create(PODS, pod(resourceClaims=uses("one-gpu")))

    noted = until(PODS, "p", has_claim)["status"]["resourceClaimStatuses"]
    claim = server.store.get(RESOURCE_CLAIMS, noted[0]["resourceClaimName"], "team")

    assert noted[0]["name"] == "gpu"
    assert claim["metadata"]["name"].startswith("p-gpu-")
    assert claim["metadata"]["labels"] == {"team": "a"}
    assert claim["metadata"]["annotations"] == {"note": "x", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert claim["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True}
    ]
    assert claim["spec"] == template["spec"]["spec"]


def test_a_missing_template_is_said_on_the_pod_and_made_up_for_when_it_appears(
    server: ApiServer,
    controllers: Controllers,
    claim: Callable[..., Object],
    pod: Callable[..., Object],
    until: Until,
    first_event: Callable[[str], Object],
) -> None:
    server.store.create(PODS, pod(resourceClaims=uses("late")))
    event = first_event("p")

    assert event["reason"] == "FailedResourceClaimCreation"
    assert event["type"] == "Warning"
    assert event["message"] == (
        'PodResourceClaim gpu: resource claim template "late": '
        'resourceclaimtemplate.resource.k8s.io "late" not found'
    )

    server.store.create(
        RESOURCE_CLAIM_TEMPLATES,
        {"metadata": {"name": "late", "namespace": "team"}, "spec": {"spec": claim()["spec"]}},
    )
    assert until(PODS, "p", has_claim)


def test_a_claim_is_freed_unprotected_and_deleted_when_its_pod_has_ended(
    server: ApiServer, controllers: Controllers, template: Object, pod: Callable[..., Object], until: Until
) -> None:
    made = server.store.create(PODS, pod(resourceClaims=uses("one-gpu")))
    name = until(PODS, "p", has_claim)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    allocate(server, name, made)

    finish(server, "p")

    assert until(RESOURCE_CLAIMS, name, lambda claim: claim is None) is None


def test_a_deleted_pod_takes_its_claim_along(
    server: ApiServer, controllers: Controllers, template: Object, pod: Callable[..., Object], until: Until
) -> None:
    made = server.store.create(PODS, pod(resourceClaims=uses("one-gpu")))
    name = until(PODS, "p", has_claim)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    allocate(server, name, made)

    server.store.delete(PODS, "p", namespace="team")

    assert until(RESOURCE_CLAIMS, name, lambda claim: claim is None) is None


def test_a_shared_claim_is_freed_when_the_last_pod_leaves_and_stays(
    server: ApiServer,
    controllers: Controllers,
    claim: Callable[..., Object],
    pod: Callable[..., Object],
    until: Until,
) -> None:
    server.store.create(RESOURCE_CLAIMS, claim("shared"))
    shared = [{"name": "gpu", "resourceClaimName": "shared"}]
    first = server.store.create(PODS, pod("first", resourceClaims=shared))
    second = server.store.create(PODS, pod("second", resourceClaims=shared))
    allocate(server, "shared", first, second)

    finish(server, "first")
    left = until(RESOURCE_CLAIMS, "shared", lambda found: len(found["status"].get("reservedFor", [])) == 1)
    assert left["status"]["reservedFor"][0]["name"] == "second"
    assert left["status"]["allocation"]

    server.store.delete(PODS, "second", namespace="team")
    freed = until(RESOURCE_CLAIMS, "shared", lambda found: "finalizers" not in found["metadata"])
    assert freed["status"] == {}


def test_a_claim_deleted_while_in_use_stays_until_its_pod_has_ended(
    server: ApiServer,
    controllers: Controllers,
    claim: Callable[..., Object],
    pod: Callable[..., Object],
    until: Until,
) -> None:
    server.store.create(RESOURCE_CLAIMS, claim("shared"))
    made = server.store.create(PODS, pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}]))
    allocate(server, "shared", made)

    server.store.delete(RESOURCE_CLAIMS, "shared", namespace="team")
    assert server.store.get(RESOURCE_CLAIMS, "shared", "team")["status"]["allocation"]

    finish(server, "p")
    assert until(RESOURCE_CLAIMS, "shared", lambda found: found is None) is None


def test_an_unused_protected_claim_can_be_deleted(
    server: ApiServer, controllers: Controllers, claim: Callable[..., Object], until: Until
) -> None:
    server.store.create(RESOURCE_CLAIMS, claim("unused"))
    allocate(server, "unused")

    server.store.delete(RESOURCE_CLAIMS, "unused", namespace="team")

    assert until(RESOURCE_CLAIMS, "unused", lambda found: found is None) is None


def test_a_reservation_by_a_pod_that_never_was_is_dropped(
    server: ApiServer, controllers: Controllers, claim: Callable[..., Object], until: Until
) -> None:
    server.store.create(RESOURCE_CLAIMS, claim("c"))
    allocate(server, "c", {"metadata": {"name": "ghost", "uid": "no-such-uid"}})

    freed = until(RESOURCE_CLAIMS, "c", lambda found: "finalizers" not in found["metadata"])

    assert freed["status"] == {}


def test_an_allocated_claim_is_reserved_for_a_pod_that_was_put_on_its_node_by_hand(
    server: ApiServer,
    controllers: Controllers,
    claim: Callable[..., Object],
    pod: Callable[..., Object],
    until: Until,
) -> None:
    server.store.create(RESOURCE_CLAIMS, claim("shared"))
    allocate(server, "shared")

    made = server.store.create(
        PODS, pod(nodeName="node-a", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    )

    claim_then = until(RESOURCE_CLAIMS, "shared", lambda found: found["status"].get("reservedFor"))
    assert claim_then["status"]["reservedFor"] == [
        {"resource": "pods", "name": "p", "uid": made["metadata"]["uid"]}
    ]


def test_a_claim_of_another_pod_of_the_same_name_is_not_taken(
    server: ApiServer, controllers: Controllers, template: Object, pod: Callable[..., Object], until: Until
) -> None:
    server.store.create(PODS, pod(resourceClaims=uses("one-gpu")))
    first = until(PODS, "p", has_claim)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    server.store.delete(PODS, "p", namespace="team")

    server.store.create(PODS, pod(resourceClaims=uses("one-gpu")))

    second = until(PODS, "p", has_claim)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    assert second != first

"""What happens to objects: versions, identities, conflicts, status, deletion."""

import dataclasses
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.errors import ApiError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    InvalidError,
    NotFoundError,
    ObjectConflictError,
    ResponseError,
)
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SECRETS,
    Resource,
)

Object = dict[str, Any]
Make = Callable[..., Object]

FINALIZER = "resource.kubernetes.io/delete-protection"
V1BETA2 = Resource("resource.k8s.io", "v1beta2", "resourceclaims", "ResourceClaim", namespaced=True)


def test_a_new_object_gets_uid_version_generation_and_creation_time(client: Client, slice_of: Make) -> None:
    metadata = client.create(RESOURCE_SLICES, slice_of())["metadata"]

    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"].isdigit()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])


def test_versions_grow_with_every_write_of_any_kind(client: Client, slice_of: Make, claim: Make) -> None:
    first = client.create(RESOURCE_SLICES, slice_of())
    second = client.create(RESOURCE_CLAIMS, claim())

    assert int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1


def test_generation_counts_changes_of_the_spec_only(client: Client, slice_of: Make) -> None:
    made = client.create(RESOURCE_SLICES, slice_of())
    labelled = client.patch(RESOURCE_SLICES, "s", {"metadata": {"labels": {"a": "b"}}})
    grown = client.patch(RESOURCE_SLICES, "s", {"spec": {"pool": {"generation": 2}}})

    assert [obj["metadata"]["generation"] for obj in (made, labelled, grown)] == [1, 1, 2]


def test_a_write_that_changes_nothing_makes_no_new_version(client: Client, slice_of: Make) -> None:
    made = client.create(RESOURCE_SLICES, slice_of())

    assert client.replace(RESOURCE_SLICES, made) == made
    assert client.patch(RESOURCE_SLICES, "s", {}) == made


def test_quantities_come_back_canonical(client: Client, slice_of: Make) -> None:
    made = client.create(RESOURCE_SLICES, slice_of())

    assert made["spec"]["devices"][0]["capacity"] == {"memory": {"value": "512Mi"}}


def test_null_and_empty_optional_lists_are_not_stored(client: Client, slice_of: Make) -> None:
    body = slice_of(skipNodeOperations=[], allNodes=None)
    body["metadata"]["labels"] = {}

    made = client.create(RESOURCE_SLICES, body)

    assert "skipNodeOperations" not in made["spec"]
    assert "allNodes" not in made["spec"]
    assert "labels" not in made["metadata"]


def test_the_server_says_when_a_taint_was_added(client: Client, slice_of: Make) -> None:
    device = {"name": "gpu-0", "taints": [{"key": "example.com/sick", "effect": "NoSchedule"}]}

    taint = client.create(RESOURCE_SLICES, slice_of(devices=[device]))["spec"]["devices"][0]["taints"][0]

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", taint["timeAdded"])


def test_names_are_generated_below_a_prefix(client: Client, slice_of: Make) -> None:
    body = slice_of()
    body["metadata"] = {"generateName": "0-gpu.nvidia.com-"}

    names = {client.create(RESOURCE_SLICES, body)["metadata"]["name"] for _ in range(3)}

    assert len(names) == 3
    assert all(re.fullmatch(r"0-gpu\.nvidia\.com-[a-z0-9]{5}", name) for name in names)


def test_a_generated_name_that_is_taken_is_not_the_last_one(server: ApiServer, slice_of: Make) -> None:
    body = slice_of()
    body["metadata"] = {"generateName": "s-"}
    names = []
    for _ in range(2):
        random.seed(1)  # the server draws from the same sequence again
        names.append(server.store.create(RESOURCE_SLICES, body)["metadata"]["name"])

    assert len(set(names)) == 2


def test_claims_get_the_defaults_of_requests(client: Client, claim: Make) -> None:
    request = client.create(RESOURCE_CLAIMS, claim())["spec"]["devices"]["requests"][0]

    assert request["exactly"] == {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 1,
    }


def test_pods_get_defaults_and_extended_resources_as_requests(client: Client, pod: Make) -> None:
    limits = {"limits": {"nvidia.com/gpu": 1}}
    made = client.create(PODS, pod(containers=[{"name": "c", "image": "app", "resources": limits}]))

    container = made["spec"]["containers"][0]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["status"] == {"phase": "Pending"}


def test_both_served_versions_show_the_same_object(client: Client, claim: Make) -> None:
    made = client.create(RESOURCE_CLAIMS, claim())

    assert client.get(V1BETA2, "c", "team") == {**made, "apiVersion": "resource.k8s.io/v1beta2"}
    changed = client.patch(V1BETA2, "c", {"metadata": {"labels": {"a": "b"}}}, namespace="team")
    assert changed["apiVersion"] == "resource.k8s.io/v1beta2"
    assert client.get(RESOURCE_CLAIMS, "c", "team")["metadata"]["labels"] == {"a": "b"}


def test_creating_twice_is_refused(client: Client, claim: Make) -> None:
    client.create(RESOURCE_CLAIMS, claim())

    with pytest.raises(AlreadyExistsError, match=r'resourceclaims.resource.k8s.io "c" already exists'):
        client.create(RESOURCE_CLAIMS, claim())


def test_what_is_not_there_is_404_with_details(client: Client) -> None:
    with pytest.raises(NotFoundError) as caught:
        client.get(RESOURCE_CLAIMS, "c", "team")

    assert caught.value.reason == "NotFound"
    assert caught.value.details == {"name": "c", "group": "resource.k8s.io", "kind": "resourceclaims"}


def test_an_update_from_an_old_version_conflicts(client: Client, slice_of: Make) -> None:
    made = client.create(RESOURCE_SLICES, slice_of())
    client.patch(RESOURCE_SLICES, "s", {"metadata": {"labels": {"a": "b"}}})

    with pytest.raises(ObjectConflictError, match="the object has been modified; please apply your changes"):
        client.replace(RESOURCE_SLICES, made)


def test_an_update_without_a_version_wins(client: Client, slice_of: Make) -> None:
    client.create(RESOURCE_SLICES, slice_of())
    body = slice_of()
    body["metadata"]["labels"] = {"a": "b"}

    assert client.replace(RESOURCE_SLICES, body)["metadata"]["labels"] == {"a": "b"}


def test_an_update_of_another_uid_conflicts(client: Client, slice_of: Make) -> None:
    made = client.create(RESOURCE_SLICES, slice_of())
    made["metadata"] |= {"uid": "other", "resourceVersion": ""}

    with pytest.raises(ObjectConflictError, match="Precondition failed: UID in precondition: other"):
        client.replace(RESOURCE_SLICES, made)


def test_status_and_spec_are_written_separately(client: Client, claim: Make) -> None:
    client.create(RESOURCE_CLAIMS, claim())
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}}}

    ignored = client.patch(RESOURCE_CLAIMS, "c", {"status": status}, namespace="team")
    body = {"status": status, "metadata": {"labels": {"a": "b"}}}
    written = client.patch(RESOURCE_CLAIMS, "c", body, namespace="team", subresource="status")

    assert ignored["status"] == {}
    assert written["status"] == status
    assert "labels" not in written["metadata"]


def test_a_creators_status_is_dropped(client: Client, claim: Make) -> None:
    made = client.create(RESOURCE_CLAIMS, {**claim(), "status": {"reservedFor": []}})

    assert made["status"] == {}


@pytest.mark.parametrize(
    ("resource", "name", "patch", "path"),
    [
        (RESOURCE_CLAIMS, "c", {"spec": {"devices": {"requests": []}}}, "spec"),
        (RESOURCE_SLICES, "s", {"spec": {"driver": "other.com"}}, "spec.driver"),
        (RESOURCE_SLICES, "s", {"spec": {"pool": {"name": "other"}}}, "spec.pool.name"),
        (RESOURCE_SLICES, "s", {"spec": {"nodeName": "other"}}, "spec.nodeName"),
    ],
)
def test_immutable_fields_stay(
    client: Client, claim: Make, slice_of: Make, resource: Resource, name: str, patch: Object, path: str
) -> None:
    client.create(RESOURCE_CLAIMS, claim())
    client.create(RESOURCE_SLICES, slice_of())

    with pytest.raises(InvalidError, match="field is immutable") as caught:
        client.patch(resource, name, patch, namespace="team" if resource.namespaced else None)

    assert caught.value.details is not None
    assert caught.value.details["causes"][0]["field"] == path


def test_a_templates_spec_is_immutable(client: Client, claim: Make) -> None:
    body = {"metadata": {"name": "t", "namespace": "team"}, "spec": {"spec": claim()["spec"]}}
    client.create(RESOURCE_CLAIM_TEMPLATES, body)

    with pytest.raises(InvalidError, match="field is immutable"):
        client.patch(
            RESOURCE_CLAIM_TEMPLATES, "t", {"spec": {"metadata": {"labels": {"a": "b"}}}}, namespace="team"
        )


def allocation(device: str) -> Object:
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "p", "device": device}
    return {"devices": {"results": [result]}}


def write_status(client: Client, **status: Any) -> Object:
    return client.patch(RESOURCE_CLAIMS, "c", {"status": status}, namespace="team", subresource="status")


def test_an_allocation_can_be_cleared_but_not_changed(client: Client, claim: Make) -> None:
    client.create(RESOURCE_CLAIMS, claim())
    write_status(client, allocation=allocation("gpu-0"))

    with pytest.raises(InvalidError, match=r"status.allocation: Invalid value: .*: field is immutable"):
        write_status(client, allocation=allocation("gpu-1"))

    assert write_status(client, allocation=None)["status"] == {}
    assert write_status(client, allocation=allocation("gpu-1"))["status"]["allocation"] == allocation("gpu-1")


def test_only_an_allocated_claim_can_be_reserved(client: Client, claim: Make) -> None:
    client.create(RESOURCE_CLAIMS, claim())

    with pytest.raises(InvalidError, match=r"status.reservedFor: Forbidden: may not be specified when"):
        write_status(client, reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}])


def test_a_claim_that_is_being_deleted_takes_no_new_reservations(client: Client, claim: Make) -> None:
    client.create(RESOURCE_CLAIMS, claim(finalizers=[FINALIZER]))
    write_status(client, allocation=allocation("gpu-0"))
    client.delete(RESOURCE_CLAIMS, "c", namespace="team")

    with pytest.raises(InvalidError, match="new entries may not be added while"):
        write_status(client, reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}])


def test_device_status_goes_with_the_allocation(client: Client, claim: Make) -> None:
    client.create(RESOURCE_CLAIMS, claim())
    devices = [{"driver": "gpu.nvidia.com", "pool": "p", "device": "gpu-0"}]
    assert (
        write_status(client, allocation=allocation("gpu-0"), devices=devices)["status"]["devices"] == devices
    )

    assert write_status(client, allocation=None)["status"] == {}


def test_invalid_objects_are_refused_with_every_cause(client: Client, claim: Make) -> None:
    body = claim()
    body["spec"]["devices"]["requests"] = [{"name": "A", "exactly": {"deviceClassName": "B_"}}]

    with pytest.raises(InvalidError) as caught:
        client.create(RESOURCE_CLAIMS, body)

    assert caught.value.details is not None
    assert [cause["field"] for cause in caught.value.details["causes"]] == [
        "spec.devices.requests[0].name",
        "spec.devices.requests[0].exactly.deviceClassName",
    ]
    assert caught.value.details["kind"] == "ResourceClaim"


def test_admin_access_needs_the_namespaces_label(client: Client, claim: Make) -> None:
    body = claim()
    body["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True

    with pytest.raises(InvalidError, match="admin access to devices requires the"):
        client.create(RESOURCE_CLAIMS, body)

    label = {"resource.kubernetes.io/admin-access": "true"}
    namespaces = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
    client.patch(namespaces, "team", {"metadata": {"labels": label}})
    assert client.create(RESOURCE_CLAIMS, body)["metadata"]["name"] == "c"


def test_a_wrong_type_is_a_bad_request(client: Client, slice_of: Make) -> None:
    with pytest.raises(BadRequestError, match="cannot unmarshal number into Go struct field"):
        client.create(RESOURCE_SLICES, slice_of(driver=5))


def test_an_object_with_a_finalizer_is_marked_and_goes_when_it_is_removed(
    client: Client, claim: Make
) -> None:
    client.create(RESOURCE_CLAIMS, claim(finalizers=[FINALIZER]))

    client.delete(RESOURCE_CLAIMS, "c", namespace="team")
    marked = client.get(RESOURCE_CLAIMS, "c", "team")["metadata"]
    client.patch(RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": None}}, namespace="team")

    assert marked["deletionTimestamp"]
    assert marked["deletionGracePeriodSeconds"] == 0
    with pytest.raises(NotFoundError):
        client.get(RESOURCE_CLAIMS, "c", "team")


def test_an_object_that_is_being_deleted_takes_no_new_finalizers(client: Client, claim: Make) -> None:
    client.create(RESOURCE_CLAIMS, claim(finalizers=[FINALIZER]))
    client.delete(RESOURCE_CLAIMS, "c", namespace="team")

    more = {"metadata": {"finalizers": [FINALIZER, "example.com/more"]}}
    with pytest.raises(InvalidError, match=r"metadata.finalizers: Forbidden: no new finalizers can be added"):
        client.patch(RESOURCE_CLAIMS, "c", more, namespace="team")


@pytest.mark.parametrize("precondition", [{"uid": "other"}, {"resource_version": "1"}])
def test_a_delete_whose_precondition_fails_conflicts(
    client: Client, claim: Make, precondition: dict[str, Any]
) -> None:
    made = client.create(RESOURCE_CLAIMS, claim())

    with pytest.raises(ObjectConflictError, match="in the precondition"):
        client.delete(RESOURCE_CLAIMS, "c", namespace="team", **precondition)

    client.delete(RESOURCE_CLAIMS, "c", namespace="team", uid=made["metadata"]["uid"])


def test_a_collection_is_deleted_by_selector(client: Client, slice_of: Make) -> None:
    client.create(RESOURCE_SLICES, slice_of("a", "node-a"))
    client.create(RESOURCE_SLICES, slice_of("b", "node-b"))

    client.delete_collection(RESOURCE_SLICES, field_selector="spec.nodeName=node-a")

    assert [item["metadata"]["name"] for item in client.list(RESOURCE_SLICES)["items"]] == ["b"]


def test_a_running_pod_is_given_its_grace_period(client: Client, pod: Make) -> None:
    client.create(PODS, pod(nodeName="node-a"))

    client.delete(PODS, "p", namespace="team")
    ending = client.get(PODS, "p", "team")["metadata"]
    client.delete(PODS, "p", namespace="team", grace_period_seconds=0)

    assert ending["deletionGracePeriodSeconds"] == 30
    assert ending["generation"] == 2
    with pytest.raises(NotFoundError):
        client.get(PODS, "p", "team")


@pytest.mark.parametrize("changes", [{}, {"nodeName": "node-a"}], ids=["not scheduled", "ended"])
def test_a_pod_that_does_not_run_goes_at_once(client: Client, pod: Make, changes: Object) -> None:
    client.create(PODS, pod(**changes))
    phase = {"status": {"phase": "Failed" if changes else "Pending"}}
    client.patch(PODS, "p", phase, namespace="team", subresource="status")

    client.delete(PODS, "p", namespace="team")

    with pytest.raises(NotFoundError):
        client.get(PODS, "p", "team")


def test_only_a_binding_puts_a_pod_on_a_node(server: ApiServer, client: Client, pod: Make) -> None:
    client.create(PODS, pod())
    bindings = Resource("", "v1", "pods/p/binding", "Binding", namespaced=True)
    binding = {"metadata": {"name": "p", "namespace": "team"}, "target": {"kind": "Node", "name": "node-a"}}

    with pytest.raises(InvalidError, match="pod updates may not change fields other than"):
        client.patch(PODS, "p", {"spec": {"nodeName": "node-a"}}, namespace="team")
    client.create(bindings, binding)

    bound = client.get(PODS, "p", "team")
    assert bound["spec"]["nodeName"] == "node-a"
    assert [entry["type"] for entry in bound["status"]["conditions"]] == ["PodScheduled"]
    with pytest.raises(ObjectConflictError, match='pod p is already assigned to node "node-a"'):
        client.create(bindings, binding)


def test_a_binding_is_for_the_pod_that_was_meant_and_not_for_one_that_ends(client: Client, pod: Make) -> None:
    binding = Resource("", "v1", "pods/p/binding", "Binding", namespaced=True)
    body = {"metadata": {"name": "p", "namespace": "team", "uid": "older"}, "target": {"name": "node-a"}}
    held = pod()
    held["metadata"]["finalizers"] = [FINALIZER]
    client.create(PODS, held)

    with pytest.raises(ObjectConflictError, match=r"the UID in the precondition \(older\)"):
        client.create(binding, body)
    client.delete(PODS, "p", namespace="team")
    body["metadata"].pop("uid")
    with pytest.raises(ObjectConflictError, match="pod p is being deleted"):
        client.create(binding, body)


def test_a_pods_claims_must_be_declared(client: Client, pod: Make) -> None:
    container = {"name": "c", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}

    with pytest.raises(InvalidError, match=r'spec.containers\[0\].resources.claims\[0\]: Not found: "gpu"'):
        client.create(PODS, pod(containers=[container]))


def test_lists_leave_kind_and_version_to_the_list(server: ApiServer, client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "node-a"}})

    listed = client.raw_get("/api/v1/nodes")

    assert (listed["kind"], listed["apiVersion"]) == ("NodeList", "v1")
    assert set(listed["items"][0]) == {"metadata", "spec", "status"}


def test_a_long_list_comes_in_pages_of_one_revision(client: Client, slice_of: Make) -> None:
    for number in range(5):
        client.create(RESOURCE_SLICES, slice_of(f"s{number}"))

    first = client.raw_get("/apis/resource.k8s.io/v1/resourceslices?limit=2")
    client.create(RESOURCE_SLICES, slice_of("later"))
    token = first["metadata"]["continue"]
    second = client.raw_get(f"/apis/resource.k8s.io/v1/resourceslices?limit=2&continue={token}")

    assert [item["metadata"]["name"] for item in first["items"]] == ["s0", "s1"]
    assert first["metadata"]["remainingItemCount"] == 3
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert [len(page["items"]) for page in client.pages(RESOURCE_SLICES, limit=2)] == [2, 2, 2]


def test_a_continue_token_dies_with_the_history(server: ApiServer, client: Client, slice_of: Make) -> None:
    for number in range(3):
        client.create(RESOURCE_SLICES, slice_of(f"s{number}"))
    token = client.raw_get("/apis/resource.k8s.io/v1/resourceslices?limit=1")["metadata"]["continue"]
    client.create(RESOURCE_SLICES, slice_of("later"))
    server.faults.forget_history()

    with pytest.raises(ResponseError, match="continue parameter is too old") as caught:
        client.raw_get(f"/apis/resource.k8s.io/v1/resourceslices?limit=1&continue={token}")

    assert caught.value.reason == "Expired"


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/apis/resource.k8s.io/v1/deviceclasses?resourceVersion=x", 400, "invalid resource version"),
        ("/apis/resource.k8s.io/v1/deviceclasses?resourceVersion=999999", 504, "Too large resource version"),
        ("/apis/resource.k8s.io/v1/deviceclasses?limit=x", 400, "strconv.ParseInt"),
        ("/apis/resource.k8s.io/v1/deviceclasses?continue=x", 400, "continue key is not valid"),
        ("/apis/resource.k8s.io/v1/nothings", 404, "could not find the requested resource"),
        ("/apis/resource.k8s.io/v1/namespaces/team/resourceslices", 404, "could not find"),
    ],
)
def test_bad_requests_are_told_apart(client: Client, path: str, status: int, text: str) -> None:
    with pytest.raises(ApiError, match=text) as caught:
        client.raw_get(path)

    assert isinstance(caught.value, ResponseError)
    assert caught.value.status == status


def test_fields_of_disabled_features_are_dropped_silently(slice_of: Make, tmp_path: Any) -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}]
    body = slice_of(devices=[{"name": "gpu-0", "taints": taints}])
    with ApiServer(disabled_features={"DRADeviceTaints"}) as server:
        made = server.store.create(RESOURCE_SLICES, body)

    assert made["spec"]["devices"] == [{"name": "gpu-0"}]


def test_a_disabled_partition_type_is_refused_not_dropped(client: Client, slice_of: Make) -> None:
    with pytest.raises(InvalidError, match=r"spec.partitionTypeAttribute: Forbidden"):
        client.create(RESOURCE_SLICES, slice_of(partitionTypeAttribute="gpu.nvidia.com/profile"))


def test_a_class_can_be_changed(client: Client) -> None:
    client.create(DEVICE_CLASSES, {"metadata": {"name": "gpu.nvidia.com"}, "spec": {}})

    changed = client.patch(
        DEVICE_CLASSES, "gpu.nvidia.com", {"spec": {"extendedResourceName": "nvidia.com/gpu"}}
    )

    assert changed["spec"] == {"extendedResourceName": "nvidia.com/gpu"}
    assert changed["metadata"]["generation"] == 2


def test_an_object_is_served_in_every_version_whichever_it_was_written_in(
    client: Client, claim: Make
) -> None:
    flat = dataclasses.replace(RESOURCE_CLAIMS, version="v1beta1")
    request = {"name": "gpu", "deviceClassName": "gpu.nvidia.com"}
    client.create(RESOURCE_CLAIMS, claim("new"))
    old = {"metadata": {"name": "old", "namespace": "team"}, "spec": {"devices": {"requests": [request]}}}
    client.create(flat, old)

    for resource in (RESOURCE_CLAIMS, flat):
        listed = client.list(resource, namespace="team")["items"]
        requests = [item["spec"]["devices"]["requests"][0] for item in listed]
        assert [resource is flat] * 2 == ["deviceClassName" in request for request in requests]
        assert {resource.api_version} == {item["apiVersion"] for item in listed}


def test_a_patch_of_an_old_version_is_one_of_its_fields(client: Client, slice_of: Make) -> None:
    flat = dataclasses.replace(RESOURCE_SLICES, version="v1beta1")
    client.create(RESOURCE_SLICES, slice_of())
    devices = [{"name": "gpu-0", "basic": {"attributes": {"a": {"int": 1}}}}]

    patched = client.patch(flat, "s", {"spec": {"devices": devices}})

    assert devices == patched["spec"]["devices"]
    stored = client.get(RESOURCE_SLICES, "s")
    assert [{"name": "gpu-0", "attributes": {"a": {"int": 1}}}] == stored["spec"]["devices"]


def test_a_secret_takes_texts_and_gives_bytes(client: Client) -> None:
    secret = {"metadata": {"name": "s", "namespace": "team"}, "stringData": {"a": "b"}}

    made = client.create(SECRETS, secret)

    assert ({"a": "Yg=="}, "Opaque") == (made["data"], made["type"])

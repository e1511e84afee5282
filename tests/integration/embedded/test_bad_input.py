"""No body, however wrong, makes the server fail: it is the client's fault, and it is told so."""

import http.client
import json
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube import resources

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
PODS = "/api/v1/namespaces/team/pods"
PATHS = [
    "/api/v1/nodes",
    "/api/v1/namespaces",
    PODS,
    f"{PODS}/x",
    f"{PODS}/x/binding",
    f"{PODS}/x/eviction",
    "/api/v1/namespaces/team/bindings",
    CLAIMS,
    f"{CLAIMS}/c/status",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
]
BODIES: list[Any] = [
    b"",
    b"{",
    b"\xff\xfe",
    None,
    [],
    5,
    [None],
    {"metadata": None},
    {"metadata": 5},
    {"metadata": {"name": 5}},
    {"metadata": {"name": "c", "managedFields": [{"manager": "a", "fieldsV1": {"f:x": 5}}]}},
    {"metadata": {"name": "c", "ownerReferences": [{}]}},
    {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [None]}}},
    {"metadata": {"name": "c"}, "spec": {"devices": [None]}},
    {"metadata": {"name": "c"}, "spec": {"containers": [None]}},
    {"metadata": {"name": "c"}, "webhooks": [None]},
    {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "5"}}},
    {"target": 5},
    {"deleteOptions": 5},
    {"preconditions": 5, "gracePeriodSeconds": "x"},
    {"$patch": "delete"},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": 5}},
    {"metadata": {"$setElementOrder/finalizers": 5}},
    [{"op": "replace", "path": "", "value": 5}],
    [{"op": "remove", "path": "/metadata"}],
]
PATCHES = [
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]
REQUESTS = [
    *((method, "application/json") for method in ("POST", "PUT", "DELETE")),
    *(("PATCH", content_type) for content_type in PATCHES),
]


@pytest.mark.parametrize(("method", "content_type"), REQUESTS)
def test_wrong_bodies_are_the_clients_fault(
    server: ApiServer, claim: Any, pod: Any, method: str, content_type: str
) -> None:

    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    failed = []
    for path in PATHS:
        for body in BODIES:
            if not server.store.list(resources.PODS)["items"]:
                server.store.create(resources.PODS, pod("x"))
            if not server.store.list(resources.RESOURCE_CLAIMS)["items"]:
                server.store.create(resources.RESOURCE_CLAIMS, claim())
            sent = body if isinstance(body, bytes) else json.dumps(body)
            headers = {"Content-Type": content_type}
            connection.request(method, f"{path}?fieldManager=me", sent, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 500:
                failed.append((path, body, text))
    connection.close()

    assert failed == []


def test_unknown_fields_are_warned_of_refused_or_ignored_as_asked(server: ApiServer, claim: Any) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    body = claim()
    body["spec"]["surplus"] = 1

    def create(validation: str) -> tuple[int, str | None, Any]:
        query = f"dryRun=All&fieldValidation={validation}"
        connection.request(
            "POST", f"{CLAIMS}?{query}", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, answer.getheader("Warning"), json.loads(answer.read())

    warned, refused, ignored, wrong = (create(name) for name in ("Warn", "Strict", "Ignore", "Maybe"))
    connection.close()

    assert warned[:2] == (201, '299 - "unknown field \\"spec.surplus\\""')
    assert "surplus" not in warned[2]["spec"]
    assert refused[0] == 400
    assert refused[2]["message"].endswith('strict decoding error: unknown field "spec.surplus"')
    assert ignored[:2] == (201, None)
    assert (wrong[0], wrong[2]["details"]["causes"][0]["field"]) == (422, "fieldValidation")
    assert server.store.list(resources.RESOURCE_CLAIMS)["items"] == []

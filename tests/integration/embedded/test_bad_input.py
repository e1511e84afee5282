"""No body, however wrong, makes the server fail: it is the client's fault, and it is told so."""

import base64
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
    {"spec": {"$deleteFromPrimitiveList/terminationGracePeriodSeconds": [1]}},
    [{"op": "replace", "path": "", "value": 5}],
    [{"op": "remove", "path": "/metadata"}],
    [{"op": "remove", "path": ""}],
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

    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=90)
    failed = []
    for path in PATHS:
        for body in BODIES:
            if not server.store.list(resources.PODS):
                server.store.create(resources.PODS, pod("x"))
            if not server.store.list(resources.RESOURCE_CLAIMS):
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


TOKEN = base64.b64encode(b'{"rv": 1, "start": ["a"]}').decode()
DEEP = b"[" * 100_000 + b"]" * 100_000
CLAIM = """{"metadata": {"name": "c"}, "spec": {"devices": {
    "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
    "config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": {"a": PARAMETER}}}]}}}"""


@pytest.mark.parametrize(
    "parameter",
    ["NaN", "-Infinity", "1e999", "[" * 500 + "]" * 500],
    ids=["NaN", "infinity", "large", "deep"],
)
def test_what_other_clients_could_not_read_is_not_stored(server: ApiServer, parameter: str) -> None:
    assert ask(server, "POST", CLAIMS, CLAIM.replace("PARAMETER", parameter).encode())[0] == 400
    assert ask(server, "POST", CLAIMS, CLAIM.replace("PARAMETER", "1e9").encode())[0] == 201


def test_half_a_surrogate_pair_spoils_no_list(server: ApiServer) -> None:
    body = b'{"metadata": {"name": "n", "annotations": {"a": "\\ud800"}}}'

    assert ask(server, "POST", "/api/v1/nodes", body)[0] == 201
    [node] = ask(server, "GET", "/api/v1/nodes", b"")[1]["items"]
    assert node["metadata"]["annotations"] == {"a": "?"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"/api/v1/nodes?limit={'9' * 5000}", b""),
        ("GET", f"/api/v1/nodes?resourceVersion={'9' * 5000}", b""),
        ("GET", f"/api/v1/nodes?labelSelector=a%3E{'9' * 5000}", b""),
        ("GET", f"/api/v1/nodes?continue={TOKEN}", b""),
        ("DELETE", f"{PODS}/p", b'{"gracePeriodSeconds": 99999999999999999999}'),
        ("POST", PODS, b'{"metadata": {"name": "q"}, "spec": {"priority": 99999999999999999999}}'),
        ("POST", "/api/v1/nodes", DEEP),
        ("PATCH", "/api/v1/nodes/n", DEEP),
    ],
    ids=["limit", "version", "label", "continue", "grace", "integer", "deep", "deep patch"],
)
def test_what_is_too_large_or_too_deep_is_the_clients_fault(
    server: ApiServer, method: str, path: str, body: bytes
) -> None:
    assert ask(server, method, path, body)[0] == 400


@pytest.mark.parametrize(
    ("header", "code", "text"),
    [
        (("Content-Length", "many"), 400, b"with its Content-Length"),
        (("Transfer-Encoding", "chunked"), 400, b"with its Content-Length"),
        (("Content-Length", str(10**12)), 413, b"Request entity too large: limit is 3145728"),
    ],
    ids=["no number", "chunks", "too large"],
)
def test_a_body_that_cannot_be_read_is_refused(
    server: ApiServer, header: tuple[str, str], code: int, text: bytes
) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=90)
    connection.putrequest("POST", "/api/v1/nodes")
    connection.putheader(*header)
    connection.endheaders()
    answer = connection.getresponse()

    assert (answer.status, answer.getheader("Content-Type")) == (code, "application/json")
    assert text in answer.read()
    connection.close()


def ask(server: ApiServer, method: str, path: str, body: bytes) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=90)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    connection.request(method, path, body, {"Content-Type": kind})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text)


def test_unknown_fields_are_warned_of_refused_or_ignored_as_asked(server: ApiServer, claim: Any) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=90)
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
    assert server.store.list(resources.RESOURCE_CLAIMS) == []

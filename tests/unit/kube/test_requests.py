"""What the client sends, and what it makes of answers."""

from collections.abc import Callable

import pytest

from dra_driver import __version__
from dra_driver.errors import UnavailableError
from dra_driver.kube import errors
from dra_driver.kube.client import Client
from dra_driver.kube.endpoint import Endpoint, StaticToken
from dra_driver.kube.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_driver.kube.scripted import Answer, Drop, ScriptedServer, Silence, status

Serve = Callable[..., tuple[ScriptedServer, Client]]


def test_get_asks_for_the_object_by_namespace_and_name(serve: Serve) -> None:
    server, client = serve(Answer(body={"kind": "ResourceClaim"}))
    assert client.get(RESOURCE_CLAIMS, "claim", "team") == {"kind": "ResourceClaim"}
    (request,) = server.requests
    assert request.method == "GET"
    assert request.path == "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/claim"
    assert request.headers["user-agent"] == f"dra-driver/{__version__}"


def test_requests_share_one_connection(serve: Serve) -> None:
    server, client = serve()
    for _ in range(5):
        client.get(NODES, "n")
    assert len(server.connections) == 1


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_leave_the_collection_is_never_sent(serve: Serve, name: str) -> None:
    server, client = serve()
    with pytest.raises(ValueError, match="no name of a Node"):
        client.get(NODES, name)
    assert server.requests == []


def test_a_name_is_quoted(serve: Serve) -> None:
    server, client = serve()
    client.get(NODES, "a/b?c")
    assert server.requests[0].path == "/api/v1/nodes/a%2Fb%3Fc"


def test_pages_follow_continue_and_fill_in_the_kind(serve: Serve) -> None:
    pages = [
        {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]},
        {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "b"}}]},
    ]
    server, client = serve(*(Answer(body=page) for page in pages))
    found = client.pages(RESOURCE_SLICES, field_selector="spec.driver=d", limit=1)
    items = [item for page in found for item in page["items"]]
    assert [item["metadata"]["name"] for item in items] == ["a", "b"]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("resource.k8s.io/v1", "ResourceSlice")}
    assert server.requests[0].query == {"fieldSelector": "spec.driver=d", "limit": "1"}
    assert server.requests[1].query == {"fieldSelector": "spec.driver=d", "limit": "1", "continue": "more"}


def test_an_empty_list_may_have_no_items(serve: Serve) -> None:
    _, client = serve(Answer(body={"metadata": {"resourceVersion": "1"}, "items": None}))
    assert client.list(NODES)["items"] == []


def test_create_takes_the_namespace_of_the_body(serve: Serve) -> None:
    server, client = serve(Answer(201, {}))
    body = {"metadata": {"name": "c", "namespace": "team"}}
    client.create(RESOURCE_CLAIMS, body)
    (request,) = server.requests
    assert (request.method, request.path) == (
        "POST",
        "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims",
    )
    assert request.body == body
    assert request.headers["content-type"] == "application/json"


def test_replace_may_name_a_subresource(serve: Serve) -> None:
    server, client = serve()
    client.replace(RESOURCE_CLAIMS, {"metadata": {"name": "c", "namespace": "team"}}, subresource="status")
    assert server.requests[0].method == "PUT"
    assert server.requests[0].path.endswith("/namespaces/team/resourceclaims/c/status")


def test_apply_is_a_patch_with_its_content_type(serve: Serve) -> None:
    server, client = serve()
    client.patch(
        NODES, "n", {"a": 1}, content_type="application/apply-patch+yaml", field_manager="m", force=True
    )
    (request,) = server.requests
    assert request.method == "PATCH"
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    assert request.query == {"fieldManager": "m", "force": "true"}


def test_delete_sends_preconditions_only_when_given(serve: Serve) -> None:
    server, client = serve()
    client.delete(RESOURCE_SLICES, "s", uid="u", resource_version="3")
    client.delete(RESOURCE_SLICES, "s")
    assert server.requests[0].body["preconditions"] == {"uid": "u", "resourceVersion": "3"}
    assert server.requests[1].body is None


def test_delete_collection_carries_the_selector(serve: Serve) -> None:
    server, client = serve()
    client.delete_collection(RESOURCE_SLICES, field_selector="spec.nodeName=n")
    assert (server.requests[0].method, server.requests[0].query) == (
        "DELETE",
        {"fieldSelector": "spec.nodeName=n"},
    )


def test_a_server_behind_a_path_is_asked_below_it() -> None:
    with ScriptedServer() as server:
        client = Client(Endpoint(f"{server.url}/k8s/clusters/c1", StaticToken("t")))
        client.raw_get("/version")
        client.close()
    assert server.requests[0].path == "/k8s/clusters/c1/version"
    assert server.requests[0].headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequestError),
        (401, "Unauthorized", errors.UnauthorizedError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (405, "MethodNotAllowed", errors.BadRequestError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (409, "Conflict", errors.ObjectConflictError),
        (410, "Expired", errors.GoneError),
        (413, "RequestEntityTooLarge", errors.BadRequestError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (504, "Timeout", errors.ServerError),
    ],
)
def test_each_refusal_has_its_class(
    serve: Serve, code: int, reason: str, kind: type[errors.ResponseError]
) -> None:
    _, client = serve(status(code, reason, "because", causes=[]))
    with pytest.raises(errors.ResponseError) as caught:
        client.get(RESOURCE_CLAIMS, "c", "team")
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason) == (code, reason)
    assert caught.value.details == {"causes": []}
    assert str(caught.value) == f"cannot get ResourceClaim team/c: because ({code})"


def test_a_redirect_is_an_error_and_not_followed(serve: Serve) -> None:
    server, client = serve(Answer(302, b"", {"Location": "/elsewhere"}))
    with pytest.raises(errors.ResponseError, match=r"\(302\)"):
        client.get(NODES, "n")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Answer(429, b"", {"Retry-After": "7"}), 7.0),
        (status(429, "TooManyRequests", retryAfterSeconds=3), 3.0),
        (status(429, "TooManyRequests"), None),
        (Answer(429, b"", {"Retry-After": "inf"}), 300.0),
        (Answer(429, b"", {"Retry-After": "Fri, 31 Dec 2027 23:59:59 GMT"}), None),
    ],
    ids=["header", "details", "neither", "endless", "date"],
)
def test_retry_after_is_read(serve: Serve, answer: Answer, seconds: float | None) -> None:
    _, client = serve(answer)
    with pytest.raises(errors.TooManyRequestsError) as caught:
        client.get(NODES, "n")
    assert caught.value.retry_after == seconds


def test_the_text_of_an_answer_that_is_no_status_is_one_short_line(serve: Serve) -> None:
    _, client = serve(Answer(502, b"<html>\n" + b"x" * 5000))
    with pytest.raises(errors.ServerError) as caught:
        client.get(NODES, "n")
    assert str(caught.value) == f"cannot get Node n: <html> {'x' * 249} (502)"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"kind": "Status", "code": "many", "details": [], "message": [1], "reason": {}}',
        b'{"kind": "Status", "details": {"retryAfterSeconds": "nan"}}',
    ],
    ids=["deep", "of other types", "no number"],
)
def test_a_refusal_of_another_shape_is_a_refusal(serve: Serve, body: bytes) -> None:
    _, client = serve(Answer(503, body))
    with pytest.raises(errors.ServerError, match=r"cannot get Node n: .*\(503\)"):
        client.get(NODES, "n")


@pytest.mark.parametrize("body", [b"no json", b"[]", b"", b"[" * 100_000])
def test_success_without_an_object_counts_as_no_answer(serve: Serve, body: bytes) -> None:
    _, client = serve(Answer(200, body))
    with pytest.raises(UnavailableError, match="no JSON object"):
        client.get(NODES, "n")


def test_a_get_whose_connection_broke_is_sent_once_more(serve: Serve) -> None:
    server, client = serve(Drop(), Answer(body={"kind": "Node"}))
    assert client.get(NODES, "n") == {"kind": "Node"}
    assert len(server.requests) == 2


def test_a_get_is_not_sent_a_third_time(serve: Serve) -> None:
    server, client = serve(Drop(), Drop(), Answer())
    with pytest.raises(
        UnavailableError, match=r"cannot get Node n: no answer from http:\S+ \(the connection broke\)"
    ):
        client.get(NODES, "n")
    assert len(server.requests) == 2


def test_a_write_whose_connection_broke_is_left_to_the_caller(serve: Serve) -> None:
    server, client = serve(Drop(), Answer())
    with pytest.raises(UnavailableError):
        client.create(NODES, {"metadata": {"name": "n"}})
    assert len(server.requests) == 1


def test_a_silent_server_is_given_up(serve: Serve) -> None:
    server, client = serve(Silence(), timeout=2.0)  # in which the second request is answered
    with pytest.raises(UnavailableError, match="silent for too long"):
        client.get(NODES, "n")
    client.get(NODES, "n")
    assert len(server.connections) == 2


def test_nobody_listening_is_said_without_addresses_of_objects() -> None:
    with ScriptedServer() as server:
        url = server.url
    client = Client(Endpoint(url, StaticToken()))
    with pytest.raises(UnavailableError) as caught:
        client.get(NODES, "n")
    assert str(caught.value) == f"cannot get Node n: no answer from {url} (connection refused)"
    client.close()

"""Large lists: they come in pages, and only what is needed of each object is kept."""

import threading
from collections.abc import Callable
from typing import Any

from dra_driver.kube.client import Client
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import PODS
from dra_driver.kube.scripted import Answer, ScriptedServer, Stream, status

Serve = Callable[..., tuple[ScriptedServer, Client]]
HOLD = Stream(hold=True)


def pod(name: str, version: int, **content: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, **content}


def page(version: int, *items: dict[str, Any], more: str = "") -> Answer:
    return Answer(
        body={"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}
    )


def small(obj: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": obj["metadata"]}


def followed(client: Client, **options: Any) -> Reflector:
    reflector = Reflector(client, PODS, **options)
    reflector.start()
    assert reflector.synced.wait(60)
    return reflector


def test_a_list_comes_in_pages_and_is_followed_from_its_version(serve: Serve) -> None:
    server, client = serve(page(7, pod("a", 1), more="next"), page(7, pod("b", 2)), HOLD)
    reflector = followed(client)
    assert sorted(p["metadata"]["name"] for p in reflector.snapshot()) == ["a", "b"]
    queries = [request.query for request in server.wait_for(3)]
    reflector.stop()
    assert [query.get("continue") for query in queries] == [None, "next", None]
    assert queries[2]["resourceVersion"] == "7"


def test_an_object_that_is_nested_too_deep_hides_no_other(serve: Serve) -> None:
    """Opaque parameters of a claim may be nested thousands deep, and anybody may create one."""
    deep = b"[" * 4_000 + b"]" * 4_000
    line = (
        b'{"type":"ADDED","object":{"metadata":{"name":"c","uid":"u","resourceVersion":"8"},"x":%s}}\n' % deep
    )
    items = b'[{"metadata":{"name":"a","uid":"ua","resourceVersion":"1"},"x":%s},{"metadata":{"name":"b","uid":"ub"}}]'
    body = b'{"metadata":{"resourceVersion":"7"},"items":' + items % deep + b"}"
    heard = threading.Event()

    _, client = serve(Answer(body=body), Stream([line], hold=True))
    reflector = followed(
        client, on_event=lambda _, obj: heard.set() if obj["metadata"]["name"] == "c" else None
    )

    assert heard.wait(60)
    assert sorted(p["metadata"]["name"] for p in reflector.snapshot()) == ["a", "b", "c"]
    reflector.stop()


def test_pages_that_have_expired_are_replaced_by_one_whole_list(serve: Serve) -> None:
    server, client = serve(
        page(7, pod("a", 1), more="next"),
        status(410, "Expired"),
        page(9, pod("a", 1), pod("b", 8)),
        HOLD,
    )
    reflector = followed(client)
    assert sorted(p["metadata"]["name"] for p in reflector.snapshot()) == ["a", "b"]
    reflector.stop()
    assert "limit" not in server.requests[2].query


def test_what_is_kept_and_handed_on_is_what_transform_makes(serve: Serve) -> None:
    heard: list[dict[str, Any]] = []
    changed = threading.Event()

    def on_event(_: str, obj: dict[str, Any]) -> None:
        heard.append(obj)
        if len(heard) == 2:
            changed.set()

    renamed = pod("b", 3, spec={"large": 2})
    _, client = serve(
        page(2, pod("a", 1, spec={"large": 1})), Stream([{"type": "ADDED", "object": renamed}], hold=True)
    )
    reflector = followed(client, transform=small, on_event=on_event)
    assert changed.wait(60)
    reflector.stop()
    assert heard == [small(pod("a", 1)), small(pod("b", 3))]
    assert reflector.snapshot() == heard


def test_a_new_list_keeps_the_objects_that_have_not_changed(serve: Serve) -> None:
    made: list[str] = []

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        made.append(obj["metadata"]["name"])
        return small(obj)

    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    server, client = serve(
        page(2, pod("a", 1), pod("b", 2)),
        Stream([expired]),
        page(5, pod("a", 1), pod("b", 4)),
        HOLD,
    )
    reflector = followed(client, transform=transform)
    server.wait_for(4)
    reflector.stop()
    assert made == ["a", "b", "b"]


def test_a_change_to_what_is_not_kept_is_no_news(serve: Serve) -> None:
    heard: list[str] = []
    changed = threading.Event()

    def on_event(_: str, obj: dict[str, Any]) -> None:
        heard.append(obj["metadata"]["resourceVersion"])
        if obj["metadata"]["resourceVersion"] == "4":
            changed.set()

    same, other = pod("a", 3, status={"heartbeat": 2}), pod("a", 4)
    other["metadata"]["labels"] = {"new": "label"}
    events = [{"type": "MODIFIED", "object": one} for one in (same, other)]
    _, client = serve(page(2, pod("a", 1, status={"heartbeat": 1})), Stream(events, hold=True))
    reflector = followed(client, transform=small, on_event=on_event)
    assert changed.wait(60)
    reflector.stop()
    assert heard == ["1", "4"]

"""A copy that follows the server, and does not hammer it."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra_driver.kube.client import Client
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import PODS
from dra_driver.kube.scripted import Answer, Drop, Reply, Request, ScriptedServer, Stream, status

Serve = Callable[..., tuple[ScriptedServer, Client]]


def pod(name: str, version: int, uid: str = "") -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def listing(version: int, *items: dict[str, Any]) -> Answer:
    return Answer(body={"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


class Seen:
    """Collects events, and lets a test wait for one."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self._changed = threading.Condition()

    def __call__(self, kind: str, obj: dict[str, Any]) -> None:
        with self._changed:
            self.events.append((kind, obj["metadata"]["name"]))
            self._changed.notify_all()

    def wait_for(self, *expected: tuple[str, str]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self.events) >= len(expected), 60)
        assert self.events == list(expected)


@pytest.fixture
def follow() -> Iterator[Callable[..., Reflector]]:
    started: list[Reflector] = []

    def start(client: Client, on_event: Callable[[str, dict[str, Any]], None] | None = None) -> Reflector:
        reflector = Reflector(client, PODS, field_selector="spec.nodeName=n", on_event=on_event)
        started.append(reflector)
        reflector.start()
        return reflector

    yield start
    for reflector in started:
        reflector.stop()


Follow = Callable[..., Reflector]
HOLD = Stream(hold=True)


def versions(server: ScriptedServer) -> list[str | None]:
    """The resource version each watch started from; None for a list."""
    return [r.query.get("resourceVersion") if "watch" in r.query else None for r in server.requests]


def test_it_lists_then_watches_from_there(serve: Serve, follow: Follow) -> None:
    seen = Seen()
    server, client = serve(
        listing(5, pod("a", 3)),
        Stream(
            [event("MODIFIED", pod("a", 6)), event("ADDED", pod("b", 7)), event("DELETED", pod("a", 8))],
            hold=True,
        ),
    )
    reflector = follow(client, seen)
    seen.wait_for(("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a"))
    assert reflector.synced.is_set()
    assert [p["metadata"]["name"] for p in reflector.snapshot()] == ["b"]
    assert reflector.get("b", "ns") == pod("b", 7)
    assert reflector.get("a", "ns") is None
    assert versions(server) == [None, "5"]
    assert server.requests[0].query == {"fieldSelector": "spec.nodeName=n", "limit": "250"}


def test_the_next_watch_starts_at_the_last_bookmark(serve: Serve, follow: Follow) -> None:
    server, client = serve(listing(5), Stream([event("BOOKMARK", pod("", 90))]), HOLD)
    follow(client)
    server.wait_for(3)
    assert versions(server) == [None, "5", "90"]


def test_410_means_list_again_and_what_is_gone_is_told(serve: Serve, follow: Follow) -> None:
    seen = Seen()
    gone = event("ERROR", status(410, "Expired").body)
    server, client = serve(
        listing(5, pod("a", 1), pod("b", 2), pod("c", 3)),
        Stream([event("BOOKMARK", pod("", 6)), gone]),
        listing(9, pod("b", 2), pod("c", 8), pod("d", 9)),
        HOLD,
    )
    reflector = follow(client, seen)
    added = [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    seen.wait_for(*added, ("DELETED", "a"), ("MODIFIED", "c"), ("ADDED", "d"))
    assert sorted(p["metadata"]["name"] for p in reflector.snapshot()) == ["b", "c", "d"]
    server.wait_for(4)
    assert versions(server) == [None, "5", None, "9"]


def test_a_pod_made_again_under_its_name_replaces_the_old_one(serve: Serve, follow: Follow) -> None:
    seen = Seen()
    late = [event("ADDED", pod("a", 9, "new")), event("DELETED", pod("a", 8, "uid-a"))]
    _, client = serve(listing(5, pod("a", 1)), Stream([*late, event("ADDED", pod("z", 10))], hold=True))
    reflector = follow(client, seen)
    seen.wait_for(("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "z"))
    assert reflector.get("a", "ns") == pod("a", 9, "new")


@pytest.mark.parametrize(
    "reply",
    [Stream(), Drop(), status(410, "Expired"), status(500, "InternalError"), status(403, "Forbidden")],
    ids=["ends", "drops", "410", "500", "403"],
)
def test_a_server_that_ends_each_watch_at_once_is_asked_about_once_a_second(
    serve: Serve, follow: Follow, reply: Reply
) -> None:
    came: list[float] = []  # when, before it was answered: the pause begins afterwards

    def otherwise(request: Request) -> Reply:
        came.append(time.monotonic())
        return reply if "watch" in request.query else listing(5)

    tries = 3 if isinstance(reply, Drop) else 2  # a list and a watch, which is sent again when dropped
    server, client = serve()
    server.otherwise = otherwise
    with capture_logs():
        follow(client)
        while len(came) <= tries:
            time.sleep(0.01)
    assert came[tries] - came[tries - 1] > 0.99


def test_it_survives_a_server_that_is_away(serve: Serve, follow: Follow) -> None:
    _, client = serve(Drop(), Drop(), listing(5, pod("a", 1)), HOLD)
    with capture_logs() as logs:
        reflector = follow(client)
        assert reflector.synced.wait(60)
    assert [entry["event"] for entry in logs] == ["cannot follow"]
    assert (reflector.error, reflector.get("a", "ns")) == (None, pod("a", 1))


def test_a_watch_that_follows_again_is_no_error_any_more(serve: Serve, follow: Follow) -> None:
    seen = Seen()
    refusal, news = status(500, "InternalError"), Stream([event("ADDED", pod("a", 6))], hold=True)
    _, client = serve(listing(5), refusal, news)
    reflector = follow(client, seen)
    seen.wait_for(("ADDED", "a"))
    assert reflector.error is None


def test_a_handler_that_raises_is_logged_and_the_next_event_still_comes(serve: Serve, follow: Follow) -> None:
    seen = Seen()

    def handler(kind: str, obj: dict[str, Any]) -> None:
        seen(kind, obj)
        if obj["metadata"]["name"] == "a":
            raise RuntimeError

    _, client = serve(listing(5, pod("a", 1)), Stream([event("ADDED", pod("b", 6))], hold=True))
    with capture_logs() as logs:
        follow(client, handler)
        seen.wait_for(("ADDED", "a"), ("ADDED", "b"))
    assert [entry["event"] for entry in logs] == ["handler failed"]


class TestOwnWrites:
    """The copy is never turned back: by news older than our own writes, nor by an answer older than the news."""

    @pytest.mark.parametrize(
        ("news", "left"),
        [
            (event("MODIFIED", pod("a", 9)), [pod("a", 9)]),
            (event("DELETED", pod("a", 9)), []),
            (event("ADDED", pod("a", 9, uid="another")), [pod("a", 9, uid="another")]),
        ],
    )
    def test_an_answer_that_is_older_than_the_news_is_left_out(
        self, serve: Serve, follow: Follow, news: dict[str, Any], left: list[dict[str, Any]]
    ) -> None:
        seen = Seen()
        _, client = serve(listing(5, pod("a", 5)), Stream([news], hold=True))
        reflector = follow(client, seen)
        seen.wait_for(("ADDED", "a"), ("MODIFIED" if left else "DELETED", "a"))
        reflector.adopt(pod("a", 8))
        assert reflector.snapshot() == left

    def test_an_answer_for_what_a_list_does_not_show_any_more_is_left_out(
        self, serve: Serve, follow: Follow
    ) -> None:
        server, client = serve(listing(9), HOLD)
        reflector = follow(client)
        server.wait_for(2)
        reflector.adopt(pod("made-and-deleted", 8))
        assert reflector.snapshot() == []

    def test_what_was_made_again_is_not_forgotten(self, serve: Serve, follow: Follow) -> None:
        server, client = serve(listing(5, pod("a", 5, uid="new")), HOLD)
        reflector = follow(client)
        server.wait_for(2)
        reflector.forget(pod("a", 1, uid="old"))
        assert reflector.snapshot() == [pod("a", 5, uid="new")]

    def test_an_adopted_object_stays_against_older_news_and_its_own_event_is_not_told(
        self, serve: Serve, follow: Follow
    ) -> None:
        seen = Seen()
        server, client = serve(listing(5), HOLD)
        reflector = follow(client, seen)
        server.wait_for(2)
        reflector.adopt(pod("a", 8))
        reflector._take("MODIFIED", pod("a", 7))
        reflector._take("MODIFIED", pod("a", 8))
        assert reflector.get("a", "ns") == pod("a", 8)
        reflector._take("MODIFIED", pod("a", 9))
        seen.wait_for(("MODIFIED", "a"))

    def test_an_answer_that_comes_while_its_news_is_taken_in_is_there_at_once(self, serve: Serve) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def slowly(obj: dict[str, Any]) -> dict[str, Any]:
            if obj == pod("a", 6) and not begun.is_set():
                begun.set()
                go_on.wait(60)
            return obj

        _, client = serve(listing(5), Stream([event("ADDED", pod("a", 6))], hold=True))
        reflector = Reflector(client, PODS, transform=slowly)
        reflector.start()
        assert begun.wait(60)
        reflector.adopt(pod("a", 6))
        found = reflector.get("a", "ns")
        go_on.set()
        reflector.stop()
        assert found == reflector.get("a", "ns") == pod("a", 6)

    def test_an_answer_that_comes_while_a_list_is_told_of_is_there_at_once(
        self, serve: Serve, follow: Follow
    ) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def slowly(_kind: str, _obj: dict[str, Any]) -> None:
            begun.set()
            go_on.wait(60)

        _, client = serve(listing(5, pod("a", 3), pod("b", 4)), HOLD)
        reflector = follow(client, slowly)
        assert begun.wait(60)
        reflector.adopt(pod("b", 4))
        found = reflector.get("b", "ns")
        go_on.set()
        assert found == pod("b", 4)

    def test_a_forgotten_object_does_not_come_back(self, serve: Serve, follow: Follow) -> None:
        server, client = serve(listing(5, pod("a", 1)), HOLD)
        reflector = follow(client)
        server.wait_for(2)
        reflector.forget(pod("a", 1))
        reflector._take("MODIFIED", pod("a", 6))
        assert reflector.snapshot() == []

    def test_after_a_while_the_server_is_right_even_where_it_went_back(
        self, serve: Serve, follow: Follow, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dra_driver.kube.reflector._OWN_SECONDS", 0.0)
        server, client = serve(listing(5), HOLD)
        reflector = follow(client)
        server.wait_for(2)
        reflector.adopt(pod("a", 80))
        reflector.forget(pod("b", 80))
        server.answers.append(listing(7, pod("a", 6, "restored"), pod("b", 6)))
        reflector._list()
        assert reflector.snapshot() == [pod("a", 6, "restored"), pod("b", 6)]

    def test_a_list_from_before_the_write_does_not_remove_it(self, serve: Serve, follow: Follow) -> None:
        server, client = serve(listing(5), HOLD)
        reflector = follow(client)
        server.wait_for(2)
        reflector.adopt(pod("new", 8))
        reflector.adopt(pod("deleted-since", 6))
        server.answers.append(listing(7))
        reflector._list()
        assert [p["metadata"]["name"] for p in reflector.snapshot()] == ["new"]


def test_stop_ends_it_while_it_waits_for_events(serve: Serve, follow: Follow) -> None:
    server, client = serve(listing(5), HOLD)
    reflector = follow(client)
    server.wait_for(2)
    reflector.stop()
    assert not [t for t in threading.enumerate() if t.name == "reflect-pods"]


@pytest.mark.parametrize(
    "first",
    [
        Answer(body={"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {}}]}),
        Answer(body={"metadata": {"resourceVersion": "1"}, "items": "many"}),
        Answer(body={"metadata": "x", "items": [pod("a", 1)]}),
        Answer(200, b"[" * 100_000),
    ],
    ids=["no name", "no list", "no version", "too deep"],
)
def test_a_list_of_another_shape_does_not_end_it(
    serve: Serve, follow: Callable[..., Reflector], first: Reply
) -> None:
    _, client = serve(first, listing(2, pod("a", 1)), Stream(hold=True))
    reflector = follow(client)
    assert reflector.synced.wait(60)
    assert [one["metadata"]["name"] for one in reflector.snapshot()] == ["a"]


def test_an_event_of_another_shape_does_not_end_it(serve: Serve, follow: Callable[..., Reflector]) -> None:
    nameless = {"metadata": {"resourceVersion": "2"}}
    _, client = serve(
        listing(1),
        Stream([event("ADDED", nameless)], hold=True),
        listing(3, pod("a", 3)),
        Stream(hold=True),
    )
    seen = Seen()
    follow(client, seen)
    seen.wait_for(("ADDED", "a"))


@pytest.mark.parametrize(
    ("listed", "news"), [(50, []), (2, [event("BOOKMARK", pod("", 50))])], ids=["list", "bookmark"]
)
def test_a_server_that_has_gone_back_is_listed_again(
    serve: Serve, follow: Callable[..., Reflector], listed: int, news: list[dict[str, Any]]
) -> None:
    _, client = serve(
        listing(listed, pod("a", 2)),
        Stream([*news, event("ADDED", pod("c", 3))], hold=True),
        listing(4, pod("b", 2), pod("c", 3)),
        Stream(hold=True),
    )
    seen = Seen()
    reflector = follow(client, seen)
    seen.wait_for(("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b"), ("ADDED", "c"))
    assert {one["metadata"]["name"] for one in reflector.snapshot()} == {"b", "c"}

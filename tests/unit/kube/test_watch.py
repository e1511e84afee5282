"""The stream of a watch."""

import threading
from collections.abc import Callable

import pytest

from dra_driver.errors import UnavailableError
from dra_driver.kube.client import Client, WatchEvent
from dra_driver.kube.errors import ForbiddenError, GoneError
from dra_driver.kube.resources import PODS
from dra_driver.kube.scripted import ScriptedServer, Stream, status

Serve = Callable[..., tuple[ScriptedServer, Client]]


def event(kind: str, version: str) -> dict[str, object]:
    return {"type": kind, "object": {"metadata": {"name": "p", "resourceVersion": version}}}


def watch(client: Client, stop: threading.Event | None = None) -> list[WatchEvent]:
    return list(client.watch(PODS, resource_version="5", timeout_seconds=30, stop=stop or threading.Event()))


def test_events_come_in_order_until_the_server_ends_the_stream(serve: Serve) -> None:
    server, client = serve(Stream([event("ADDED", "6"), event("BOOKMARK", "9")]))
    assert [(e.type, e.object["metadata"]["resourceVersion"]) for e in watch(client)] == [
        ("ADDED", "6"),
        ("BOOKMARK", "9"),
    ]
    assert server.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "30",
    }


def test_a_line_may_come_in_pieces_and_lines_together(serve: Serve) -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}\n'
    _, client = serve(Stream([line[:10], line[10:] + line, b"\n"]))
    assert len(watch(client)) == 2


def test_an_error_event_is_raised_as_its_class(serve: Serve) -> None:
    gone = {"type": "ERROR", "object": status(410, "Expired", "too old resource version").body}
    _, client = serve(Stream([gone]))
    with pytest.raises(GoneError, match="too old"):
        watch(client)


def test_a_refused_watch_is_raised_as_its_class(serve: Serve) -> None:
    _, client = serve(status(403, "Forbidden", "no"))
    with pytest.raises(ForbiddenError, match="cannot watch pods: no"):
        watch(client)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000 + b"\n",
        b"{\n",
        b"[]\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":{"metadata":{}}}\n',
    ],
)
def test_nonsense_ends_the_watch(serve: Serve, line: bytes) -> None:
    _, client = serve(Stream([line]))
    with pytest.raises(UnavailableError, match="no watch event"):
        watch(client)


def test_stop_ends_a_silent_watch_at_once(serve: Serve) -> None:
    server, client = serve(Stream([event("ADDED", "6")], hold=True))
    stop = threading.Event()
    got: list[WatchEvent] = []
    thread = threading.Thread(target=lambda: got.extend(watch(client, stop)))
    thread.start()
    server.wait_for(1)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_watch_that_outlives_its_time_in_silence_is_given_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dra_driver.kube.client._WATCH_GRACE_SECONDS", 0.1)
    _, client = serve(Stream([], hold=True))
    with pytest.raises(UnavailableError, match="silent for too long"):
        list(client.watch(PODS, resource_version="1", timeout_seconds=0, stop=threading.Event()))

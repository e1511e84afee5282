"""Watch streams: where they start, what they carry, how they end."""

import itertools
import json
import socket
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube.client import Client
from dra_driver.kube.errors import GoneError
from dra_driver.kube.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

Object = dict[str, Any]
Make = Callable[..., Object]

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def stream(server: ApiServer, query: str, path: str = SLICES, *, count: int | None = None) -> list[Object]:
    """The events of a watch until the server ends it, or the first `count` of them."""
    with urllib.request.urlopen(f"{server.url}{path}?watch=1&{query}", timeout=90) as answer:
        return [json.loads(line) for line in itertools.islice(answer, count)]


def summary(events: list[Object]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def test_a_watch_replays_what_came_after_its_version(server: ApiServer, slice_of: Make) -> None:
    first = server.store.create(RESOURCE_SLICES, slice_of("a"))
    server.store.patch(RESOURCE_SLICES, "a", {"metadata": {"labels": {"x": "y"}}})
    server.store.create(RESOURCE_SLICES, slice_of("b"))
    server.store.delete(RESOURCE_SLICES, "a")

    events = stream(server, f"resourceVersion={first['metadata']['resourceVersion']}&timeoutSeconds=1")

    assert summary(events) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)
    assert versions[-1] == int(server.store.revision)


def test_a_watch_sees_what_happens_while_it_runs(server: ApiServer, client: Client, slice_of: Make) -> None:
    version = client.list(RESOURCE_SLICES)["metadata"]["resourceVersion"]
    events = client.watch(
        RESOURCE_SLICES, resource_version=version, timeout_seconds=90, stop=threading.Event()
    )
    server.store.create(RESOURCE_SLICES, slice_of("a"))

    event = next(events)

    assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "a")
    assert event.object["kind"] == "ResourceSlice"


def test_a_watch_without_a_version_starts_with_what_is_there(server: ApiServer, slice_of: Make) -> None:
    server.store.create(RESOURCE_SLICES, slice_of("a"))

    assert summary(stream(server, "", count=1)) == [("ADDED", "a")]
    assert summary(stream(server, "resourceVersion=0", count=1)) == [("ADDED", "a")]


def test_selectors_turn_changes_into_arrivals_and_departures(
    server: ApiServer, claim: Make, slice_of: Make
) -> None:
    made = server.store.create(RESOURCE_SLICES, slice_of("a"))
    server.store.create(RESOURCE_SLICES, slice_of("b", node="node-b"))
    for labels in ({"x": "y"}, {"x": "y", "z": "1"}, {"x": None}):
        server.store.patch(RESOURCE_SLICES, "a", {"metadata": {"labels": labels}})
    server.store.delete(RESOURCE_SLICES, "a")
    version = made["metadata"]["resourceVersion"]

    events = stream(server, f"resourceVersion={version}&labelSelector=x%3Dy&timeoutSeconds=1")
    by_node = stream(
        server, f"resourceVersion={version}&fieldSelector=spec.nodeName%3Dnode-b&timeoutSeconds=1"
    )

    assert summary(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[-1]["object"]["metadata"]["labels"] == {"x": "y", "z": "1"}
    assert summary(by_node) == [("ADDED", "b")]


def test_a_watch_ends_with_a_bookmark_of_the_last_version(server: ApiServer, claim: Make) -> None:
    last = server.store.create(RESOURCE_CLAIMS, claim())["metadata"]["resourceVersion"]

    [event] = stream(server, f"resourceVersion={last}&allowWatchBookmarks=true&timeoutSeconds=1")

    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "ResourceSlice"
    assert event["object"]["metadata"]["resourceVersion"] == last


def test_initial_events_end_with_a_marked_bookmark(server: ApiServer, slice_of: Make) -> None:
    server.store.create(RESOURCE_SLICES, slice_of("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    first, mark = stream(server, query, count=2)

    assert summary([first]) == [("ADDED", "a")]
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_version_that_is_too_old_gets_410_in_the_stream(
    server: ApiServer, client: Client, slice_of: Make
) -> None:
    version = client.list(RESOURCE_SLICES)["metadata"]["resourceVersion"]
    server.store.create(RESOURCE_SLICES, slice_of("a"))
    server.faults.forget_history()

    [event] = stream(server, f"resourceVersion={version}&timeoutSeconds=5")
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {version} (")
    with pytest.raises(GoneError, match="too old resource version"):
        list(
            client.watch(RESOURCE_SLICES, resource_version=version, timeout_seconds=5, stop=threading.Event())
        )


def test_only_so_many_changes_are_kept(slice_of: Make) -> None:
    with ApiServer(kept_events=2) as server:
        first = server.store.create(RESOURCE_SLICES, slice_of("a"))["metadata"]["resourceVersion"]
        for name in ("b", "c"):
            server.store.create(RESOURCE_SLICES, slice_of(name))
        kept = stream(server, f"resourceVersion={first}", count=2)
        server.store.create(RESOURCE_SLICES, slice_of("d"))
        gone = stream(server, f"resourceVersion={first}&timeoutSeconds=1")

    assert summary(kept) == [("ADDED", "b"), ("ADDED", "c")]
    assert [event["type"] for event in gone] == ["ERROR"]


def test_namespaces_are_watched_apart(server: ApiServer, pod: Make) -> None:
    server.store.create(PODS, pod("a"))
    other = pod("b")
    other["metadata"]["namespace"] = "default"
    server.store.create(PODS, other)

    assert summary(stream(server, "timeoutSeconds=1", "/api/v1/namespaces/team/pods")) == [("ADDED", "a")]
    assert len(stream(server, "", "/api/v1/pods", count=2)) == 2


def test_running_watches_end_when_the_server_stops(slice_of: Make) -> None:
    server = ApiServer().start()
    answer = urllib.request.urlopen(f"{server.url}{SLICES}?watch=1", timeout=90)
    server.stop()

    with answer:
        assert answer.read() == b""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    assert not [thread for thread in threading.enumerate() if "apiserver" in thread.name]

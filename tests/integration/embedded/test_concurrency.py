"""Many clients at once: nobody misses a change, and nobody's is lost."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError, ObjectConflictError
from dra_driver.kube.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES

Object = dict[str, Any]
Make = Callable[..., Object]

APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
FINALIZER = "example.com/hold"


def test_every_watcher_sees_every_change_in_order(server: ApiServer, client: Client, slice_of: Make) -> None:
    since = client.list(RESOURCE_SLICES)["metadata"]["resourceVersion"]
    seen: list[list[tuple[str, str]]] = [[] for _ in range(12)]

    def watch(into: list[tuple[str, str]]) -> None:
        for event in client.watch(
            RESOURCE_SLICES, resource_version=since, timeout_seconds=60, stop=threading.Event()
        ):
            metadata = event.object["metadata"]
            into.append((event.type, metadata["resourceVersion"]))
            if metadata["name"] == "last":
                return

    def write(number: int) -> None:
        name = f"s{number}"
        client.create(RESOURCE_SLICES, slice_of(name))
        client.patch(RESOURCE_SLICES, name, {"metadata": {"labels": {"a": "b"}}})
        client.delete(RESOURCE_SLICES, name)

    watchers = [threading.Thread(target=watch, args=(into,)) for into in seen]
    for watcher in watchers:
        watcher.start()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(20)))
    client.create(RESOURCE_SLICES, slice_of("last"))
    for watcher in watchers:
        watcher.join(60)

    versions = [int(version) for _, version in seen[0]]
    assert versions == sorted(set(versions))
    assert Counter(kind for kind, _ in seen[0]) == {"ADDED": 21, "MODIFIED": 20, "DELETED": 20}
    assert all(into == seen[0] for into in seen)


def test_writers_of_all_kinds_lose_nothing_of_each_other(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n"}})

    def merge(number: int) -> None:
        client.patch(NODES, "n", {"metadata": {"labels": {f"merge-{number}": "x"}}})

    def strategic(number: int) -> None:
        conditions = [{"type": f"C{number}", "status": "True"}]
        client.patch(
            NODES, "n", {"status": {"conditions": conditions}}, subresource="status", content_type=STRATEGIC
        )

    def apply(number: int) -> None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        body["metadata"]["annotations"] = {f"apply-{number}": "x"}  # type: ignore[index]
        client.patch(NODES, "n", body, content_type=APPLY, field_manager=f"m{number}")

    def replace(number: int) -> None:
        while True:
            node = client.get(NODES, "n")
            node["spec"].setdefault("taints", []).append({"key": f"t{number}", "effect": "NoSchedule"})
            try:
                client.replace(NODES, node)
            except ObjectConflictError:
                continue
            return

    with ThreadPoolExecutor(8) as pool:
        for done in [
            pool.submit(way, number)
            for number, way in itertools.product(range(12), (merge, strategic, apply, replace))
        ]:
            done.result()

    node = client.get(NODES, "n")
    numbers = range(12)
    assert set(node["metadata"]["labels"]) == {f"merge-{number}" for number in numbers}
    assert set(node["metadata"]["annotations"]) == {f"apply-{number}" for number in numbers}
    assert {entry["type"] for entry in node["status"]["conditions"]} == {f"C{number}" for number in numbers}
    assert {entry["key"] for entry in node["spec"]["taints"]} == {f"t{number}" for number in numbers}


def test_an_object_that_many_let_go_of_and_delete_is_gone_once(client: Client, claim: Make) -> None:
    holders = [f"{FINALIZER}-{number}" for number in range(8)]
    client.create(RESOURCE_CLAIMS, claim(finalizers=holders))

    def let_go(holder: str) -> None:
        while True:
            client.delete(RESOURCE_CLAIMS, "c", namespace="team")
            found = client.get(RESOURCE_CLAIMS, "c", "team")
            found["metadata"]["finalizers"].remove(holder)
            try:
                client.replace(RESOURCE_CLAIMS, found)
            except ObjectConflictError:
                continue
            return

    since = client.list(RESOURCE_CLAIMS)["metadata"]["resourceVersion"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(let_go, holders))

    events = client.watch(RESOURCE_CLAIMS, resource_version=since, timeout_seconds=1, stop=threading.Event())
    types = [event.type for event in events if event.type != "BOOKMARK"]
    assert types == ["MODIFIED"] * 8 + ["DELETED"]


def test_of_those_who_make_and_delete_an_object_each_is_told_the_truth(client: Client) -> None:
    """Every success is a change of the object's life, in turns; whatever else is answered is a conflict."""
    outcomes: Counter[str] = Counter()
    since = client.list(NODES)["metadata"]["resourceVersion"]

    def make(_: int) -> None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        client.patch(NODES, "n", body, content_type=APPLY, field_manager="m")

    def delete(_: int) -> None:
        try:
            client.delete(NODES, "n")
        except NotFoundError:
            return
        outcomes["deleted"] += 1

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(way, number) for number in range(40) for way in (make, delete)]:
            done.result()

    events = client.watch(NODES, resource_version=since, timeout_seconds=1, stop=threading.Event())
    types = [event.type for event in events if event.type in {"ADDED", "DELETED"}]
    assert types.count("DELETED") == outcomes["deleted"]
    assert types == ["ADDED", "DELETED"] * (len(types) // 2) + ["ADDED"] * (len(types) % 2)

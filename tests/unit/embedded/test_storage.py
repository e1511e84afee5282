"""Objects under one revision counter, and their changes."""

import threading
from typing import Any

import pytest

from dra_driver.embedded.apiserver.kinds import NODE, POD
from dra_driver.embedded.apiserver.storage import Change, CompactedError, StaleError, Storage, Watch


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}


def drain(watch: Watch) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    while not watch.changes.empty():
        change = watch.changes.get()
        assert isinstance(change, Change)
        found.append((change.type, change.revision))
    return found


def test_only_the_expected_revision_is_replaced_or_removed() -> None:
    storage = Storage(10)
    first = storage.put(NODE, node("a"), None)
    second = storage.put(NODE, node("a", x=1), first.revision)

    for stale in (None, first.revision):
        with pytest.raises(StaleError):
            storage.put(NODE, node("a"), stale)
    with pytest.raises(StaleError):
        storage.remove(NODE, node("a"), first.revision)
    assert storage.remove(NODE, node("a"), second.revision).revision == second.revision + 1
    assert storage.get(NODE, ("", "a")) is None
    assert storage.by_uid("uid-a") is None


def test_stored_objects_are_not_those_of_the_caller() -> None:
    storage = Storage(10)
    stored = storage.put(NODE, node("a"), None)

    stored.copy()["spec"]["x"] = 1

    found = storage.get(NODE, ("", "a"))
    assert found is not None
    assert found.copy()["spec"] == {}


def test_a_watch_gets_the_changes_of_its_kind_from_its_revision() -> None:
    storage = Storage(10)
    first = storage.put(NODE, node("a"), None)
    second = storage.put(NODE, node("a", x=1), first.revision)
    watch, initial, _ = storage.watch(NODE, first.revision)
    storage.put(POD, {"metadata": {"name": "p", "namespace": "n", "uid": "p"}}, None)
    storage.remove(NODE, node("a"), second.revision)

    assert initial == []
    assert drain(watch) == [("MODIFIED", second.revision), ("DELETED", second.revision + 2)]


def test_a_watch_from_now_starts_with_the_objects() -> None:
    storage = Storage(10)
    stored = storage.put(NODE, node("a"), None)

    watch, initial, revision = storage.watch(NODE)

    assert (initial, revision, drain(watch)) == ([stored], stored.revision, [])


def test_forgotten_changes_cannot_be_watched() -> None:
    storage = Storage(2)
    revisions = [storage.put(NODE, node(name), None).revision for name in ("a", "b", "c", "d")]

    watch, _, _ = storage.watch(NODE, revisions[1])
    assert drain(watch) == [("ADDED", revisions[2]), ("ADDED", revisions[3])]
    with pytest.raises(CompactedError) as caught:
        storage.watch(NODE, revisions[0])
    assert caught.value.oldest == revisions[1]


def test_writers_do_not_lose_each_others_changes() -> None:
    storage = Storage(10_000)
    storage.put(NODE, node("a", count=0), None)
    watch, _, _ = storage.watch(NODE, storage.revision)

    def count() -> None:
        for _ in range(100):
            while True:
                stored = storage.get(NODE, ("", "a"))
                assert stored is not None
                try:
                    storage.put(NODE, node("a", count=stored.obj["spec"]["count"] + 1), stored.revision)
                except StaleError:
                    continue
                break

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = storage.get(NODE, ("", "a"))
    assert found is not None
    assert found.obj["spec"]["count"] == 400
    revisions = [revision for _, revision in drain(watch)]
    assert revisions == list(range(found.revision - 399, found.revision + 1))

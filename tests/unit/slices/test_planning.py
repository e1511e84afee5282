"""The writes that lead from the slices there are to the desired ones (dra-contracts.md 4.3)."""

from typing import Any

import pytest

from dra_driver.slices.compare import fingerprint
from dra_driver.slices.diff import Plan, Pool, plan
from dra_driver.slices.pack import Content

POOL = Pool("gpu.nvidia.com", "node-a", "node-a/gpu")
UID = "node-uid"


def content(*names: str, **parts: Any) -> Content:
    return Content(tuple({"name": name, **parts} for name in names))


def stored(
    name: str, what: Content, *, generation: int = 1, count: int = 1, pool: str = POOL.name, **metadata: Any
) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": UID, "controller": True}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": [owner], **metadata},
        "spec": {
            "driver": POOL.driver,
            "nodeName": POOL.node,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **what.as_spec(),
        },
    }


def make(existing: list[dict[str, Any]], *desired: Content, **options: Any) -> Plan:
    return plan(existing, desired, POOL, node_uid=UID, **options)


def shape(todo: Plan) -> tuple[int, list[str], list[int], list[int]]:
    """Generation; names deleted; indices updated, created."""
    return (
        todo.generation,
        [candidate["metadata"]["name"] for candidate in todo.delete],
        [index for index, _ in todo.update],
        [index for index, _ in todo.create],
    )


def pools(todo: Plan) -> set[tuple[int, int]]:
    """Generation and number of slices of everything written."""
    specs = [body["spec"]["pool"] for _, body in (*todo.update, *todo.create)]
    return {(spec["generation"], spec["resourceSliceCount"]) for spec in specs}


A, B, C = content("a"), content("b"), content("c")


def test_the_first_publication_has_generation_one() -> None:
    todo = make([], A, B)
    assert shape(todo) == (1, [], [], [0, 1])
    assert pools(todo) == {(1, 2)}


def test_a_new_slice_names_its_place_node_and_owner() -> None:
    (_, body) = make([], Content(), A).create[1]
    assert body == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "generateName": "00001-gpu.nvidia.com-node-a-",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": UID, "controller": True}
            ],
        },
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "node-a",
            "pool": {"name": "node-a/gpu", "generation": 1, "resourceSliceCount": 2},
            "devices": [{"name": "a"}],
        },
    }


def test_nothing_is_written_when_all_is_as_desired() -> None:
    existing = [stored("00000-x", A, count=2), stored("00001-x", B, count=2)]
    assert not make(existing, A, B)


def test_one_changed_slice_keeps_the_generation() -> None:
    existing = [stored("00000-x", A, count=2, generation=7), stored("00001-x", B, count=2, generation=7)]
    assert shape(make(existing, A, C)) == (7, [], [1], [])


def test_two_changed_slices_raise_the_generation_of_all() -> None:
    existing = [stored(f"0000{n}-x", A, count=3, generation=7) for n in range(3)]
    todo = make(existing, A, B, C)
    assert shape(todo) == (8, [], [0, 1, 2], [])
    assert pools(todo) == {(8, 3)}


def test_a_missing_slice_raises_the_generation_of_all() -> None:
    todo = make([stored("00001-x", B, count=2)], A, B)
    assert shape(todo) == (2, [], [1], [0])
    assert todo.repairs


def test_a_single_slice_never_changes_its_generation() -> None:
    assert shape(make([stored("00000-x", A, generation=3)], B)) == (3, [], [0], [])


def test_a_smaller_pool_deletes_the_rest_and_corrects_the_number() -> None:
    existing = [stored("00000-x", A, count=2), stored("00001-x", B, count=2)]
    todo = make(existing, A)
    assert shape(todo) == (1, ["00001-x"], [0], [])
    assert pools(todo) == {(1, 1)}
    assert not todo.repairs


@pytest.mark.parametrize(
    "name",
    ["node-a-gpu-x", "0000-x", "000000-x", "0000g-x", "00000", "0000A-x", "00001-x", "+0000-x"],
)
def test_a_slice_without_a_place_is_replaced(name: str) -> None:
    assert shape(make([stored(name, A)], A)) == (2, [name], [], [0])


def test_slices_of_lower_generations_are_deleted() -> None:
    for former, latest in (("00000-b", "00000-c"), ("00000-c", "00000-b")):  # whichever is the older one
        existing = [stored(former, A, generation=1), stored(latest, A, generation=2)]
        assert shape(make(existing, A)) == (2, [former], [], [])


def test_of_two_slices_in_one_place_the_older_stays() -> None:
    existing = [
        stored("00000-b", A, creationTimestamp="2026-01-01T00:00:01Z"),
        stored("00000-c", A, creationTimestamp="2026-01-01T00:00:00Z"),
    ]
    for order in (existing, existing[::-1]):
        todo = make(order, A)
        assert shape(todo) == (1, ["00000-b"], [], [])
        assert todo.repairs


def test_other_pools_of_the_driver_on_the_node_are_deleted() -> None:
    existing = [stored("00000-x", A), stored("00000-y", B, pool="node-a"), stored("00001-y", C, pool="old")]
    assert shape(make(existing, A)) == (1, ["00000-y", "00001-y"], [], [])


def test_what_the_server_made_of_a_content_before_is_as_good() -> None:
    desired = content("a", taints=[{"key": "k", "effect": "None"}])
    kept = {fingerprint(desired.as_spec()): fingerprint(A.as_spec())}
    assert not make([stored("00000-x", A)], desired, kept=kept)
    assert make([stored("00000-x", B)], desired, kept=kept)


def test_a_slice_of_a_former_node_of_this_name_gets_the_new_owner() -> None:
    todo = plan([stored("00000-x", A)], [A], POOL, node_uid="new")
    ((_, body),) = todo.update
    assert [owner["uid"] for owner in body["metadata"]["ownerReferences"]] == ["new"]
    assert todo.generation == 1


def test_an_update_keeps_what_is_not_ours() -> None:
    existing = stored("00000-x", A, resourceVersion="5", labels={"l": "v"}, managedFields=[{}])
    existing["spec"]["fieldOfALaterVersion"] = 1
    existing["spec"]["allNodes"] = True
    ((_, body),) = make([existing], B).update
    assert body["metadata"]["resourceVersion"] == "5"
    assert body["metadata"]["labels"] == {"l": "v"}
    assert "managedFields" not in body["metadata"]
    assert body["spec"]["fieldOfALaterVersion"] == 1
    assert "allNodes" not in body["spec"]
    assert body["spec"]["devices"] == [{"name": "b"}]
    assert existing["spec"]["devices"] == [{"name": "a"}]


def test_devices_become_counters_without_an_empty_list() -> None:
    counters = Content(counter_sets=({"name": "s", "counters": {"m": {"value": "1"}}},))
    ((_, body),) = make([stored("00000-x", A)], counters).update
    assert "devices" not in body["spec"]


def test_a_taint_keeps_the_time_it_was_added() -> None:
    old, new = {"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "n", "effect": "NoSchedule"}
    existing = stored(
        "00000-x", content("a", taints=[{**old, "timeAdded": "2026-01-01T00:00:00Z"}, {**new, "value": "x"}])
    )
    ((_, body),) = make([existing], content("a", "b", taints=[new, old])).update
    assert body["spec"]["devices"] == [
        {"name": "a", "taints": [new, {**old, "timeAdded": "2026-01-01T00:00:00Z"}]},
        {"name": "b", "taints": [new, old]},
    ]

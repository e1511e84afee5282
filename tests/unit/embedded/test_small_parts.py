"""Ages, tables, feature gates, paths, the work queue."""

import copy
import threading
from typing import Any

import pytest

from dra_driver.embedded.apiserver import gates, paths, tables
from dra_driver.embedded.apiserver.durations import age, human_duration
from dra_driver.embedded.apiserver.kinds import KINDS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from dra_driver.embedded.workqueue import WorkQueue

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 1, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY + HOUR, "8d"),
        (2 * 365 * DAY, "2y"),
        (3 * 365 * DAY + DAY, "3y1d"),
        (9 * 365 * DAY, "9y"),
    ],
)
def test_durations_are_abbreviated_as_kubectl_does(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def test_an_unknown_time_has_no_age() -> None:
    assert age(None) == "<unknown>"
    assert age("2020-01-01T00:00:00Z").endswith(("y", "d"))
    assert age("9999-01-01T00:00:00+01:00") == "<invalid>"


@pytest.mark.parametrize(
    ("status", "deleting", "state"),
    [
        ({}, False, "pending"),
        ({"allocation": {"devices": {}}}, False, "allocated"),
        ({"allocation": {"devices": {}}, "reservedFor": [{}]}, False, "allocated,reserved"),
        ({}, True, "deleted"),
        ({"allocation": {"devices": {}}, "reservedFor": [{}]}, True, "deleted,allocated,reserved"),
    ],
)
def test_a_claims_state_is_summed_up(status: dict[str, Any], deleting: bool, state: str) -> None:
    metadata = {"name": "c", **({"deletionTimestamp": "2020-01-01T00:00:00Z"} if deleting else {})}

    [row] = tables.table(RESOURCE_CLAIM, [{"metadata": metadata, "status": status}], {})["rows"]

    assert row["cells"][:2] == ["c", state]


@pytest.mark.parametrize(
    ("container", "phase", "shown"),
    [
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, "Pending", "ContainerCreating"),
        ({"state": {"running": {}}, "ready": True}, "Running", "Running"),
        ({"state": {"terminated": {"reason": "Error", "exitCode": 1}}}, "Failed", "Error"),
        ({"state": {"terminated": {"exitCode": 3}}}, "Failed", "ExitCode:3"),
        ({"state": {"terminated": {"signal": 9}}}, "Failed", "Signal:9"),
    ],
)
def test_a_pods_status_is_that_of_its_containers(container: dict[str, Any], phase: str, shown: str) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{}]}}
    status = {"phase": phase, "containerStatuses": [container]}

    [row] = tables.table(POD, [{**pod, "status": status}], {})["rows"]

    assert row["cells"][2] == shown


def test_every_kind_has_a_table_with_as_many_cells_as_columns() -> None:
    for kind in KINDS:
        table = tables.table(kind, [{"metadata": {"name": "x"}}], {})
        assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"]), kind.resource.kind


DEVICE: dict[str, Any] = {
    "name": "d",
    "taints": [{"key": "a"}],
    "consumesCounters": [{"counterSet": "c"}],
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "1", "requestPolicy": {}}},
    "attributes": {"x": {"ints": [1]}},
    "bindingConditions": ["x"],
}


@pytest.mark.parametrize(
    ("feature", "left"),
    [
        ("DRADeviceTaints", {key: value for key, value in DEVICE.items() if key != "taints"}),
        (
            "DRAPartitionableDevices",
            {key: value for key, value in DEVICE.items() if key != "consumesCounters"},
        ),
        ("DRAListTypeAttributes", {**DEVICE, "attributes": {"x": {}}}),
        (
            "DRAConsumableCapacity",
            {
                **{key: value for key, value in DEVICE.items() if key != "allowMultipleAllocations"},
                "capacity": {"memory": {"value": "1"}},
            },
        ),
    ],
)
def test_a_disabled_feature_loses_just_its_fields(feature: str, left: dict[str, Any]) -> None:
    obj = {"spec": {"devices": [copy.deepcopy(DEVICE)]}}

    gates.drop_disabled(RESOURCE_SLICE, obj, None, {feature})

    assert obj == {"spec": {"devices": [left]}}


def test_a_feature_in_use_stays() -> None:
    old = {"spec": {"devices": [{"name": "d", "taints": [{"key": "a"}]}]}}
    new = {"spec": {"devices": [{"name": "d", "taints": [{"key": "b"}]}]}}

    gates.drop_disabled(RESOURCE_SLICE, new, old, {"DRADeviceTaints"})

    assert new["spec"]["devices"][0]["taints"] == [{"key": "b"}]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/nodes", paths.Target(NODE, "v1", None)),
        ("/api/v1/namespaces/team/pods/p/status", paths.Target(POD, "v1", "team", "p", "status")),
        ("/api/v1/pods", paths.Target(POD, "v1", None)),
        (
            "/apis/resource.k8s.io/v1beta2/resourceslices/s",
            paths.Target(RESOURCE_SLICE, "v1beta2", None, "s"),
        ),
        ("/apis/resource.k8s.io/v1alpha3/resourceslices", None),
        ("/api/v1/namespaces/team/nodes", None),
        ("/api/v1", None),
        ("/api/v1/pods/p/status/more", None),
        ("/", None),
    ],
)
def test_paths_name_kinds_and_objects(path: str, expected: paths.Target | None) -> None:
    assert paths.parse(path) == expected


def test_a_namespace_is_an_object_and_a_place() -> None:
    named = paths.parse("/api/v1/namespaces/team")
    status = paths.parse("/api/v1/namespaces/team/status")

    assert named is not None
    assert status is not None
    assert (named.kind.resource.kind, named.name, named.namespace) == ("Namespace", "team", None)
    assert (status.name, status.subresource) == ("team", "status")


def test_a_key_waits_once_and_moves_forward_only() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("late", 3600)
    queue.add("a", 3600)
    queue.add("b")
    queue.add("a")
    queue.add("a", 3600)
    queue.add("b")

    assert [queue.get(), queue.get()] == ["b", "a"]
    queue.stop()
    assert queue.get() is None


def test_whoever_waits_for_a_key_is_woken_by_one_and_by_the_end() -> None:
    queue: WorkQueue[str] = WorkQueue()
    got: list[str | None] = []
    first = threading.Event()

    def take() -> None:
        got.append(queue.get())
        first.set()
        got.append(queue.get())

    thread = threading.Thread(target=take)
    thread.start()
    queue.add("a", 0.001)
    assert first.wait(60)
    queue.stop()
    thread.join(60)

    assert got == ["a", None]

"""Devices become the contents of slices."""

from collections.abc import Callable

import pytest

from dra_driver.devices.model import CounterSet, Device, DeviceSet, Limits, RequestPolicy, Taint, Version
from dra_driver.quantity import Quantity
from dra_driver.slices.pack import Content, Withheld, pack

Make = Callable[..., Device]
TAINT = Taint("gpu.nvidia.com/health", "lost", "NoSchedule")


def sizes(devices: DeviceSet) -> list[int]:
    return [len(content.devices) for content in pack(devices).contents]


def names(contents: tuple[Content, ...]) -> list[str]:
    return [device["name"] for content in contents for device in content.devices]


def counter_set(name: str, *counters: str) -> CounterSet:
    return CounterSet(name, {counter: Quantity.of(1) for counter in counters or ("memory",)})


def test_no_devices_make_one_empty_slice() -> None:
    packed = pack(DeviceSet())
    assert packed.contents == (Content(),)
    assert packed.contents[0].as_spec() == {}


def test_devices_keep_their_order(device: Make) -> None:
    devices = DeviceSet(tuple(device(n) for n in (3, 1, 2)))
    assert names(pack(devices).contents) == ["gpu-3", "gpu-1", "gpu-2"]


@pytest.mark.parametrize(
    ("count", "tainted", "expected"),
    [
        (128, set(), [128]),
        (129, set(), [128, 1]),
        (64, {0}, [64]),
        (65, {0}, [64, 1]),
        (70, {69}, [69, 1]),
        (64, {63}, [64]),
        (200, {150}, [128, 64, 8]),
        (164, {0}, [64, 100]),
    ],
)
def test_a_slice_holds_128_devices_or_64_where_one_is_tainted(
    device: Make, count: int, tainted: set[int], expected: list[int]
) -> None:
    devices = tuple(device(n, taints=(TAINT,) if n in tainted else ()) for n in range(count))
    assert sizes(DeviceSet(devices)) == expected
    assert names(pack(DeviceSet(devices)).contents) == [d.name for d in devices]


def test_counter_sets_come_first_in_slices_of_eight(device: Make) -> None:
    sets = tuple(counter_set(f"set-{n}") for n in range(9))
    packed = pack(DeviceSet((device(0, counters="set-8"),), sets))
    assert [len(content.counter_sets) for content in packed.contents] == [8, 1, 0]
    assert [len(content.devices) for content in packed.contents] == [0, 0, 1]
    assert "devices" not in packed.contents[0].as_spec()


def test_a_value_that_cannot_be_published_is_withheld_alone(device: Make) -> None:
    bad = device(0, attributes={"uuid": "GPU-0", "long": "x" * 65, "driver": Version("580.65.06")})
    packed = pack(DeviceSet((bad, device(1))))
    assert names(packed.contents) == ["gpu-0", "gpu-1"]
    assert packed.contents[0].devices[0]["attributes"] == {"uuid": {"string": "GPU-0"}}
    assert {(w.name, w.part) for w in packed.withheld} == {
        ("gpu-0", "attributes[long]"),
        ("gpu-0", "attributes[driver]"),
    }


@pytest.mark.parametrize(
    "parts",
    [
        {"name": "GPU_0"},
        {"name": "x" * 64},
        {"attributes": {f"a{n}": n for n in range(33)}},
        {"taints": (Taint("not a key!", None, "NoSchedule"),)},
        {"taints": tuple(Taint(f"k{n}", None, "NoExecute") for n in range(17))},
    ],
    ids=["name", "long-name", "attributes", "taint-key", "taints"],
)
def test_a_device_that_cannot_be_published_is_withheld_alone(device: Make, parts: dict[str, object]) -> None:
    packed = pack(DeviceSet((device(0, **parts), device(1))))
    assert names(packed.contents) == ["gpu-1"]
    (withheld,) = packed.withheld
    assert withheld.part == ""
    assert withheld.reason


def test_a_shared_device_is_not_published_without_what_its_shares_are_counted_by(device: Make) -> None:
    half = RequestPolicy(Quantity.of(3), Limits(Quantity.of(1), Quantity.of(2), Quantity.of(1)))
    shared = device(0, allow_multiple_allocations=True, policies={"memory": half})
    packed = pack(DeviceSet((shared, device(1))))
    assert names(packed.contents) == ["gpu-1"]
    (withheld,) = packed.withheld
    assert (withheld.name, withheld.part) == ("gpu-0", "")
    assert "memory" in withheld.reason


def test_the_second_device_of_a_name_is_withheld(device: Make) -> None:
    packed = pack(DeviceSet((device(0), device(0, attributes={}))))
    assert packed.contents[0].devices[0]["attributes"] == {"uuid": {"string": "GPU-0"}}
    assert packed.withheld == (Withheld("gpu-0", "", "a device before it has the same name"),)


def test_the_second_counter_set_of_a_name_is_withheld(device: Make) -> None:
    sets = (counter_set("set"), counter_set("set", "slices"))
    packed = pack(DeviceSet((device(0, counters="set"),), sets))
    assert [list(entry["counters"]) for entry in packed.contents[0].counter_sets] == [["memory"]]
    assert packed.withheld == (Withheld("set", "", "a counter set before it has the same name"),)


def test_a_device_whose_counters_are_not_published_is_withheld(device: Make) -> None:
    sets = (counter_set("good"), counter_set("Bad Name"), counter_set("other", "slices"))
    devices = tuple(device(n, counters=name) for n, name in enumerate(("good", "Bad Name", "other")))
    packed = pack(DeviceSet(devices, sets))
    assert names(packed.contents) == ["gpu-0"]
    assert [w.name for w in packed.withheld] == ["Bad Name", "gpu-1", "gpu-2"]
    assert packed.withheld[-1].reason == "counter set other has no memory"


def test_without_counters_whole_gpus_are_published_and_their_parts_are_not(device: Make) -> None:
    devices = DeviceSet(
        (device(0, counters="s"), device(1, kind="mig", counters="s"), device(2, kind="mig")),
        (counter_set("s"),),
    )
    packed = pack(devices, counters=False)
    assert names(packed.contents) == ["gpu-0", "gpu-2"]
    assert all("consumesCounters" not in d for d in packed.contents[0].devices)
    assert [w.name for w in packed.withheld] == ["gpu-1"]


def test_what_the_server_refused_is_withheld_with_its_reason(device: Make) -> None:
    packed = pack(DeviceSet((device(0), device(1))), refused={"gpu-0": "no"})
    assert names(packed.contents) == ["gpu-1"]
    assert str(packed.withheld[0]) == "gpu-0: no"

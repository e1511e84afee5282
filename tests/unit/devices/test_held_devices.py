"""Devices that records hold, through all that can happen to their hardware."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.devices.build import build_devices
from dra_driver.devices.model import (
    CounterConsumption,
    CounterSet,
    Device,
    DeviceSet,
    HeldDevice,
    NoteReason,
    Taint,
    device_from_dict,
)
from dra_driver.inventory.model import Inventory
from dra_driver.quantity import Quantity
from dra_driver.resource.validation import validate

Make = Callable[..., Any]
Node = Callable[..., Inventory]
Hold = Callable[[Device], HeldDevice]


def lost(cause: str) -> tuple[Taint, ...]:
    return (Taint("gpu.nvidia.com/gpu-lost", cause, "NoSchedule"),)


def noted(built: DeviceSet) -> list[tuple[NoteReason, str]]:
    return [(note.reason, note.device) for note in built.notes]


def test_a_held_device_whose_hardware_is_there_is_published_as_it_is_now(
    make_gpu: Make, node: Node, hold: Hold
) -> None:
    (device,) = build_devices(node(make_gpu(), driver_version="570.1"))
    now = node(make_gpu())

    assert build_devices(now) == build_devices(now, [hold(device)])
    assert () == build_devices(now, [hold(device)]).notes


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        (lambda make, node: node(make(2)), "missing"),
        (lambda make, node: node(make(1, fault="it is lost"), make(2)), "fault"),
        (lambda make, node: node(make(1, uuid="GPU-new"), make(2)), "replaced"),
        (lambda _, node: node(available=False), "unavailable"),
    ],
)
def test_a_held_device_whose_hardware_is_gone_stays_with_a_taint(
    make_gpu: Make, node: Node, hold: Hold, slice_of: Make, after: Any, cause: str
) -> None:
    device, _ = build_devices(node(make_gpu(1), make_gpu(2)))
    built = build_devices(after(make_gpu, node), [hold(device)])

    assert replace(device, taints=lost(cause)) == built.get(device.name)
    assert (NoteReason.HELD_LOST, device.name) in noted(built)
    assert [] == validate(slice_of(built.devices))


def test_a_replacement_is_not_offered_before_the_claim_ends(make_gpu: Make, node: Node, hold: Hold) -> None:
    (device,) = build_devices(node(make_gpu()))
    now = node(make_gpu(uuid="GPU-new"))

    assert ["GPU-00000065"] == [d.target.uuid for d in build_devices(now, [hold(device)])]
    assert ["GPU-new"] == [d.target.uuid for d in build_devices(now)]


def test_a_gpu_that_moved_is_not_offered_at_its_new_place(make_gpu: Make, node: Node, hold: Hold) -> None:
    (device,) = build_devices(node(make_gpu(1)))
    built = build_devices(node(make_gpu(2, uuid=device.target.uuid)), [hold(device)])

    assert [(device.name, lost("moved"))] == [(d.name, d.taints) for d in built]
    assert (NoteReason.HELD_BACK, "gpu-0000-02-00-0") in noted(built)


def test_a_held_gpu_that_was_cut_holds_its_mig_devices_back(
    make_gpu: Make, make_mig: Make, node: Node, hold: Hold
) -> None:
    (device,) = build_devices(node(make_gpu(1)))
    now = node(make_gpu(1, mig=make_mig("1g.5gb@0", "3g.20gb@4")), make_gpu(2, mig=make_mig("1g.5gb@0")))
    built = build_devices(now, [hold(device)])

    other = "gpu-0000-02-00-0-mig-1g-5gb-19-0"
    assert [(other, ()), (device.name, lost("mig-mode"))] == [(d.name, d.taints) for d in built]
    assert [NoteReason.HELD_LOST, NoteReason.HELD_BACK, NoteReason.HELD_BACK] == [
        note.reason for note in built.notes
    ]
    assert 3 == len(build_devices(now))


def test_a_held_mig_device_holds_its_whole_parent_back(
    make_gpu: Make, make_mig: Make, node: Node, hold: Hold
) -> None:
    (device,) = build_devices(node(make_gpu(mig=make_mig("1g.5gb@0"))))
    built = build_devices(node(make_gpu()), [hold(device)])

    assert [(device.name, lost("missing"))] == [(d.name, d.taints) for d in built]
    assert (NoteReason.HELD_BACK, "gpu-0000-65-00-0") in noted(built)


def test_a_held_mig_device_that_was_destroyed_holds_back_what_lies_on_its_slices(
    make_gpu: Make, make_mig: Make, node: Node, hold: Hold
) -> None:
    (device,) = build_devices(node(make_gpu(mig=make_mig("2g.10gb@2"))))
    now = node(make_gpu(mig=make_mig("1g.5gb@1", "1g.5gb@3", "3g.20gb@4", generation="b")))
    built = build_devices(now, [hold(device)])

    prefix = "gpu-0000-65-00-0-mig-"
    assert ["1g-5gb-19-1", "2g-10gb-14-2", "3g-20gb-9-4"] == [d.name.removeprefix(prefix) for d in built]
    assert (NoteReason.HELD_BACK, f"{prefix}1g-5gb-19-3") in noted(built)


def test_a_mig_device_that_was_made_again_is_not_the_held_one(
    make_gpu: Make, make_mig: Make, node: Node, hold: Hold
) -> None:
    (device,) = build_devices(node(make_gpu(mig=make_mig("1g.5gb@0"))))
    built = build_devices(node(make_gpu(mig=make_mig("1g.5gb@0", generation="b"))), [hold(device)])

    assert [replace(device, taints=lost("missing"))] == list(built)


def test_a_held_device_keeps_its_place(make_gpu: Make, node: Node, hold: Hold) -> None:
    gpus = [make_gpu(bus) for bus in (1, 2, 3)]
    devices = build_devices(node(*gpus))
    built = build_devices(node(gpus[0], gpus[2]), [hold(devices.devices[1])])

    assert [device.name for device in devices] == [device.name for device in built]


def test_a_record_that_went_through_json_is_as_good(make_gpu: Make, node: Node, hold: Hold) -> None:
    (device,) = build_devices(node(make_gpu()))
    stored = device_from_dict(device.as_dict(), device.target)

    assert build_devices(node(), [hold(device)]) == build_devices(node(), [hold(stored)])


def test_several_claims_on_one_device_publish_it_once(make_gpu: Make, node: Node) -> None:
    (device,) = build_devices(node(make_gpu()))
    old = replace(device, attributes={**device.attributes, "driverVersionString": "old"})
    holds = [HeldDevice(device, "a/a", "uid-a"), HeldDevice(old, "b/b", "uid-b")]

    expected = [replace(device, taints=lost("missing"))]
    assert expected == list(build_devices(node(), holds)) == list(build_devices(node(), holds[::-1]))


def test_recorded_taints_are_not_facts_of_today(make_gpu: Make, node: Node, hold: Hold) -> None:
    (device,) = build_devices(node(make_gpu()))
    sick = replace(device, taints=(Taint("gpu.nvidia.com/xid", "79", "NoSchedule"),))

    assert [()] == [d.taints for d in build_devices(node(make_gpu()), [hold(sick)])]
    assert [lost("missing")] == [d.taints for d in build_devices(node(), [hold(sick)])]


def test_the_taint_is_of_the_drivers_own_domain(make_gpu: Make, node: Node, hold: Hold) -> None:
    (device,) = build_devices(node(make_gpu()))
    (built,) = build_devices(node(), [hold(device)], driver_name="GPU.example.com")

    assert ["gpu.example.com/gpu-lost"] == [taint.key for taint in built.taints]


def test_a_held_device_takes_the_counters_it_took(make_gpu: Make, node: Node, hold: Hold) -> None:
    (device,) = build_devices(node(make_gpu()))
    taken = (CounterConsumption("gpu-counters", {"memory": Quantity.parse("40Gi")}),)
    held = hold(replace(device, consumes=taken))

    assert [taken] == [d.consumes for d in build_devices(node(make_gpu()), [held])]
    gone = build_devices(node(), [held])
    assert [taken] == [d.consumes for d in gone]
    assert (CounterSet("gpu-counters", {"memory": Quantity.parse("40Gi")}),) == gone.counter_sets


def test_a_lost_counter_set_is_as_large_as_all_that_is_taken_of_it(
    make_gpu: Make, node: Node, hold: Hold
) -> None:
    devices = build_devices(node(make_gpu(1), make_gpu(2)))
    taken = (CounterConsumption("c", {"memory": Quantity.parse("1Gi")}),)
    gone = build_devices(node(), [hold(replace(device, consumes=taken)) for device in devices])

    assert (CounterSet("c", {"memory": Quantity.parse("2Gi")}),) == gone.counter_sets

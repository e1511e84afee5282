"""Devices that several claims may have at the same time: what each takes, and that the allocator takes it so."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.allocation.allocator import allocate
from dra_driver.config.node import GpuEntry, MigMode, NodeConfig, Shares
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import Device, DeviceSet, HeldDevice, NoteReason
from dra_driver.inventory.model import Inventory
from dra_driver.resource.validation import validate
from dra_driver.slices.pack import pack

Make = Callable[..., Any]
Node = Callable[..., Inventory]
Hold = Callable[[Device], HeldDevice]
GIB = 2**30
CLASS = {
    "metadata": {"name": "any"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}


def shared(shares: Shares, mig: MigMode = MigMode.AUTO) -> NodeConfig:
    return NodeConfig(mig, (GpuEntry(shares=shares),))


def claims_given(
    devices: DeviceSet, count: int, request: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """The claims, of so many that each want one device and this much of it, that are given something."""
    slices = [
        {
            "metadata": {"name": f"s{i}"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": "n",
                "pool": {"name": "n/gpu", "generation": 1, "resourceSliceCount": len(pack(devices).contents)},
                **content.as_spec(),
            },
        }
        for i, content in enumerate(pack(devices).contents)
    ]
    capacity = {"capacity": {"requests": request}} if request else {}
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any", **capacity}}]}}
    given: list[dict[str, Any]] = []
    for number in range(count):
        claim = {"metadata": {"name": f"c{number}"}, "spec": spec}
        found = allocate(
            [claim], node={"metadata": {"name": "n"}}, slices=slices, classes=[CLASS], allocated=given
        )
        if found is not None:
            given.append({**claim, "status": {"allocation": found[0]}})
    return given


def test_a_device_is_for_one_claim_at_a_time_unless_the_configuration_says_otherwise(
    make_gpu: Make, node: Node
) -> None:
    assert 1 == len(claims_given(build_devices(node(make_gpu())), 2))


@pytest.mark.parametrize(
    ("shares", "wanted", "given"),
    [
        ("unlimited", None, 5),
        ("unlimited", {"memory": "16Gi"}, 2),
        ("memory", None, 1),
        ("memory", {"memory": "10Gi"}, 4),
        (3, None, 3),
        (3, {"memory": "20Gi"}, 2),
        (3, {"shares": "2"}, 1),
        (1, None, 1),
        ("none", None, 1),
    ],
)
def test_claims_get_shares_until_what_they_take_is_used_up(
    make_gpu: Make, node: Node, shares: Shares, wanted: dict[str, str] | None, given: int
) -> None:
    devices = build_devices(node(make_gpu()), node=shared(shares))

    assert given == len(claims_given(devices, 5, wanted))


@pytest.mark.parametrize("shares", ["unlimited", "memory", 4])
@pytest.mark.parametrize("mig", [MigMode.AUTO, MigMode.DYNAMIC])
def test_mig_devices_are_shared_in_the_same_way(
    make_gpu: Make, make_mig: Make, node: Node, shares: Shares, mig: MigMode
) -> None:
    inventory = node(make_gpu(mig=make_mig("1g.5gb@0")))
    devices = build_devices(inventory, node=shared(shares, mig))

    assert all(device.allow_multiple_allocations for device in devices)
    small = {"memory": "1Gi"}
    assert 3 == len(claims_given(DeviceSet(devices.devices[:1], devices.counter_sets), 3, small))


@pytest.mark.parametrize("shares", ["unlimited", "memory", 1, 4, 1024])
@pytest.mark.parametrize("memory", [40 * GIB, 40 * GIB + 12345, None])
def test_shared_devices_are_valid(
    make_gpu: Make, make_mig: Make, node: Node, slice_of: Make, shares: Shares, memory: int | None
) -> None:
    gpus = make_gpu(1, memory_bytes=memory), make_gpu(2, mig=make_mig("1g.5gb@0", "7g.40gb@0"))
    devices = build_devices(node(*gpus), node=shared(shares)).devices

    assert [] == validate(slice_of(devices))


def test_memory_is_asked_for_in_mib_of_what_there_is(make_gpu: Make, node: Node) -> None:
    (device,) = build_devices(node(make_gpu(memory_bytes=40 * GIB + 12345)), node=shared("memory"))

    assert {
        "value": str(40 * GIB + 12345),
        "requestPolicy": {"default": "40Gi", "validRange": {"min": "1Mi", "max": "40Gi", "step": "1Mi"}},
    } == device.as_dict()["capacity"]["memory"]


def test_memory_that_is_not_known_cannot_be_shared_out(make_gpu: Make, node: Node) -> None:
    built = build_devices(node(make_gpu(memory_bytes=None)), node=shared("memory"))

    assert [False] == [device.allow_multiple_allocations for device in built]
    assert [NoteReason.NOT_SHARED] == [note.reason for note in built.notes]


def test_claims_with_several_shares_of_a_device_get_each_a_share_of_its_own(
    make_gpu: Make, node: Node
) -> None:
    devices = build_devices(node(make_gpu()), node=shared(4))
    results = [claim["status"]["allocation"]["devices"]["results"][0] for claim in claims_given(devices, 4)]

    assert 4 == len({result["shareID"] for result in results})
    assert [{"shares": "1", "memory": "0", "multiprocessors": "0"}] * 4 == [
        result["consumedCapacity"] for result in results
    ]


@pytest.mark.parametrize("now", ["none", "unlimited", 8])
def test_a_device_stays_shared_as_it_is_while_a_claim_holds_it(
    make_gpu: Make, node: Node, hold: Hold, now: Shares
) -> None:
    (before,) = build_devices(node(make_gpu()), node=shared(4))
    (held,) = build_devices(node(make_gpu()), [hold(before)], node=shared(now))
    (free,) = build_devices(node(make_gpu()), node=shared(now))

    assert before == held
    assert before != free


def test_some_gpus_are_shared_and_others_are_not(make_gpu: Make, node: Node) -> None:
    config = NodeConfig(
        entries=(
            GpuEntry(uuid="GPU-00000001", shares="none"),
            GpuEntry(pci_address="0000:02:00.0", shares=2),
            GpuEntry(model="nvidia a100*", shares="unlimited"),
        )
    )
    built = build_devices(node(*(make_gpu(bus) for bus in (1, 2, 3))), node=config)

    assert [False, True, True] == [device.allow_multiple_allocations for device in built]
    assert [False, True, False] == ["shares" in device.capacity for device in built]

"""Counters that an API server does not keep: no device is published that needs them."""

from dataclasses import replace
from typing import Any

from dra_driver.config.node import MigMode, NodeConfig
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import DeviceSet
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.resource.validation import validate
from dra_driver.slices.lessons import Lessons
from dra_driver.slices.pack import Content, pack


def dynamic(name: str, gpus: int) -> DeviceSet:
    """A node with so many GPUs that are cut on demand."""
    inventory = SimulatedBackend(load_profile(name), "n").scan()
    first = inventory.gpus[0]
    many = tuple(
        replace(first, uuid=f"GPU-{bus}", pci_address=f"0000:{bus:02x}:00.0") for bus in range(1, gpus + 1)
    )
    return build_devices(replace(inventory, gpus=many), node=NodeConfig(MigMode.DYNAMIC))


def as_slice(content: Content) -> dict[str, Any]:
    pool = {"name": "n/gpu", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": pool, **content.as_spec()},
    }


def test_sixteen_boards_of_twelve_memory_slices_are_within_the_limits() -> None:
    packed = pack(dynamic("rtx-pro-6000", 16))

    assert () == packed.withheld
    assert [8, 8] == [len(content.counter_sets) for content in packed.contents[:2]]
    assert 16 * 31 == sum(len(content.devices) for content in packed.contents)
    assert [] == [problem for content in packed.contents for problem in validate(as_slice(content))]


def test_without_counters_whole_gpus_are_published_without_them() -> None:
    packed = pack(dynamic("dgx-h100", 2), counters=False)

    assert ["gpu-0000-01-00-0", "gpu-0000-02-00-0"] == [d["name"] for d in packed.contents[0].devices]
    assert not any("consumesCounters" in device for device in packed.contents[0].devices)
    assert 50 == len(packed.withheld)


def test_a_server_that_drops_counters_of_new_devices_only_is_not_given_such_devices() -> None:
    counters, devices, *_ = pack(dynamic("dgx-h100", 2)).contents
    lessons = Lessons()
    stripped = [
        {key: value for key, value in device.items() if key != "consumesCounters"}
        for device in devices.devices
    ]

    assert not lessons.stored(counters, counters.as_spec())
    assert lessons.stored(devices, {"devices": stripped})
    assert not lessons.counters
    assert ["DRAPartitionableDevices"] == [field.gate for field in lessons.dropped(())]

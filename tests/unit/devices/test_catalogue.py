"""The catalogue against what is published, on every simulated node, whole and cut."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_driver.config.node import GpuEntry, MigMode, NodeConfig
from dra_driver.devices.build import build_devices
from dra_driver.devices.catalogue import ATTRIBUTES, CAPACITIES, COUNTERS, TAINTS, Entry
from dra_driver.devices.catalogue_pages import render_markdown, render_yaml
from dra_driver.devices.model import AttributeValue, Device, HeldDevice, Version
from dra_driver.inventory.model import Gpu, Inventory, Mig, MigDevice
from dra_driver.inventory.profile import load_profile, profile_names
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.resource.validation import validate

_ROOT = Path(__file__).parents[3]
_BY_NAME = {entry.name: entry for entry in ATTRIBUTES}


def _cut(gpu: Gpu) -> Gpu:
    """The GPU with one MIG device of each of its profiles, whether they fit together or not."""
    if gpu.mig is None or not gpu.mig.profiles:
        return gpu
    devices = tuple(
        MigDevice(f"MIG-{gpu.uuid}-{number}", number, 0, profile, profile.placements[0])
        for number, profile in enumerate(gpu.mig.profiles)
    )
    return replace(gpu, mig=replace(gpu.mig, enabled=True, pending=True, devices=devices))


def _worlds(name: str) -> Iterator[tuple[Inventory, NodeConfig]]:
    whole = SimulatedBackend(load_profile(name), "n1").scan()
    cut = replace(whole, gpus=tuple(_cut(gpu) for gpu in whole.gpus))
    for inventory in (whole, cut):
        yield inventory, NodeConfig()
        yield inventory, NodeConfig(MigMode.OFF, (GpuEntry(shares=4),))
    yield whole, NodeConfig(MigMode.STATIC)
    yield whole, NodeConfig(MigMode.DYNAMIC, (GpuEntry(shares=4),))


@pytest.fixture(scope="module")
def published() -> dict[str, list[Device]]:
    """All devices of each profile, in all modes."""
    return {
        name: [device for inventory, node in _worlds(name) for device in build_devices(inventory, node=node)]
        for name in profile_names()
    }


def _type(value: AttributeValue) -> str:
    match value:
        case Version():
            return "version"
        case bool():
            return "bool"
        case int():
            return "int"
        case str():
            return "string"


def _capacity_name(name: str) -> str:
    return re.sub(r"^memorySlice\d+$", "memorySlice<i>", name)


@pytest.mark.parametrize("name", profile_names())
def test_every_attribute_of_a_profile_is_in_the_catalogue(
    published: dict[str, list[Device]], name: str
) -> None:
    for device in published[name]:
        for key, value in device.attributes.items():
            entry = _BY_NAME[key]
            assert (entry.type, True) == (_type(value), device.target.kind in entry.devices)
            assert not entry.values or value in entry.values


@pytest.mark.parametrize("name", profile_names())
def test_every_capacity_of_a_profile_is_in_the_catalogue(
    published: dict[str, list[Device]], name: str
) -> None:
    known = {(entry.name, kind) for entry in CAPACITIES for kind in entry.devices}
    found = {
        (_capacity_name(key), device.target.kind) for device in published[name] for key in device.capacity
    }

    assert set() == found - known


@pytest.mark.parametrize("name", profile_names())
def test_what_is_always_there_is_always_there(published: dict[str, list[Device]], name: str) -> None:
    entries: tuple[Entry, ...] = (*ATTRIBUTES, *CAPACITIES)
    for device in published[name]:
        always = {e.name for e in entries if e.when is None and device.target.kind in e.devices}
        assert set() == always - set(device.attributes) - set(device.capacity)


@pytest.mark.parametrize("name", profile_names())
def test_devices_of_one_type_on_one_node_carry_the_same_attributes(
    published: dict[str, list[Device]], name: str
) -> None:
    keys = {
        (device.target.kind, tuple(sorted(device.attributes.keys() - {"migObstacle"})))
        for device in published[name]
    }

    assert len({device.target.kind for device in published[name]}) == len(keys)


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_makes_valid_devices(
    published: dict[str, list[Device]], name: str, slice_of: Callable[[list[Device]], dict[str, Any]]
) -> None:
    for start in range(0, len(published[name]), 64):
        devices = [replace(d, name=f"d{i}") for i, d in enumerate(published[name][start : start + 64])]
        assert [] == validate(slice_of(devices))


def test_everything_in_the_catalogue_is_published_by_some_profile(
    published: dict[str, list[Device]],
) -> None:
    devices = [device for devices in published.values() for device in devices]
    found = {(key, device.target.kind) for device in devices for key in device.attributes}
    found |= {(_capacity_name(key), device.target.kind) for device in devices for key in device.capacity}
    entries: tuple[Entry, ...] = (*ATTRIBUTES, *CAPACITIES)

    assert set() == {(entry.name, kind) for entry in entries for kind in entry.devices} - found


def test_every_example_has_the_type_of_its_entry() -> None:
    for entry in ATTRIBUTES:
        value = Version(str(entry.example)) if entry.type == "version" else entry.example
        assert entry.type == _type(value)


@pytest.mark.parametrize(
    ("name", "guard"),
    [
        ("brand", 'has({0}.brand) && {0}.brand == "Nvidia"'),
        ("nvlinkPeers", "has({0}.nvlinkPeers) && {0}.nvlinkPeers == 7"),
        ("migCapable", "has({0}.migCapable) && {0}.migCapable"),
        (
            "driverVersion",
            'has({0}.driverVersion) && {0}.driverVersion.compareTo(semver("580.65.6")) >= 0',
        ),
    ],
)
def test_guards_read_an_attribute_only_where_it_is(name: str, guard: str) -> None:
    assert guard.format('device.attributes["gpu.nvidia.com"]') == _BY_NAME[name].guard


def test_standard_attributes_are_read_in_their_own_domain() -> None:
    reference = 'device.attributes["resource.kubernetes.io"].numaNode'

    assert f"has({reference}) && {reference} == 0" == _BY_NAME["resource.kubernetes.io/numaNode"].guard


def test_memory_slices_are_guarded_by_number() -> None:
    (entry,) = [entry for entry in CAPACITIES if entry.name == "memorySlice<i>"]
    reference = 'device.capacity["gpu.nvidia.com"].memorySlice0'

    assert f'has({reference}) && {reference}.compareTo(quantity("1")) >= 0' == entry.guard


def test_the_taint_of_a_lost_device_is_in_the_catalogue() -> None:
    inventory = SimulatedBackend(load_profile("l4"), "n1").scan()
    held = [HeldDevice(device, "a/b", "uid") for device in build_devices(inventory)]
    (entry,) = TAINTS

    for device in build_devices(replace(inventory, gpus=()), held):
        (taint,) = device.taints
        assert (entry.key, entry.effect, True) == (taint.key, taint.effect, taint.value in entry.values)


def test_the_committed_files_are_what_the_catalogue_renders() -> None:
    assert render_yaml() == (_ROOT / "api/attributes.yaml").read_text(encoding="utf-8")
    assert render_markdown() == (_ROOT / "docs/reference/attributes.md").read_text(encoding="utf-8")


def test_the_rendered_yaml_lists_every_entry_in_order() -> None:
    document = yaml.safe_load(render_yaml())

    assert [entry.name for entry in ATTRIBUTES] == [entry["name"] for entry in document["attributes"]]
    assert [entry.name for entry in CAPACITIES] == [entry["name"] for entry in document["capacities"]]


def test_mig_mode_without_profiles_publishes_nothing_of_the_gpu() -> None:
    inventory = SimulatedBackend(load_profile("dgx-h100"), "n1").scan()
    gpus = tuple(replace(gpu, mig=Mig(enabled=True, pending=True)) for gpu in inventory.gpus)

    assert 0 == len(build_devices(replace(inventory, gpus=gpus)))


def test_every_counter_is_in_the_catalogue() -> None:
    inventory = SimulatedBackend(load_profile("dgx-h100"), "n1").scan()
    sets = build_devices(inventory, node=NodeConfig(MigMode.DYNAMIC)).counter_sets
    names = {re.sub(r"\d+$", "<i>", name) for counters in sets for name in counters.counters}

    assert {"instances-<id>"} == {counter.name for counter in COUNTERS} - names
    assert set() == names - {counter.name for counter in COUNTERS}

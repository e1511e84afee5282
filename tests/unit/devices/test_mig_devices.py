"""What MIG devices are published as."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.devices.build import build_devices
from dra_driver.devices.model import NoteReason, Target
from dra_driver.inventory.model import Fabric, Inventory, Mig
from dra_driver.resource.names import label
from dra_driver.resource.validation import validate

Make = Callable[..., Any]
Node = Callable[..., Inventory]


def test_a_mig_device_takes_the_place_of_its_parent(make_gpu: Make, make_mig: Make, node: Node) -> None:
    (device,) = build_devices(node(make_gpu(mig=make_mig("2g.10gb@2"))))

    assert device.name == "gpu-0000-65-00-0-mig-2g-10gb-14-2"
    assert device.target == Target("mig", "MIG-a-2g.10gb@2", "GPU-00000065", "0000:65:00.0")
    assert device.attributes["type"] == "mig"
    assert device.attributes["uuid"] == "MIG-a-2g.10gb@2"
    assert device.attributes["parentUUID"] == "GPU-00000065"
    assert device.attributes["profile"] == "2g.10gb"
    assert device.as_dict()["capacity"] == {
        "multiprocessors": {"value": "28"},
        "copyEngines": {"value": "2"},
        "decoders": {"value": "0"},
        "encoders": {"value": "0"},
        "jpegEngines": {"value": "0"},
        "ofaEngines": {"value": "0"},
        "memory": {"value": "9728Mi"},
        "memorySlice2": {"value": "1"},
        "memorySlice3": {"value": "1"},
    }


def test_a_mig_device_shares_its_parents_facts_but_not_its_links(
    make_gpu: Make, make_mig: Make, node: Node
) -> None:
    gpu = make_gpu(fabric=Fabric("6a7d3c4e-52b1-4f0a-9c1d-3e8f2b6a9d10", 1))
    (whole,) = build_devices(node(gpu))
    (device,) = build_devices(node(replace(gpu, mig=make_mig("1g.5gb@0"))))

    alone = {"nvlinkClique", "nvlinkPeers", "fabricClusterUUID", "fabricCliqueID", "migMode", "migCapable"}
    assert alone == set(whole.attributes) - set(device.attributes)
    shared = set(whole.attributes) - alone - {"type", "uuid"}
    assert {key: whole.attributes[key] for key in shared} == {key: device.attributes[key] for key in shared}


def test_all_mig_devices_carry_the_same_attributes(make_gpu: Make, make_mig: Make, node: Node) -> None:
    devices = build_devices(node(make_gpu(mig=make_mig("1g.5gb@0", "1g.5gb+me@1", "3g.20gb@4"))))

    assert 1 == len({tuple(sorted(device.attributes)) for device in devices})


def test_small_mig_devices_come_before_large_ones_before_whole_gpus(
    make_gpu: Make, make_mig: Make, node: Node
) -> None:
    built = build_devices(
        node(
            make_gpu(1, memory_bytes=15 * 1024**3),
            make_gpu(2, mig=make_mig("3g.20gb@4", "1g.5gb+me@0", "2g.10gb@2", "1g.5gb@1")),
            make_gpu(3, mig=make_mig("1g.5gb@0")),
        )
    )

    assert [
        "gpu-0000-02-00-0-mig-1g-5gb-19-1",
        "gpu-0000-03-00-0-mig-1g-5gb-19-0",
        "gpu-0000-02-00-0-mig-1g-5gb-me-20-0",
        "gpu-0000-02-00-0-mig-2g-10gb-14-2",
        "gpu-0000-02-00-0-mig-3g-20gb-9-4",
        "gpu-0000-01-00-0",
    ] == [device.name for device in built]


def test_a_gpu_in_mig_mode_without_mig_devices_is_only_noted(
    make_gpu: Make, make_mig: Make, node: Node
) -> None:
    built = build_devices(node(make_gpu(1, mig=make_mig()), make_gpu(2)))

    assert ["gpu-0000-02-00-0"] == [device.name for device in built]
    assert [(NoteReason.MIG_EMPTY, "gpu-0000-01-00-0")] == [(n.reason, n.device) for n in built.notes]


@pytest.mark.parametrize(("enabled", "after"), [(False, "enabled"), (True, "disabled")])
def test_a_mig_mode_that_waits_for_a_reset_is_noted(
    make_gpu: Make, make_mig: Make, node: Node, enabled: bool, after: str
) -> None:
    devices = make_mig("7g.40gb@0").devices if enabled else ()
    built = build_devices(node(make_gpu(mig=Mig(enabled=enabled, pending=not enabled, devices=devices))))

    assert 1 == len(built)
    (note,) = built.notes
    assert note.reason is NoteReason.MIG_PENDING
    assert note.message.endswith(f"is {after} after its next reset")


def test_memory_slices_go_first_when_a_device_would_carry_too_much(
    make_gpu: Make, make_mig: Make, node: Node, slice_of: Make
) -> None:
    mig = make_mig("7g.40gb@0")
    (device,) = mig.devices
    wide = replace(device, profile=replace(device.profile, name="4g.96gb", size=12))
    built = build_devices(node(make_gpu(mig=replace(mig, devices=(wide,)))))

    (device,), (note,) = built.devices, built.notes
    assert [name for name in device.capacity if name.startswith("memorySlice")] == []
    assert 7 == len(device.capacity)
    assert note.reason is NoteReason.VALUE_DROPPED
    assert [] == validate(slice_of([device]))


def test_eight_memory_slices_still_fit(make_gpu: Make, make_mig: Make, node: Node, slice_of: Make) -> None:
    built = build_devices(node(make_gpu(mig=make_mig("7g.40gb@0"))))

    assert 15 == len(built.devices[0].capacity)
    assert () == built.notes
    assert [] == validate(slice_of(built.devices))


@pytest.mark.parametrize(
    ("profile", "wanted"),
    [
        ("1g.24gb+me.all", "gpu-0000-65-00-0-mig-1g-24gb-me-all-19-0"),
        ("1g.24gb-me", "gpu-0000-65-00-0-mig-1g-24gb-me-19-0"),
        ("1G.5GB", "gpu-0000-65-00-0-mig-1g-5gb-19-0"),
        ("1g." + "x" * 80, "gpu-0000-65-00-0-mig-1g-" + "x" * 34 + "-19-0"),
        ("+", "gpu-0000-65-00-0-mig-19-0"),
    ],
)
def test_any_profile_makes_a_valid_name(
    make_gpu: Make, make_mig: Make, node: Node, profile: str, wanted: str
) -> None:
    mig = make_mig("1g.5gb@0")
    (device,) = mig.devices
    odd = replace(device, profile=replace(device.profile, name=profile))
    (built,) = build_devices(node(make_gpu(mig=replace(mig, devices=(odd,)))))

    assert wanted == built.name
    assert [] == label(built.name)


def test_profiles_written_alike_have_names_of_their_own(make_gpu: Make, make_mig: Make, node: Node) -> None:
    mig = make_mig("1g.5gb@0", "1g.5gb@1")
    one, other = mig.devices
    plus = replace(one, profile=replace(one.profile, name="1g.24gb+me", id=21))
    minus = replace(other, profile=replace(one.profile, name="1g.24gb-me", id=67), placement=0)
    built = build_devices(node(make_gpu(mig=replace(mig, devices=(plus, minus)))))

    assert 2 == len({device.name for device in built})

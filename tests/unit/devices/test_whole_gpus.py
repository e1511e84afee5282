"""What a whole GPU is published as."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_driver.devices.build import build_devices
from dra_driver.devices.model import NoteReason, Target, Version
from dra_driver.inventory.model import Fabric, Gpu, Inventory, NvLink, RemoteType
from dra_driver.quantity import Quantity
from dra_driver.resource.validation import validate

Make = Callable[..., Any]
Node = Callable[..., Inventory]


def test_a_gpu_says_all_that_is_known_of_it(make_gpu: Make, node: Node) -> None:
    (device,) = build_devices(node(make_gpu()))

    assert device.name == "gpu-0000-65-00-0"
    assert device.target == Target("gpu", "GPU-00000065", "GPU-00000065", "0000:65:00.0")
    assert device.attributes == {
        "type": "gpu",
        "uuid": "GPU-00000065",
        "productName": "NVIDIA A100-SXM4-40GB",
        "brand": "Nvidia",
        "architecture": "Ampere",
        "cudaComputeCapability": Version("8.0.0"),
        "driverVersion": Version("580.65.6"),
        "driverVersionString": "580.65.06",
        "cudaDriverVersion": Version("13.0.0"),
        "addressingMode": "HMM",
        "resource.kubernetes.io/pciBusID": "0000:65:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:64",
        "resource.kubernetes.io/numaNode": 0,
        "memoryKind": "dedicated",
        "migCapable": True,
        "migMode": "disabled",
        "nvlinkClique": "0000:65:00.0",
        "nvlinkPeers": 0,
    }
    assert device.as_dict()["capacity"] == {"memory": {"value": "40Gi"}, "multiprocessors": {"value": "108"}}


_OPTIONAL = {
    "brand": ["brand"],
    "architecture": ["architecture"],
    "compute_capability": ["cudaComputeCapability"],
    "addressing_mode": ["addressingMode"],
    "pcie_root": ["resource.kubernetes.io/pcieRoot"],
    "numa_node": ["resource.kubernetes.io/numaNode"],
    "memory_bytes": ["memoryKind"],
    "nvlinks": ["nvlinkClique", "nvlinkPeers"],
    "multiprocessors": [],
    "minor": [],
    "serial": [],
    "fabric": [],
}


@pytest.mark.parametrize("field", _OPTIONAL)
def test_an_unknown_fact_costs_its_own_attributes_only(make_gpu: Make, node: Node, field: str) -> None:
    (whole,) = build_devices(node(make_gpu()))
    (device,) = build_devices(node(make_gpu(**{field: None})))

    assert set(_OPTIONAL[field]) == set(whole.attributes) - set(device.attributes)


def test_a_gpu_of_which_nothing_optional_is_known_is_published(make_gpu: Make, node: Node) -> None:
    gpu = make_gpu(mig=None, **dict.fromkeys(_OPTIONAL))
    (device,) = build_devices(node(gpu, driver_version=None, cuda_driver_version=None))

    known = ["type", "uuid", "productName", "resource.kubernetes.io/pciBusID", "migCapable", "migMode"]
    assert known == list(device.attributes)
    assert {} == device.capacity


@pytest.mark.parametrize(
    ("raw", "published"),
    [("580.159.04", "580.159.4"), ("550.127.08", "550.127.8"), ("550.54", "550.54.0")],
)
def test_the_driver_version_is_semver_with_the_raw_string_beside_it(
    make_gpu: Make, node: Node, raw: str, published: str
) -> None:
    (device,) = build_devices(node(make_gpu(), driver_version=raw))

    assert (Version(published), raw) == (
        device.attributes["driverVersion"],
        device.attributes["driverVersionString"],
    )


@pytest.mark.parametrize(
    ("capability", "memory", "kind"),
    [
        ((12, 1), None, "unified"),  # GB10
        ((8, 7), 32 * 1024**3, "unified"),  # Orin, whose figure is the system's
        ((9, 0), 81559 * 1024**2, "dedicated"),
        ((9, 0), None, None),  # a getter without permission, not a GPU without memory
        (None, 15 * 1024**3, "dedicated"),
        (None, None, None),
    ],
)
def test_memory_is_called_unified_only_where_that_is_known(
    make_gpu: Make, node: Node, capability: tuple[int, int] | None, memory: int | None, kind: str | None
) -> None:
    (device,) = build_devices(node(make_gpu(compute_capability=capability, memory_bytes=memory)))

    assert kind == device.attributes.get("memoryKind")


def test_gpus_of_one_fabric_carry_it(make_gpu: Make, node: Node) -> None:
    fabric = Fabric("6a7d3c4e-52b1-4f0a-9c1d-3e8f2b6a9d10", 32766)
    devices = build_devices(node(make_gpu(1, fabric=fabric), make_gpu(2, fabric=fabric)))

    clique = "6a7d3c4e-52b1-4f0a-9c1d-3e8f2b6a9d10.32766"
    wanted = {
        "nvlinkClique": clique,
        "nvlinkPeers": 1,
        "fabricClusterUUID": fabric.cluster_uuid,
        "fabricCliqueID": 32766,
    }
    assert [wanted, wanted] == [{key: device.attributes[key] for key in wanted} for device in devices]


@pytest.mark.parametrize(
    ("fields", "missing", "objection"),
    [
        ({"name": "é" * 33}, "productName", "longer than 64 bytes"),
        ({"name": "bad \ud800"}, "productName", "not Unicode"),
        ({"pcie_root": "pci10000:00"}, "resource.kubernetes.io/pcieRoot", "standard form"),
        ({"pci_address": "10000:65:00.0"}, "resource.kubernetes.io/pciBusID", "standard form"),
        ({"numa_node": 2**63}, "resource.kubernetes.io/numaNode", "64 bits"),
        ({"compute_capability": (-1, 0)}, "cudaComputeCapability", "no semantic version"),
    ],
)
def test_a_value_that_cannot_be_published_is_dropped_alone_and_noted(
    make_gpu: Make, node: Node, fields: dict[str, Any], missing: str, objection: str
) -> None:
    built = build_devices(node(make_gpu(**fields)))

    (device,), (note,) = built.devices, built.notes
    assert missing not in device.attributes
    assert note.reason is NoteReason.VALUE_DROPPED
    assert note.device == device.name
    assert f"attribute {missing}" in note.message
    assert objection in note.message


def test_an_unreadable_driver_version_leaves_the_raw_string(make_gpu: Make, node: Node) -> None:
    built = build_devices(node(make_gpu(), driver_version="R580"))

    (device,), (note,) = built.devices, built.notes
    assert "driverVersion" not in device.attributes
    assert device.attributes["driverVersionString"] == "R580"
    assert "'R580' is no semantic version" in note.message


@pytest.mark.parametrize(("amount", "noted"), [(-1, True), (2**63, True), (0, False)])
def test_an_impossible_amount_of_memory_is_not_published(
    make_gpu: Make, node: Node, amount: int, noted: bool
) -> None:
    built = build_devices(node(make_gpu(memory_bytes=amount)))

    assert "memory" not in built.devices[0].capacity
    assert noted == bool(built.notes)


def test_a_negative_numa_node_is_unknown(make_gpu: Make, node: Node) -> None:
    built = build_devices(node(make_gpu(numa_node=-1)))

    assert "resource.kubernetes.io/numaNode" not in built.devices[0].attributes
    assert () == built.notes


def test_a_gpu_that_does_not_answer_is_not_offered_and_the_others_are(make_gpu: Make, node: Node) -> None:
    built = build_devices(node(make_gpu(1, fault="it is lost"), make_gpu(2)))

    assert ["gpu-0000-02-00-0"] == [device.name for device in built]
    assert [(NoteReason.GPU_FAULT, "gpu-0000-01-00-0")] == [(n.reason, n.device) for n in built.notes]


def test_names_do_not_depend_on_enumeration(make_gpu: Make, node: Node) -> None:
    both = build_devices(node(make_gpu(1, index=0, minor=0), make_gpu(2, index=1, minor=1)))
    alone = build_devices(node(make_gpu(2, index=0, minor=0)))

    assert both.devices[1] == alone.devices[0]


def test_two_gpus_at_one_address_are_offered_once(make_gpu: Make, node: Node) -> None:
    built = build_devices(node(make_gpu(1), make_gpu(1, uuid="GPU-twin")))

    assert ["GPU-00000001"] == [device.target.uuid for device in built]
    assert [NoteReason.DUPLICATE] == [note.reason for note in built.notes]


def _linked(*remotes: int) -> tuple[NvLink, ...]:
    return tuple(NvLink(i, RemoteType.GPU, f"0000:{bus:02x}:00.0") for i, bus in enumerate(remotes))


def test_small_gpus_come_first_then_small_islands_as_blocks(make_gpu: Make, node: Node) -> None:
    large = {"memory_bytes": 80 * 1024**3}
    gpus = [
        make_gpu(1, nvlinks=_linked(4), **large),
        make_gpu(2, nvlinks=_linked(5), **large),
        make_gpu(3, **large),
        make_gpu(4, nvlinks=_linked(1), **large),
        make_gpu(5, nvlinks=_linked(2), **large),
        make_gpu(6),
    ]
    wanted = [6, 3, 1, 4, 2, 5]

    for order in (gpus, gpus[::-1]):
        built = build_devices(node(*order))
        assert [f"gpu-0000-{bus:02x}-00-0" for bus in wanted] == [device.name for device in built]


def test_pci_domains_sort_by_number(make_gpu: Make, node: Node) -> None:
    addresses = ["10000:01:00.0", "000f:01:00.0", "0008:01:00.0"]
    built = build_devices(
        node(*(make_gpu(i, pci_address=address, nvlinks=None) for i, address in enumerate(addresses)))
    )

    assert addresses[::-1] == [device.target.pci_address for device in built]


_TEXT = st.none() | st.text(max_size=80)
_NUMBER = st.none() | st.integers(-(2**65), 2**65)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    brand=_TEXT,
    architecture=_TEXT,
    addressing_mode=_TEXT,
    pcie_root=_TEXT,
    name=st.text(max_size=120),
    numa_node=_NUMBER,
    memory_bytes=_NUMBER,
    multiprocessors=_NUMBER,
    driver=_TEXT,
    cuda=st.none() | st.integers(0, 2**40),
)
def test_whatever_the_hardware_says_the_slice_is_valid(
    make_gpu: Make, node: Node, slice_of: Make, driver: str | None, cuda: int | None, **facts: Any
) -> None:
    built = build_devices(node(make_gpu(**facts), driver_version=driver, cuda_driver_version=cuda))

    assert [] == validate(slice_of(built.devices))
    assert 1 == len(built)


def test_every_fact_of_a_gpu_is_published_or_left_out_on_purpose(make_gpu: Make) -> None:
    handled = {"uuid", "pci_address", "name", "mig", "fault", "index", *_OPTIONAL}

    assert handled == {field.name for field in fields(make_gpu())}


def test_a_large_number_is_no_reason_to_lose_exactness(make_gpu: Make, node: Node) -> None:
    gpu: Gpu = replace(make_gpu(), memory_bytes=189471 * 1024**2)
    (device,) = build_devices(node(gpu))

    assert Quantity.parse("189471Mi") == device.capacity["memory"]
    assert "189471Mi" == str(device.capacity["memory"])

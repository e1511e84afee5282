"""What NVML tells of NVLinks and of the multi-node fabric."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.inventory.model import Fabric, NvLink, RemoteType
from dra_driver.inventory.nvml_api import GONE_CODES, SESSION_CODES, Code
from tests.unit.inventory.nvml.fake_gpu import FakeFabric, FakeGpu, FakeLink

Node = Callable[..., Any]

GPU = FakeGpu("GPU-1", "00000000:65:00.0")
UNREADABLE = sorted(
    set(Code) - SESSION_CODES - GONE_CODES - {Code.SUCCESS, Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT}
)


@pytest.mark.parametrize(
    "gpu",
    [replace(GPU, links=None), replace(GPU, link_count=0), replace(GPU, links={3: FakeLink(active=False)})],
    ids=["not supported", "no such link", "all down"],
)
def test_a_gpu_without_active_links_has_none(node: Node, gpu: FakeGpu) -> None:
    assert node(gpu).gpu().nvlinks == ()


@pytest.mark.parametrize("code", UNREADABLE, ids=lambda code: code.name)
def test_link_state_that_cannot_be_read_is_unknown(node: Node, code: Code) -> None:
    assert node(replace(GPU, errors={"nvmlDeviceGetNvLinkState": code})).gpu().nvlinks is None


def test_active_links_tell_their_far_ends(node: Node) -> None:
    links = {
        0: FakeLink(0, "0000000F:66:00.0"),
        1: FakeLink(active=False),
        2: FakeLink(2, None),
        17: FakeLink(255, None),
    }
    assert node(replace(GPU, links=links)).gpu().nvlinks == (
        NvLink(0, RemoteType.GPU, "000f:66:00.0"),
        NvLink(2, RemoteType.SWITCH, None),
        NvLink(17, RemoteType.UNKNOWN, None),
    )


def test_links_to_a_power_cpu_are_left_out(node: Node) -> None:
    links = {0: FakeLink(1, "00000004:00:00.0"), 1: FakeLink(0, "00000000:66:00.0")}
    assert node(replace(GPU, links=links)).gpu().nvlinks == (NvLink(1, RemoteType.GPU, "0000:66:00.0"),)


def test_a_switch_address_counts_only_where_the_kernel_sees_a_device(node: Node) -> None:
    here = node(replace(GPU, links={0: FakeLink(2, "00000000:C1:00.0"), 1: FakeLink(2, "00000000:C2:00.0")}))
    (here.sysfs / "bus/pci/devices/0000:c1:00.0").mkdir(parents=True)
    assert [link.remote_pci_address for link in here.gpu().nvlinks] == ["0000:c1:00.0", None]


def test_an_address_that_was_left_empty_is_none(node: Node) -> None:
    here = node(replace(GPU, links={0: FakeLink(0, "00000000:00:00.0")}))
    assert here.gpu().nvlinks == (NvLink(0, RemoteType.GPU, None),)


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"], ids=["old call", "new call"]
)
def test_a_fabric_is_read_through_either_call(node: Node, function: str) -> None:
    gpu = replace(GPU, fabric=FakeFabric(bytes(range(16)), 42), errors={function: Code.FUNCTION_NOT_FOUND})
    assert node(gpu).gpu().fabric == Fabric("00010203-0405-0607-0809-0a0b0c0d0e0f", 42)


@pytest.mark.parametrize(
    "fabric",
    [
        None,
        FakeFabric(bytes(16), 1),
        FakeFabric(b"\1" * 16, state=0),
        FakeFabric(b"\1" * 16, state=1),
        FakeFabric(b"\1" * 16, state=2),
        FakeFabric(b"\1" * 16, status=999),
    ],
    ids=["not supported", "hgx: zero uuid", "unsupported state", "not started", "in progress", "failed"],
)
def test_a_fabric_that_is_not_up_is_none(node: Node, fabric: FakeFabric | None) -> None:
    assert node(replace(GPU, fabric=fabric)).gpu().fabric is None

"""A fact that a GPU does not give is None, however it does not give it, and the GPU is there."""

import ctypes
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_driver.inventory.model import Fabric, Gpu, Mig, NvLink, RemoteType
from dra_driver.inventory.nvml_api import GONE_CODES, SESSION_CODES, Code, NvmlCalls
from dra_driver.inventory.nvml_reader import read_gpu
from tests.unit.inventory.nvml.fake_gpu import FakeFabric, FakeGpu, FakeLink, FakeMig
from tests.unit.inventory.nvml.fake_nvml import FakeNvml

_NO_SYSFS = Path("/nonexistent")
FULL = FakeGpu(
    "GPU-1",
    "00000000:65:00.0",
    minor=3,
    mig=FakeMig(pending=1),
    links={0: FakeLink(0, "00000000:66:00.0")},
    fabric=FakeFabric(b"\1" * 16, 7),
)
EXPECTED = Gpu(
    uuid="GPU-1",
    pci_address="0000:65:00.0",
    index=0,
    minor=3,
    name="NVIDIA H100 80GB HBM3",
    brand="Nvidia",
    architecture="Hopper",
    compute_capability=(9, 0),
    memory_bytes=81559 * 2**20,
    addressing_mode="HMM",
    multiprocessors=132,
    mig=Mig(enabled=False, pending=True, switchable=True),
    nvlinks=(NvLink(0, RemoteType.GPU, "0000:66:00.0"),),
    fabric=Fabric("01010101-0101-0101-0101-010101010101", 7),
    serial="1650000000001",
)
# What each failing getter leaves out of the GPU above.
MISSING: dict[str, dict[str, Any]] = {
    "nvmlDeviceGetMinorNumber": {"minor": None},
    "nvmlDeviceGetBrand": {"brand": None},
    "nvmlDeviceGetArchitecture": {},  # the compute capability tells it too
    "nvmlDeviceGetCudaComputeCapability": {"compute_capability": None, "multiprocessors": None},
    "nvmlDeviceGetMemoryInfo": {"memory_bytes": None},
    "nvmlDeviceGetAddressingMode": {"addressing_mode": None},
    "nvmlDeviceGetNumGpuCores": {"multiprocessors": None},
    "nvmlDeviceGetSerial": {"serial": None},
    "nvmlDeviceGetMigMode": {"mig": None},
    "nvmlDeviceGetFieldValues": {},  # the architecture tells it too
    "nvmlDeviceGetNvLinkRemoteDeviceType": {
        "nvlinks": (NvLink(0, RemoteType.UNKNOWN, "0000:66:00.0"),),
    },
    "nvmlDeviceGetNvLinkRemotePciInfo": {"nvlinks": (NvLink(0, RemoteType.GPU, None),)},
    "nvmlDeviceGetGpuFabricInfoV": {},  # the older call tells it too
    "nvmlDeviceGetGpuFabricInfo": {},
}
FAILURES = sorted(set(Code) - SESSION_CODES - GONE_CODES - {Code.SUCCESS})


def read(gpu: FakeGpu) -> Gpu:
    nvml = FakeNvml([gpu])
    nvml.nvmlLib = object()
    nvml.nvmlInitWithFlags(0)
    reading = read_gpu(NvmlCalls(nvml), nvml.nvmlDeviceGetHandleByIndex(0), 0, _NO_SYSFS)
    assert reading.problems == ()
    assert reading.gpu is not None
    return reading.gpu


def test_everything_that_a_gpu_tells_is_read() -> None:
    assert read(FULL) == EXPECTED


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: code.name)
@pytest.mark.parametrize("getter", MISSING)
def test_a_getter_that_fails_leaves_out_its_fact_alone(getter: str, code: Code) -> None:
    assert read(replace(FULL, errors={getter: code})) == replace(EXPECTED, **MISSING[getter])


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: code.name)
def test_a_gpu_whose_optional_getters_all_fail_is_still_there(code: Code) -> None:
    gpu = read(replace(FULL, errors=dict.fromkeys([*MISSING, "nvmlDeviceGetNvLinkState"], code)))
    nothing_but_identity = Gpu(
        "GPU-1", "0000:65:00.0", 0, None, "NVIDIA H100 80GB HBM3", None, None, None, None
    )
    assert replace(gpu, nvlinks=None) == nothing_but_identity


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from([*MISSING, "nvmlDeviceGetNvLinkState"]), st.sampled_from(FAILURES)))
def test_any_getters_may_fail_together_in_any_way(errors: dict[str, int]) -> None:
    gpu = read(replace(FULL, errors=errors))
    assert (gpu.uuid, gpu.pci_address, gpu.name, gpu.fault) == (
        EXPECTED.uuid,
        EXPECTED.pci_address,
        EXPECTED.name,
        None,
    )
    assert (gpu.memory_bytes is None) == ("nvmlDeviceGetMemoryInfo" in errors)
    assert (gpu.mig is None) == ("nvmlDeviceGetMigMode" in errors)


def test_architecture_is_none_where_neither_it_nor_the_compute_capability_is_told() -> None:
    assert read(replace(FULL, architecture=None, compute_capability=None)).architecture is None


def test_strings_may_come_as_bytes() -> None:
    assert read(replace(FULL, uuid=b"GPU-1", name=b"NVIDIA H100 80GB HBM3")) == EXPECTED


def test_memory_of_zero_is_unknown_memory() -> None:
    assert read(replace(FULL, memory_bytes=0)).memory_bytes is None


def no_text() -> str:
    return b"\xff".decode()


def no_argument() -> str:
    return inspect.signature(no_text).bind("version")  # type: ignore[return-value] # raises


def no_field() -> str:
    return ctypes.c_uint().uiVal  # type: ignore[attr-defined,no-any-return] # which is the fault


@pytest.mark.parametrize("fault", [no_text, no_argument, no_field])
def test_what_pynvml_itself_fails_at_is_left_out(fault: Callable[[], str]) -> None:
    class BrokenSerial(FakeNvml):
        def nvmlDeviceGetSerial(self, handle: Any, /) -> str | bytes:
            return fault()

    nvml = BrokenSerial([FULL])
    nvml.nvmlLib = object()
    nvml.nvmlInitWithFlags(0)
    reading = read_gpu(NvmlCalls(nvml), nvml.nvmlDeviceGetHandleByIndex(0), 0, _NO_SYSFS)
    assert reading.gpu == replace(EXPECTED, serial=None)


def test_domains_above_zero_are_written_as_sysfs_does() -> None:
    addresses = [
        read(replace(FULL, bus_id=bus_id)).pci_address
        for bus_id in ("0000000F:01:00.0", "00010000:01:00.0", "00000008:0A:1F.0")
    ]
    assert addresses == ["000f:01:00.0", "10000:01:00.0", "0008:0a:1f.0"]

"""The fake and our list of calls against the real pynvml, so that neither drifts; and pynvml without a driver."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dra_driver.inventory.nvml import PYNVML, NvmlBackend
from dra_driver.inventory.nvml_api import Code, NvmlCalls, NvmlError, NvmlModule
from tests.unit.inventory.nvml.fake_gpu import FakeGpu
from tests.unit.inventory.nvml.fake_nvml import FakeNvml

FUNCTIONS = sorted(name for name in vars(NvmlModule) if name.startswith("nvml"))
ATTRIBUTES = sorted(NvmlModule.__annotations__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pynvml_and_the_fake_take_the_arguments_that_we_give(name: str) -> None:
    arguments = list(inspect.signature(getattr(NvmlModule, name)).parameters)[1:]
    for module in (PYNVML, FakeNvml([])):
        # pynvml's string decorator takes any arguments, so the function under it is what counts.
        function = inspect.unwrap(getattr(module, name))
        inspect.signature(function).bind(*arguments)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_pynvml_and_the_fake_have_what_we_use(name: str) -> None:
    assert hasattr(PYNVML, name)
    assert hasattr(FakeNvml([]), name)


@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
def test_codes_are_those_of_pynvml(code: Code) -> None:
    name = "NVML_SUCCESS" if code is Code.SUCCESS else f"NVML_ERROR_{code.name}"
    assert getattr(PYNVML, name) == code


@pytest.mark.parametrize(
    ("struct", "fields"),
    [
        ("nvmlPciInfo_t", "domain bus device"),
        ("c_nvmlMemory_t", "total"),
        ("c_nvmlGpuFabricInfo_t", "clusterUuid status cliqueId state"),
        ("c_nvmlGpuFabricInfo_v2_t", "clusterUuid status cliqueId state"),
        ("c_nvmlGpuInstancePlacement_t", "start size"),
        ("c_nvmlGpuInstanceInfo_t", "id profileId placement"),
        ("c_nvmlDeviceAttributes", "gpuInstanceSliceCount computeInstanceSliceCount"),
        (
            "c_nvmlGpuInstanceProfileInfo_v2_t",
            (
                "id sliceCount instanceCount multiprocessorCount copyEngineCount decoderCount encoderCount "
                "jpegCount ofaCount memorySizeMB name"
            ),
        ),
    ],
)
def test_structs_have_the_fields_that_we_read(struct: str, fields: str) -> None:
    names = {field[0] for field in getattr(PYNVML, struct)._fields_}
    assert set(fields.split()) <= names


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("NVML_NVLINK_DEVICE_TYPE_GPU", 0),
        ("NVML_NVLINK_DEVICE_TYPE_IBMNPU", 1),
        ("NVML_NVLINK_DEVICE_TYPE_SWITCH", 2),
        ("NVML_GPU_FABRIC_STATE_COMPLETED", 3),
        ("NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1", 0x7),
        ("NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX", 0xC),
        ("NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME", 0xE),
        ("NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME", 0x10),
        ("NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX", 0x11),
        ("NVML_DEVICE_ADDRESSING_MODE_ATS", 2),
        ("NVML_DEVICE_ARCH_ADA", 8),
        ("NVML_DEVICE_ARCH_RUBIN", 13),
        ("NVML_BRAND_NVIDIA", 14),
        ("NVML_BRAND_TITAN_RTX", 16),
    ],
)
def test_numbers_mean_what_pynvml_says(constant: str, value: int) -> None:
    assert getattr(PYNVML, constant) == value


def test_errors_of_pynvml_are_translated_with_function_and_code() -> None:
    nvml = FakeNvml([])
    with pytest.raises(NvmlError, match=r"^nvmlDeviceGetCount answered UNINITIALIZED \(1\)$") as caught:
        NvmlCalls(nvml).call(nvml.nvmlDeviceGetCount)
    assert caught.value.code == Code.UNINITIALIZED
    assert isinstance(caught.value.__cause__, PYNVML.NVMLError)


def test_what_is_above_all_that_there_can_be_is_no_number_to_count_up_to() -> None:
    nvml = FakeNvml([FakeGpu("GPU-0", "00000000:10:00.0")] * 9)
    nvml.nvmlLib = object()
    nvml.nvmlInitWithFlags(0)
    calls = NvmlCalls(nvml)
    assert calls.count(9, nvml.nvmlDeviceGetCount) == 9
    with pytest.raises(NvmlError, match=r"^nvmlDeviceGetCount: there cannot be 9 of them$"):
        calls.count(8, nvml.nvmlDeviceGetCount)


def test_a_root_without_a_driver_is_told_by_the_real_pynvml_backend(tmp_path: Path) -> None:
    backend = NvmlBackend(tmp_path)
    inventory = backend.scan()
    backend.close()
    assert (inventory.available, inventory.gpus) == (False, ())
    assert inventory.problems[0].message.startswith(f"libnvidia-ml.so.1 was not found under {tmp_path} (in ")


def test_a_file_that_is_no_library_is_told_by_the_real_pynvml_backend(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    backend = NvmlBackend(tmp_path)
    message = backend.scan().problems[0].message
    backend.close()
    assert message.startswith(f"no NVML library could be loaded, tried {tmp_path}/libnvidia-ml.so.1 (")


class TestFakeNvml:
    """The habits of NVML that the fake must keep."""

    @pytest.fixture
    def nvml(self) -> FakeNvml:
        nvml = FakeNvml([FakeGpu("GPU-0", "00000000:10:00.0")])
        nvml.nvmlLib = object()
        return nvml

    def fails(self, code: Code, function: Callable[..., Any], *args: Any) -> None:
        with pytest.raises(PYNVML.NVMLError) as caught:
            function(*args)
        assert getattr(caught.value, "value", None) == code

    def test_init_needs_a_library(self) -> None:
        self.fails(Code.LIBRARY_NOT_FOUND, FakeNvml([]).nvmlInitWithFlags, 1)

    def test_init_without_gpus_needs_the_flag(self) -> None:
        nvml = FakeNvml([])
        nvml.nvmlLib = object()
        self.fails(Code.NOT_FOUND, nvml.nvmlInitWithFlags, 0)
        nvml.nvmlInitWithFlags(PYNVML.NVML_INIT_FLAG_NO_GPUS)

    def test_calls_outside_a_session_are_uninitialized(self, nvml: FakeNvml) -> None:
        self.fails(Code.UNINITIALIZED, nvml.nvmlDeviceGetCount)
        nvml.nvmlInitWithFlags(0)
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        nvml.nvmlShutdown()
        self.fails(Code.UNINITIALIZED, nvml.nvmlDeviceGetUUID, handle)

    def test_handles_are_new_objects_and_die_with_their_session(self, nvml: FakeNvml) -> None:
        nvml.nvmlInitWithFlags(0)
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        assert handle != nvml.nvmlDeviceGetHandleByIndex(0)
        nvml.nvmlShutdown()
        nvml.nvmlInitWithFlags(0)
        self.fails(Code.INVALID_ARGUMENT, nvml.nvmlDeviceGetUUID, handle)

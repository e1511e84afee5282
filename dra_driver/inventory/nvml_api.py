# ruff: noqa: N802, N815 - the names of pynvml, so that grep finds both sides
"""The part of NVML that the inventory uses, and what its errors mean.

`NvmlModule` is the function surface of `import pynvml` that we call: pynvml itself (handed over by
`nvml.py`, the one module that imports it) or the fake of the tests. A test holds the real module against
this list, so that the fake cannot drift from it.

`NvmlCalls` makes each call and sorts errors by what they are about, since NVML has no single "unsupported":
an absent feature surfaces as NotSupported, FunctionNotFound (old driver), InvalidArgument (index beyond the
last), ArgumentVersionMismatch (struct unknown to the driver), NotFound, NoPermission (container without
capabilities) or plain Unknown. So an optional getter may fail in any way, except for the two that are never
about the feature:

* the session is over (`SESSION_CODES`): the backend opens a new one. A GPU that says so in a new session too
  is itself the fault;
* the GPU is gone (`GONE_CODES`): this GPU gets a fault, its neighbours do not.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from dra_driver.errors import HardwareError, one_line

T = TypeVar("T")
Handle = Any  # an opaque pointer: neither hashable nor equal by value


class Code(IntEnum):
    """nvmlReturn_t, with the values of nvml.h."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    INSUFFICIENT_RESOURCES = 23
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    UNKNOWN = 999


SESSION_CODES = frozenset(
    {Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIBRARY_NOT_FOUND, Code.LIB_RM_VERSION_MISMATCH}
)
GONE_CODES = frozenset({Code.GPU_IS_LOST, Code.GPU_NOT_FOUND, Code.RESET_REQUIRED})


class NvmlError(HardwareError):
    """An NVML call failed: which one, and with what code; or `because` of what is no answer of NVML's."""

    def __init__(self, function: str, code: int, because: str | None = None) -> None:
        self.function, self.code = function, code
        name = Code(code).name if code in set(Code) else "code"
        super().__init__(
            f"{function} answered {name} ({code})" if because is None else f"{function}: {because}"
        )


class NvmlModule(Protocol):
    """What we use of pynvml; handles, structs and pointers are ctypes objects."""

    nvmlLib: Any
    _nvmlGetFunctionPointer_cache: dict[str, Any]
    NVMLError: type[Exception]  # carries the code as `.value`

    NVML_INIT_FLAG_NO_GPUS: int
    NVML_NVLINK_MAX_LINKS: int
    NVML_GPU_INSTANCE_PROFILE_COUNT: int
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT: int
    NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED: int

    c_nvmlGpuFabricInfo_t: Callable[[], Any]
    c_nvmlGpuFabricInfo_v2_t: Callable[[], Any]
    c_nvmlGpuInstancePlacement_t: Any
    c_nvmlGpuInstance_t: Any
    c_nvmlComputeInstance_t: Any

    def nvmlInitWithFlags(self, flags: int, /) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str | bytes: ...
    def nvmlSystemGetCudaDriverVersion(self) -> int: ...

    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Handle: ...
    def nvmlDeviceGetHandleByUUID(self, uuid: str, /) -> Handle: ...
    def nvmlDeviceGetUUID(self, handle: Handle, /) -> str | bytes: ...
    def nvmlDeviceGetPciInfo(self, handle: Handle, /) -> Any: ...
    def nvmlDeviceGetName(self, handle: Handle, /) -> str | bytes: ...
    def nvmlDeviceGetMinorNumber(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetBrand(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetArchitecture(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetCudaComputeCapability(self, handle: Handle, /) -> tuple[int, int]: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Handle, /) -> Any: ...
    def nvmlDeviceGetAddressingMode(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetNumGpuCores(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetSerial(self, handle: Handle, /) -> str | bytes: ...

    def nvmlDeviceGetNvLinkState(self, handle: Handle, link: int, /) -> int: ...
    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Handle, link: int, /) -> int: ...
    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: Handle, link: int, /) -> Any: ...
    def nvmlDeviceGetGpuFabricInfoV(self, handle: Handle, info: Any, /) -> int: ...
    def nvmlDeviceGetGpuFabricInfo(self, handle: Handle, info: Any, /) -> int: ...

    def nvmlDeviceGetMigMode(self, handle: Handle, /) -> list[int]: ...
    def nvmlDeviceGetGpuInstanceProfileInfo(self, handle: Handle, profile: int, version: int, /) -> Any: ...
    def nvmlDeviceGetGpuInstanceProfileInfoById(self, handle: Handle, profile_id: int, /) -> Any: ...
    def nvmlDeviceGetGpuInstancePossiblePlacements(
        self, handle: Handle, profile_id: int, placements: Any, count: Any, /
    ) -> int: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Handle, index: int, /) -> Handle: ...
    def nvmlDeviceGetGpuInstanceId(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetComputeInstanceId(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetAttributes(self, handle: Handle, /) -> Any: ...
    def nvmlDeviceGetGpuInstanceById(self, handle: Handle, gpu_instance: int, /) -> Handle: ...
    def nvmlGpuInstanceGetInfo(self, gpu_instance: Handle, /) -> Any: ...

    def nvmlDeviceGetFieldValues(self, handle: Handle, fields: list[int], /) -> Any: ...
    def nvmlDeviceSetMigMode(self, handle: Handle, mode: int, /) -> int: ...
    def nvmlDeviceCreateGpuInstanceWithPlacement(
        self, handle: Handle, profile_id: int, placement: Any, /
    ) -> Handle: ...
    def nvmlDeviceGetGpuInstances(
        self, handle: Handle, profile_id: int, instances: Any, count: Any, /
    ) -> int: ...
    def nvmlGpuInstanceDestroy(self, gpu_instance: Handle, /) -> int: ...
    def nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, gpu_instance: Handle, profile: int, engine_profile: int, version: int, /
    ) -> Any: ...
    def nvmlGpuInstanceCreateComputeInstance(self, gpu_instance: Handle, profile_id: int, /) -> Handle: ...
    def nvmlGpuInstanceGetComputeInstances(
        self, gpu_instance: Handle, profile_id: int, instances: Any, count: Any, /
    ) -> int: ...
    def nvmlGpuInstanceGetComputeInstanceById(
        self, gpu_instance: Handle, compute_instance: int, /
    ) -> Handle: ...
    def nvmlComputeInstanceGetInfo_v2(self, compute_instance: Handle, /) -> Any: ...
    def nvmlComputeInstanceDestroy(self, compute_instance: Handle, /) -> int: ...


class NvmlCalls:
    """Calls into an `NvmlModule`, with its exceptions translated to `NvmlError`."""

    def __init__(self, module: NvmlModule) -> None:
        self.module = module

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """The answer of `function`, or NvmlError."""
        try:
            return function(*args)
        except self.module.NVMLError as error:
            raise NvmlError(function.__name__, int(getattr(error, "value", Code.UNKNOWN))) from error
        except Exception as error:
            # pynvml decodes strictly what broken firmware may have filled in, and one of another release than ours
            # may know an argument or a field no longer. Neither is worth the other GPUs of the node.
            because = f"{type(error).__name__} in pynvml ({one_line(error)})"
            raise NvmlError(function.__name__, Code.UNKNOWN, because) from error

    def count(self, most: int, function: Callable[..., int], *args: Any) -> int:
        """A number of things that is counted up to; NvmlError also where it is above `most`, and so no answer."""
        number = self.call(function, *args)
        if number > most:
            raise NvmlError(function.__name__, Code.UNKNOWN, f"there cannot be {number} of them")
        return number

    def optional(self, function: Callable[..., T], *args: Any) -> T | None:
        """The answer of `function`, None where the GPU does not have it.

        Raises NvmlError where the session is over or the GPU is gone.
        """
        try:
            return self.call(function, *args)
        except NvmlError as error:
            if error.code in SESSION_CODES or error.code in GONE_CODES:
                raise
            return None


def text(value: str | bytes) -> str:
    """A string of NVML; releases before 11.5 gave bytes."""
    return (value.decode(errors="replace") if isinstance(value, bytes) else value).strip()

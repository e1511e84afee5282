# ruff: noqa: N802, N815 - the names of pynvml
"""A hand-written NVML: the functions of pynvml that the inventory uses, over scripted GPUs.

It stands in for the *module*, below `nvml_api.NvmlCalls`, so that tests cover the translation of errors and
the filling of structs too: it raises pynvml's own exceptions and fills pynvml's own structs. It keeps the
habits of the real one that bite:

* handles are new objects on every call and die with their session; the GPUs of a session are those that
  were there when it was opened (`FakeNvml.live` for drivers that tell of later ones);
* every call before init or after the last shutdown is Uninitialized;
* a feature that a GPU does not have (None here) is NotSupported, a struct version or function that the
  driver is too old for is what `errors` says;
* `lost` GPUs answer GPU_IS_LOST to everything, the others go on;
* a call listed in `hangs` does not return until its event is set.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dra_driver.inventory.nvml import PYNVML
from dra_driver.inventory.nvml_api import Code

T = TypeVar("T")


@dataclass(slots=True)
class FakeLink:
    """An NVLink: `remote_type` 0 GPU, 1 IBM CPU, 2 switch, 255 unknown; None: not supported."""

    remote_type: int | None = 0
    remote_bus_id: str | None = None
    active: bool = True


@dataclass(slots=True)
class FakeFabric:
    """What the fabric info call answers."""

    cluster_uuid: bytes = bytes(16)
    clique_id: int = 0
    state: int = 3  # COMPLETED
    status: int = 0


@dataclass(slots=True)
class FakeProfile:
    """A GPU instance profile; the key it is stored under is the enum index, `id` is the driver's."""

    id: int
    name: str | bytes
    slices: int
    memory_mib: int
    multiprocessors: int = 0
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0
    instances: int = 1
    placements: tuple[tuple[int, int], ...] = ()  # start, size


@dataclass(slots=True)
class FakeMigDevice:
    """A compute instance in a GPU instance; None in `FakeMig.devices` is a hole."""

    uuid: str
    gpu_instance: int
    profile_id: int
    placement: tuple[int, int]
    compute_instance: int = 0
    compute_slices: int = 1
    gpu_slices: int = 1
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class FakeMig:
    """MIG of a capable GPU."""

    current: int = 0
    pending: int = 0
    profiles: dict[int, FakeProfile] = field(default_factory=dict)
    devices: list[FakeMigDevice | None] = field(default_factory=list)


@dataclass(slots=True)
class FakeGpu:
    """A scripted GPU, an H100 unless told otherwise. `errors` maps a function's name to an NVML error code."""

    uuid: str | bytes
    bus_id: str
    name: str | bytes = "NVIDIA H100 80GB HBM3"
    minor: int | None = 0
    brand: int | None = 14
    architecture: int | None = 9
    compute_capability: tuple[int, int] | None = (9, 0)
    memory_bytes: int | None = 81559 * 2**20
    cores: int | None = 16896
    addressing_mode: int | None = 1
    serial: str | None = "1650000000001"
    mig: FakeMig | None = field(default_factory=FakeMig)
    links: dict[int, FakeLink] | None = field(default_factory=dict)
    link_count: int = 18
    fabric: FakeFabric | None = field(default_factory=FakeFabric)
    lost: bool = False
    errors: dict[str, int] = field(default_factory=dict)


class _Handle:
    """An opaque pointer into one session."""

    def __init__(self, session: int, target: Any, parent: FakeGpu) -> None:
        self.session, self.target, self.parent = session, target, parent


class FakeNvml:
    """`NvmlModule` over a list of GPUs that a test may change between two scans."""

    NVMLError = PYNVML.NVMLError
    NVML_INIT_FLAG_NO_GPUS = PYNVML.NVML_INIT_FLAG_NO_GPUS
    NVML_NVLINK_MAX_LINKS = PYNVML.NVML_NVLINK_MAX_LINKS
    NVML_GPU_INSTANCE_PROFILE_COUNT = PYNVML.NVML_GPU_INSTANCE_PROFILE_COUNT
    c_nvmlGpuFabricInfo_t = staticmethod(PYNVML.c_nvmlGpuFabricInfo_t)
    c_nvmlGpuFabricInfo_v2_t = staticmethod(PYNVML.c_nvmlGpuFabricInfo_v2_t)
    c_nvmlGpuInstancePlacement_t = PYNVML.c_nvmlGpuInstancePlacement_t

    def __init__(
        self,
        gpus: list[FakeGpu],
        *,
        driver_version: str | bytes = "580.95.05",
        cuda_driver_version: int = 13000,
        live: bool = False,
    ) -> None:
        self.gpus = gpus
        self.driver_version = driver_version
        self.cuda_driver_version = cuda_driver_version
        self.live = live
        self.errors: dict[str, int] = {}  # of calls that are about no GPU
        self.hangs: dict[str, threading.Event] = {}
        self.refused: set[str] = set()  # library files
        self.calls: list[str] = []
        self.sessions = 0
        self.nvmlLib: Any = None
        self._nvmlGetFunctionPointer_cache: dict[str, Any] = {}
        self._references = 0
        self._listed: list[FakeGpu] = []

    def load_library(self, path: str) -> object:
        """In place of ctypes.CDLL: any path is a library, but for those that are `refused`."""
        if path in self.refused:
            msg = f"{path}: wrong ELF class: ELFCLASS32"
            raise OSError(msg)
        return path

    # Session

    def nvmlInitWithFlags(self, flags: int, /) -> None:
        self._enter("nvmlInitWithFlags")
        if self.nvmlLib is None:
            raise self._error(Code.LIBRARY_NOT_FOUND)
        if not self.gpus and not flags & self.NVML_INIT_FLAG_NO_GPUS:
            raise self._error(Code.NOT_FOUND)
        self._references += 1
        self.sessions += 1
        self._listed = list(self.gpus)

    def nvmlShutdown(self) -> None:
        self._enter_session("nvmlShutdown")
        self._references -= 1

    def end_session(self) -> None:
        """As a driver reload does: what was opened is Uninitialized from now on."""
        self._references = 0

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        self._enter_session("nvmlSystemGetDriverVersion")
        return self.driver_version

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        self._enter_session("nvmlSystemGetCudaDriverVersion")
        return self.cuda_driver_version

    # GPUs

    def nvmlDeviceGetCount(self) -> int:
        self._enter_session("nvmlDeviceGetCount")
        return len(self._devices())

    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Any:
        self._enter_session("nvmlDeviceGetHandleByIndex")
        devices = self._devices()
        if index >= len(devices):
            raise self._error(Code.INVALID_ARGUMENT)
        self._check(devices[index], "nvmlDeviceGetHandleByIndex")
        return _Handle(self.sessions, devices[index], devices[index])

    def nvmlDeviceGetUUID(self, handle: Any, /) -> str | bytes:
        self._gpu(handle, "nvmlDeviceGetUUID")
        uuid: str | bytes = handle.target.uuid
        return uuid

    def nvmlDeviceGetPciInfo(self, handle: Any, /) -> Any:
        return _pci_info(self._gpu(handle, "nvmlDeviceGetPciInfo").bus_id)

    def nvmlDeviceGetName(self, handle: Any, /) -> str | bytes:
        return self._gpu(handle, "nvmlDeviceGetName").name

    def nvmlDeviceGetMinorNumber(self, handle: Any, /) -> int:
        return self._had(self._gpu(handle, "nvmlDeviceGetMinorNumber").minor)

    def nvmlDeviceGetBrand(self, handle: Any, /) -> int:
        return self._had(self._gpu(handle, "nvmlDeviceGetBrand").brand)

    def nvmlDeviceGetArchitecture(self, handle: Any, /) -> int:
        return self._had(self._gpu(handle, "nvmlDeviceGetArchitecture").architecture)

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any, /) -> tuple[int, int]:
        return self._had(self._gpu(handle, "nvmlDeviceGetCudaComputeCapability").compute_capability)

    def nvmlDeviceGetMemoryInfo(self, handle: Any, /) -> Any:
        total = self._had(self._gpu(handle, "nvmlDeviceGetMemoryInfo").memory_bytes)
        return _struct("c_nvmlMemory_t", total=total, free=total, used=0)

    def nvmlDeviceGetAddressingMode(self, handle: Any, /) -> int:
        return self._had(self._gpu(handle, "nvmlDeviceGetAddressingMode").addressing_mode)

    def nvmlDeviceGetNumGpuCores(self, handle: Any, /) -> int:
        return self._had(self._gpu(handle, "nvmlDeviceGetNumGpuCores").cores)

    def nvmlDeviceGetSerial(self, handle: Any, /) -> str | bytes:
        return self._had(self._gpu(handle, "nvmlDeviceGetSerial").serial)

    # NVLink and fabric

    def nvmlDeviceGetNvLinkState(self, handle: Any, link: int, /) -> int:
        gpu = self._gpu(handle, "nvmlDeviceGetNvLinkState")
        links = self._had(gpu.links)
        if link >= gpu.link_count:
            raise self._error(Code.INVALID_ARGUMENT)
        return int(link in links and links[link].active)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: int, /) -> int:
        return self._had(self._link(handle, link, "nvmlDeviceGetNvLinkRemoteDeviceType").remote_type)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: Any, link: int, /) -> Any:
        bus_id = self._had(self._link(handle, link, "nvmlDeviceGetNvLinkRemotePciInfo").remote_bus_id)
        return _pci_info(bus_id)

    def nvmlDeviceGetGpuFabricInfoV(self, handle: Any, info: Any, /) -> int:
        return self._fill_fabric(self._gpu(handle, "nvmlDeviceGetGpuFabricInfoV"), info)

    def nvmlDeviceGetGpuFabricInfo(self, handle: Any, info: Any, /) -> int:
        return self._fill_fabric(self._gpu(handle, "nvmlDeviceGetGpuFabricInfo"), info)

    # MIG

    def nvmlDeviceGetMigMode(self, handle: Any, /) -> list[int]:
        mig = self._had(self._gpu(handle, "nvmlDeviceGetMigMode").mig)
        return [mig.current, mig.pending]

    def nvmlDeviceGetGpuInstanceProfileInfo(self, handle: Any, profile: int, version: int = 2, /) -> Any:
        # pynvml's argument chooses between two functions of the library.
        name = "nvmlDeviceGetGpuInstanceProfileInfo" + ("V" if version == 2 else "")
        mig = self._had(self._gpu(handle, name).mig)
        return self._profile_info(mig.profiles.get(profile), version)

    def nvmlDeviceGetGpuInstanceProfileInfoById(self, handle: Any, profile_id: int, /) -> Any:
        mig = self._had(self._gpu(handle, "nvmlDeviceGetGpuInstanceProfileInfoById").mig)
        return self._profile_info(_by_id(mig, profile_id), 2)

    def nvmlDeviceGetGpuInstancePossiblePlacements(
        self, handle: Any, profile_id: int, placements: Any, count: Any, /
    ) -> int:
        mig = self._had(self._gpu(handle, "nvmlDeviceGetGpuInstancePossiblePlacements").mig)
        profile = _by_id(mig, profile_id)
        if profile is None:
            raise self._error(Code.INVALID_ARGUMENT)
        if placements is not None:
            if count.contents.value < len(profile.placements):
                raise self._error(Code.MEMORY)
            for slot, (start, size) in zip(placements, profile.placements, strict=False):
                slot.start, slot.size = start, size
        count.contents.value = len(profile.placements)
        return 0

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, /) -> int:
        gpu = self._gpu(handle, "nvmlDeviceGetMaxMigDeviceCount")
        return len(gpu.mig.devices) if gpu.mig is not None and gpu.mig.current else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int, /) -> Any:
        gpu = self._gpu(handle, "nvmlDeviceGetMigDeviceHandleByIndex")
        devices = self._had(gpu.mig).devices
        if index >= len(devices) or (device := devices[index]) is None:
            raise self._error(Code.NOT_FOUND)
        return _Handle(self.sessions, device, gpu)

    def nvmlDeviceGetGpuInstanceId(self, handle: Any, /) -> int:
        return self._mig_device(handle, "nvmlDeviceGetGpuInstanceId").gpu_instance

    def nvmlDeviceGetComputeInstanceId(self, handle: Any, /) -> int:
        return self._mig_device(handle, "nvmlDeviceGetComputeInstanceId").compute_instance

    def nvmlDeviceGetAttributes(self, handle: Any, /) -> Any:
        device = self._mig_device(handle, "nvmlDeviceGetAttributes")
        return _struct(
            "c_nvmlDeviceAttributes",
            gpuInstanceSliceCount=device.gpu_slices,
            computeInstanceSliceCount=device.compute_slices,
        )

    def nvmlDeviceGetGpuInstanceById(self, handle: Any, gpu_instance: int, /) -> Any:
        gpu = self._gpu(handle, "nvmlDeviceGetGpuInstanceById")
        for device in self._had(gpu.mig).devices:
            if device is not None and device.gpu_instance == gpu_instance:
                return _Handle(self.sessions, device, gpu)
        raise self._error(Code.NOT_FOUND)

    def nvmlGpuInstanceGetInfo(self, gpu_instance: Any, /) -> Any:
        device = self._mig_device(gpu_instance, "nvmlGpuInstanceGetInfo")
        info = _struct("c_nvmlGpuInstanceInfo_t", id=device.gpu_instance, profileId=device.profile_id)
        info.placement.start, info.placement.size = device.placement
        return info

    # How every call begins

    def _error(self, code: int) -> Exception:
        return self.NVMLError(code)

    def _enter(self, function: str) -> None:
        self.calls.append(function)
        if function in self.hangs:
            self.hangs[function].wait()
        if function in self.errors:
            raise self._error(self.errors[function])

    def _enter_session(self, function: str) -> None:
        self._enter(function)
        if self._references <= 0:
            raise self._error(Code.UNINITIALIZED)

    def _devices(self) -> list[FakeGpu]:
        return self.gpus if self.live else self._listed

    def _check(self, gpu: FakeGpu, function: str) -> None:
        if gpu.lost:
            raise self._error(Code.GPU_IS_LOST)
        if function in gpu.errors:
            raise self._error(gpu.errors[function])

    def _gpu(self, handle: Any, function: str) -> FakeGpu:
        self._enter_session(function)
        if handle.session != self.sessions:
            raise self._error(Code.INVALID_ARGUMENT)
        gpu: FakeGpu = handle.parent
        self._check(gpu, function)
        if isinstance(handle.target, FakeMigDevice) and function in handle.target.errors:
            raise self._error(handle.target.errors[function])
        return gpu

    def _mig_device(self, handle: Any, function: str) -> FakeMigDevice:
        self._gpu(handle, function)
        if not isinstance(handle.target, FakeMigDevice):
            raise self._error(Code.INVALID_ARGUMENT)
        return handle.target

    def _link(self, handle: Any, link: int, function: str) -> FakeLink:
        return self._had(self._had(self._gpu(handle, function).links).get(link))

    def _had(self, value: T | None) -> T:
        if value is None:
            raise self._error(Code.NOT_SUPPORTED)
        return value

    def _fill_fabric(self, gpu: FakeGpu, info: Any) -> int:
        fabric, struct = self._had(gpu.fabric), info.contents
        struct.clusterUuid[:] = fabric.cluster_uuid
        struct.cliqueId, struct.state, struct.status = fabric.clique_id, fabric.state, fabric.status
        return 0

    def _profile_info(self, profile: FakeProfile | None, version: int) -> Any:
        if profile is None:
            raise self._error(Code.NOT_SUPPORTED)
        info = _struct(
            "c_nvmlGpuInstanceProfileInfo_v2_t" if version == 2 else "c_nvmlGpuInstanceProfileInfo_t",
            id=profile.id,
            sliceCount=profile.slices,
            instanceCount=profile.instances,
            multiprocessorCount=profile.multiprocessors,
            copyEngineCount=profile.copy_engines,
            decoderCount=profile.decoders,
            encoderCount=profile.encoders,
            jpegCount=profile.jpeg_engines,
            ofaCount=profile.ofa_engines,
            memorySizeMB=profile.memory_mib,
        )
        if version == 2:
            info.name = profile.name
        return info


def _struct(name: str, **fields: int) -> Any:
    """An instance of pynvml's struct `name`."""
    kind: Callable[[], Any] = getattr(PYNVML, name)
    struct = kind()
    for key, value in fields.items():
        setattr(struct, key, value)
    return struct


def _pci_info(bus_id: str) -> Any:
    """`nvmlPciInfo_t` of "0000:65:00.0", with NVML's own notation in its strings."""
    domain, bus, rest = bus_id.split(":")
    numbers = int(domain, 16), int(bus, 16), int(rest.partition(".")[0], 16)
    info = _struct("nvmlPciInfo_t", **dict(zip(("domain", "bus", "device"), numbers, strict=True)))
    info.busId = "{:08X}:{:02X}:{:02X}.0".format(*numbers)
    return info


def _by_id(mig: FakeMig, profile_id: int) -> FakeProfile | None:
    return next((profile for profile in mig.profiles.values() if profile.id == profile_id), None)

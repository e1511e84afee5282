# ruff: noqa: N815 - the names of pynvml
"""A hand-written NVML: the functions of pynvml that the inventory uses, over scripted GPUs.

It stands in for the *module*, below `nvml_api.NvmlCalls`, so that tests cover the translation of errors and
the filling of structs too: it raises pynvml's own exceptions and fills pynvml's own structs.
"""

from typing import Any

from dra_driver.inventory.nvml import PYNVML
from dra_driver.inventory.nvml_api import Code, text
from tests.unit.inventory.nvml.fake_gpu import FakeGpu, FakeLink
from tests.unit.inventory.nvml.fake_nvml_mig import FakeMigCalls
from tests.unit.inventory.nvml.fake_nvml_session import Handle, struct


class FakeNvml(FakeMigCalls):
    """`NvmlModule`, whole."""

    NVML_NVLINK_MAX_LINKS = PYNVML.NVML_NVLINK_MAX_LINKS
    c_nvmlGpuFabricInfo_t = staticmethod(PYNVML.c_nvmlGpuFabricInfo_t)
    c_nvmlGpuFabricInfo_v2_t = staticmethod(PYNVML.c_nvmlGpuFabricInfo_v2_t)

    # GPUs

    def nvmlDeviceGetCount(self) -> int:
        self.enter_session("nvmlDeviceGetCount")
        return len(self.devices())

    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Any:
        self.enter_session("nvmlDeviceGetHandleByIndex")
        devices = self.devices()
        if index >= len(devices):
            raise self.error(Code.INVALID_ARGUMENT)
        self.check(devices[index], "nvmlDeviceGetHandleByIndex")
        return Handle(self.sessions, devices[index], devices[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str, /) -> Any:
        self.enter_session("nvmlDeviceGetHandleByUUID")
        for gpu in self.devices():
            if text(gpu.uuid) == uuid:
                self.check(gpu, "nvmlDeviceGetHandleByUUID")
                return Handle(self.sessions, gpu, gpu)
        raise self.error(Code.NOT_FOUND)

    def nvmlDeviceGetUUID(self, handle: Any, /) -> str | bytes:
        self.gpu(handle, "nvmlDeviceGetUUID")
        uuid: str | bytes = handle.target.uuid
        return uuid

    def nvmlDeviceGetPciInfo(self, handle: Any, /) -> Any:
        return _pci_info(self.gpu(handle, "nvmlDeviceGetPciInfo").bus_id)

    def nvmlDeviceGetName(self, handle: Any, /) -> str | bytes:
        return self.gpu(handle, "nvmlDeviceGetName").name

    def nvmlDeviceGetMinorNumber(self, handle: Any, /) -> int:
        return self.had(self.gpu(handle, "nvmlDeviceGetMinorNumber").minor)

    def nvmlDeviceGetBrand(self, handle: Any, /) -> int:
        return self.had(self.gpu(handle, "nvmlDeviceGetBrand").brand)

    def nvmlDeviceGetArchitecture(self, handle: Any, /) -> int:
        return self.had(self.gpu(handle, "nvmlDeviceGetArchitecture").architecture)

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any, /) -> tuple[int, int]:
        return self.had(self.gpu(handle, "nvmlDeviceGetCudaComputeCapability").compute_capability)

    def nvmlDeviceGetMemoryInfo(self, handle: Any, /) -> Any:
        total = self.had(self.gpu(handle, "nvmlDeviceGetMemoryInfo").memory_bytes)
        return struct("c_nvmlMemory_t", total=total, free=total, used=0)

    def nvmlDeviceGetAddressingMode(self, handle: Any, /) -> int:
        return self.had(self.gpu(handle, "nvmlDeviceGetAddressingMode").addressing_mode)

    def nvmlDeviceGetNumGpuCores(self, handle: Any, /) -> int:
        return self.had(self.gpu(handle, "nvmlDeviceGetNumGpuCores").cores)

    def nvmlDeviceGetSerial(self, handle: Any, /) -> str | bytes:
        return self.had(self.gpu(handle, "nvmlDeviceGetSerial").serial)

    # NVLink and fabric

    def nvmlDeviceGetNvLinkState(self, handle: Any, link: int, /) -> int:
        gpu = self.gpu(handle, "nvmlDeviceGetNvLinkState")
        links = self.had(gpu.links)
        if link >= gpu.link_count:
            raise self.error(Code.INVALID_ARGUMENT)
        return int(link in links and links[link].active)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: int, /) -> int:
        return self.had(self._link(handle, link, "nvmlDeviceGetNvLinkRemoteDeviceType").remote_type)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: Any, link: int, /) -> Any:
        bus_id = self.had(self._link(handle, link, "nvmlDeviceGetNvLinkRemotePciInfo").remote_bus_id)
        return _pci_info(bus_id)

    def nvmlDeviceGetGpuFabricInfoV(self, handle: Any, info: Any, /) -> int:
        return self._fill_fabric(self.gpu(handle, "nvmlDeviceGetGpuFabricInfoV"), info)

    def nvmlDeviceGetGpuFabricInfo(self, handle: Any, info: Any, /) -> int:
        return self._fill_fabric(self.gpu(handle, "nvmlDeviceGetGpuFabricInfo"), info)

    def _link(self, handle: Any, link: int, function: str) -> FakeLink:
        return self.had(self.had(self.gpu(handle, function).links).get(link))

    def _fill_fabric(self, gpu: FakeGpu, info: Any) -> int:
        fabric, struct = self.had(gpu.fabric), info.contents
        struct.clusterUuid[:] = fabric.cluster_uuid
        struct.cliqueId, struct.state, struct.status = fabric.clique_id, fabric.state, fabric.status
        return 0


def _pci_info(bus_id: str) -> Any:
    """`nvmlPciInfo_t` of "0000:65:00.0", with NVML's own notation in its strings."""
    domain, bus, rest = bus_id.split(":")
    numbers = int(domain, 16), int(bus, 16), int(rest.partition(".")[0], 16)
    info = struct("nvmlPciInfo_t", **dict(zip(("domain", "bus", "device"), numbers, strict=True)))
    info.busId = "{:08X}:{:02X}:{:02X}.0".format(*numbers)
    return info

"""NVLinks and multi-node fabric of one GPU.

"Has no NVLink" and "cannot tell" are different facts: the first makes the GPU a clique of its own, the
second leaves its clique unpublished. NVML says the first with NotSupported, or with InvalidArgument at link
0 ("index beyond the last link"); any other error means that the state cannot be read.

The address of a switch counts only where the kernel sees a device there. From NVLink 5 on switches are no
PCI devices of the node, and what NVML then writes into the field is not meaningful.
"""

import ctypes
import uuid
from pathlib import Path
from typing import Any

from dra_driver.inventory import sysfs
from dra_driver.inventory.model import Fabric, NvLink, RemoteType
from dra_driver.inventory.nvml_api import GONE_CODES, SESSION_CODES, Code, Handle, NvmlCalls, NvmlError

_REMOTE_GPU, _REMOTE_IBM_CPU, _REMOTE_SWITCH = 0, 1, 2  # nvmlIntNvLinkDeviceType_t
_LAST_BUS, _LAST_DEVICE = 0xFF, 0x1F
_FABRIC_COMPLETED = 3  # NVML_GPU_FABRIC_STATE_COMPLETED


def pci_address(info: Any) -> str | None:
    """The address of an `nvmlPciInfo_t` as sysfs writes it; None where the struct was left empty, or holds none.

    From the numbers, not from `busId`: NVML prints eight digits of domain in upper case, sysfs at least four
    in lower case.
    """
    domain, bus, device = int(info.domain), int(info.bus), int(info.device)
    if not (domain or bus or device) or bus > _LAST_BUS or device > _LAST_DEVICE:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def read_links(calls: NvmlCalls, handle: Handle, sys: Path) -> tuple[NvLink, ...] | None:
    """The active NVLinks that lead to GPUs or switches; () where there are none, None where it cannot be told."""
    nvml = calls.module
    links: list[NvLink] = []
    for index in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            active = calls.call(nvml.nvmlDeviceGetNvLinkState, handle, index)
        except NvmlError as error:
            if error.code in SESSION_CODES or error.code in GONE_CODES:
                raise
            if error.code == Code.INVALID_ARGUMENT:
                break
            if error.code == Code.NOT_SUPPORTED:
                continue
            return None
        if active and (link := _read_link(calls, handle, index, sys)) is not None:
            links.append(link)
    return tuple(links)


def _read_link(calls: NvmlCalls, handle: Handle, index: int, sys: Path) -> NvLink | None:
    """The far end of an active link; None where it is a POWER CPU, which is no way to another GPU."""
    nvml = calls.module
    kind = calls.optional(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, index)
    if kind == _REMOTE_IBM_CPU:
        return None
    info = calls.optional(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, index)
    address = None if info is None else pci_address(info)
    if kind == _REMOTE_SWITCH:
        seen = address if address is not None and sysfs.present(sys, address) else None
        return NvLink(index, RemoteType.SWITCH, seen)
    return NvLink(index, RemoteType.GPU if kind == _REMOTE_GPU else RemoteType.UNKNOWN, address)


def read_fabric(calls: NvmlCalls, handle: Handle) -> Fabric | None:
    """Membership of a multi-node fabric.

    A single HGX board with a local fabric manager reports COMPLETED with an all-zero cluster UUID: no fabric.
    """
    nvml = calls.module
    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    if calls.optional(nvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.pointer(info)) is None:
        info = nvml.c_nvmlGpuFabricInfo_t()
        if calls.optional(nvml.nvmlDeviceGetGpuFabricInfo, handle, ctypes.pointer(info)) is None:
            return None
    cluster = bytes(info.clusterUuid)
    if info.state != _FABRIC_COMPLETED or info.status != Code.SUCCESS or not any(cluster):
        return None
    return Fabric(str(uuid.UUID(bytes=cluster)), int(info.cliqueId))

"""One GPU, as NVML and sysfs tell of it.

Three facts are mandatory, since a GPU cannot be named, found again or recognised without them: UUID, PCI
address and product name. Everything else is optional, and None where the GPU, its driver or our permissions
do not give it (the official driver aborts the whole node there). A GPU that is lost half-way through keeps
what was read of its identity and gets a `fault`.
"""

from dataclasses import replace
from pathlib import Path

import structlog

from dra_driver.errors import one_line
from dra_driver.inventory import nvml_names, sysfs
from dra_driver.inventory.known import Reading
from dra_driver.inventory.model import Gpu, Problem
from dra_driver.inventory.nvml_api import Code, Handle, NvmlCalls, NvmlError, text
from dra_driver.inventory.nvml_links import pci_address, read_fabric, read_links
from dra_driver.inventory.nvml_mig import read_mig

log = structlog.get_logger(__name__)


def read_gpu(
    calls: NvmlCalls, handle: Handle, index: int, sys: Path, last_uuid: str | None = None
) -> Reading:
    """Everything about the GPU behind `handle`; what went wrong is in the reading.

    `last_uuid` is what the handle answered to earlier, for the case that it answers no longer.
    """
    nvml = calls.module
    uuid, address, identity = last_uuid, None, None
    try:
        uuid = text(calls.call(nvml.nvmlDeviceGetUUID, handle)) or None
        address = pci_address(calls.call(nvml.nvmlDeviceGetPciInfo, handle))
        name = text(calls.call(nvml.nvmlDeviceGetName, handle)) or None
        if uuid is None or address is None or name is None:
            return _unnamed(index, uuid, address)
        identity = _identity(index, uuid, address, name, sys)
        gpu, problems, is_mig_told = _read_facts(calls, handle, identity, sys)
    except NvmlError as error:
        return failed(index, error, uuid, address, identity)
    except Exception as error:
        # An answer in a shape that nobody has seen: a fault of ours, but not one to lose all other GPUs for.
        log.debug("gpu answers in a shape that is not known", gpu=uuid, exc_info=True)
        odd = NvmlError("pynvml", Code.UNKNOWN, f"an answer is not of its kind ({one_line(error)})")
        return failed(index, odd, uuid, address, identity)
    return Reading(gpu, problems, uuid, address, is_mig_told=is_mig_told)


def _unnamed(index: int, uuid: str | None, address: str | None) -> Reading:
    missing = "UUID" if uuid is None else "PCI address" if address is None else "name"
    message = f"{_who(index, uuid, address)} has no {missing}, so it is not published: look at its driver"
    return Reading(None, (Problem(message, address, uuid),), uuid, address)


def _identity(index: int, uuid: str, address: str, name: str, sys: Path) -> Gpu:
    return Gpu(
        uuid=uuid,
        pci_address=address,
        index=index,
        minor=None,
        name=name,
        brand=None,
        architecture=None,
        compute_capability=None,
        memory_bytes=None,
        pcie_root=sysfs.pcie_root(sys, address),
        numa_node=sysfs.numa_node(sys, address),
    )


def failed(
    index: int,
    error: NvmlError,
    uuid: str | None = None,
    address: str | None = None,
    identity: Gpu | None = None,
) -> Reading:
    """The reading of a GPU that `error` ended."""
    message = f"{_who(index, uuid, address)} {_what(error)}"
    if identity is None:
        return Reading(None, (Problem(message, address, uuid),), uuid, address, error)
    return Reading(replace(identity, fault=message), (), uuid, address, error)


def _who(index: int, uuid: str | None, address: str | None) -> str:
    if uuid is None:
        return f"the GPU with NVML index {index}"
    return f"GPU {uuid}" if address is None else f"GPU {uuid} at {address}"


def _what(error: NvmlError) -> str:
    match error.code:
        case Code.GPU_IS_LOST | Code.GPU_NOT_FOUND:
            return "is lost (fallen off the bus): look for its Xid in the kernel log, then reset it or reboot the node"
        case Code.RESET_REQUIRED:
            return (
                "needs a reset before it can be used: run 'nvidia-smi --gpu-reset' for it, or reboot the node"
            )
        case Code.NO_PERMISSION:
            return "may not be opened by the plugin: run it privileged, with the node's /dev"
        case Code.INSUFFICIENT_POWER:
            return "lacks external power: check its power cables"
        case _:
            return f"cannot be read ({error}): look for its Xid in the kernel log"


def _read_facts(
    calls: NvmlCalls, handle: Handle, identity: Gpu, sys: Path
) -> tuple[Gpu, tuple[Problem, ...], bool]:
    nvml = calls.module
    capability = calls.optional(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    capability = None if capability is None else (int(capability[0]), int(capability[1]))
    brand = calls.optional(nvml.nvmlDeviceGetBrand, handle)
    cores = calls.optional(nvml.nvmlDeviceGetNumGpuCores, handle)
    memory = calls.optional(nvml.nvmlDeviceGetMemoryInfo, handle)
    memory_bytes = None if memory is None else int(memory.total) or None
    mode = calls.optional(nvml.nvmlDeviceGetAddressingMode, handle)
    serial = calls.optional(nvml.nvmlDeviceGetSerial, handle)
    mig, problems, is_mig_told = read_mig(calls, handle, identity.uuid, memory_bytes)
    gpu = replace(
        identity,
        minor=calls.optional(nvml.nvmlDeviceGetMinorNumber, handle),
        brand=None if brand is None else nvml_names.brand(brand),
        architecture=nvml_names.architecture(
            calls.optional(nvml.nvmlDeviceGetArchitecture, handle), capability
        ),
        compute_capability=capability,
        memory_bytes=memory_bytes,
        addressing_mode=None if mode is None else nvml_names.addressing_mode(mode),
        multiprocessors=(
            None if cores is None or capability is None else nvml_names.multiprocessors(cores, capability)
        ),
        mig=mig,
        nvlinks=read_links(calls, handle, sys),
        fabric=read_fabric(calls, handle),
        serial=None if serial is None else text(serial) or None,
    )
    return gpu, problems, is_mig_told

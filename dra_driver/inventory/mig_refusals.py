"""Why a GPU is not cut into MIG devices, or not put together again: codes of NVML in sentences for Pod events."""

from dra_driver.errors import DriverError, HardwareError, UnavailableError
from dra_driver.inventory.mig_control import GpuGoneError
from dra_driver.inventory.nvml_api import GONE_CODES, SESSION_CODES, Code, NvmlError

_LOOK_UP = "nvmlDeviceGetHandleByUUID"
_REASONS = {
    Code.INSUFFICIENT_RESOURCES: (
        "other GPU instances have its memory slices or engines; compare 'nvidia-smi mig -lgi' with the claims of the node"
    ),
    Code.NO_PERMISSION: "the plugin may not; run it privileged, with the node's /dev",
    Code.NOT_SUPPORTED: "its driver does not offer that in the mode that the GPU is in",
    Code.INVALID_ARGUMENT: "its driver knows no such profile or place",
    Code.FUNCTION_NOT_FOUND: "its driver is too old for that",
    Code.NOT_FOUND: "it is not there any more",
    Code.RESET_REQUIRED: "the GPU has to be reset first; drain the node and reset it",
}


def refused(what: str, gpu_uuid: str, error: NvmlError) -> DriverError:
    """The error for `what`, the beginning of a sentence such as "GPU instance 1 cannot be destroyed"."""
    start = f"GPU {gpu_uuid}: {what}"
    if error.code == Code.IN_USE:
        return UnavailableError(f"{start} while a process uses it; end the processes that nvidia-smi lists")
    if error.code in SESSION_CODES or error.code in {Code.TIMEOUT, Code.NOT_READY}:
        return UnavailableError(f"{start} before NVML answers again ({error})")
    if error.function == _LOOK_UP and error.code == Code.NOT_FOUND:
        return GpuGoneError(f"{start}, since it is not on the node any more; look at the node")
    if error.code in GONE_CODES - _REASONS.keys():
        return GpuGoneError(
            f"{start}, since it is lost: look for its Xid in the kernel log, then reset it or reboot the node"
        )
    reason = next((text for code, text in _REASONS.items() if code == error.code), None)
    return HardwareError(f"{start}: {reason or f'{error}; look for its Xid in the kernel log'}")


def needs_reset(gpu_uuid: str, *, enabled: bool) -> HardwareError:
    """The error for a MIG mode that cannot be switched in operation."""
    return HardwareError(
        f"GPU {gpu_uuid}: MIG mode cannot be {'enabled' if enabled else 'disabled'} without a reset; drain the node, "
        f"and run 'nvidia-smi -i {gpu_uuid} -mig {int(enabled)}' and a reset there"
    )

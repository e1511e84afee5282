"""Cutting a GPU into MIG devices and putting it together again: the one door to hardware that is changed.

Every backend has one, as `mig`. Calls name hardware by the UUID of the GPU and by the ids that the driver
gave, never by handles or indices. Each does one thing, so that whoever calls can record it before the next;
none of them retries, rolls back or guesses. What exists is asked anew each time.

Errors: HardwareError where the driver refuses, UnavailableError where the same call may succeed later (something still
uses the instance, NVML hangs or is not there), GpuGoneError where there is no GPU any more that could have
instances; one sentence that names GPU and instance.
"""

from dataclasses import dataclass
from typing import Protocol

from dra_driver.errors import HardwareError


class GpuGoneError(HardwareError):
    """The GPU is lost or removed; its instances do not outlive the reset or reboot that brings it back."""


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """A compute instance; with it a GPU instance becomes a MIG device."""

    id: int
    uuid: str  # "MIG-...", of the MIG device; another one each time it is made


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A GPU instance, with or without compute instances."""

    id: int
    profile_id: int  # the driver's, as `MigProfile.id`
    placement: int  # first memory slice
    size: int  # memory slices
    compute_instances: tuple[ComputeInstance, ...] = ()


class MigControl(Protocol):
    """Changes the MIG state of a node's GPUs. Thread-safe; every call returns within seconds."""

    def instances(self, gpu_uuid: str) -> tuple[GpuInstance, ...]:
        """All GPU instances of a GPU, by placement; none where it is not in MIG mode."""
        ...

    def mode(self, gpu_uuid: str) -> bool:
        """Whether the GPU is in MIG mode now."""
        ...

    def set_mode(self, gpu_uuid: str, *, enabled: bool) -> None:
        """Switch MIG mode on or off, and have it in force on return.

        HardwareError where that needs a reset, with nothing left to come into force at one; UnavailableError while
        something uses the GPU.
        """
        ...

    def create_gpu_instance(self, gpu_uuid: str, profile_id: int, start: int) -> int:
        """Make a GPU instance at a memory slice; its id. HardwareError where the place is taken."""
        ...

    def create_compute_instance(self, gpu_uuid: str, gpu_instance: int) -> ComputeInstance:
        """Make the compute instance that fills a GPU instance."""
        ...

    def destroy_compute_instance(self, gpu_uuid: str, gpu_instance: int, compute_instance: int) -> None:
        """Destroy a compute instance; no error where it, or its GPU instance, is gone. UnavailableError while used."""
        ...

    def destroy_gpu_instance(self, gpu_uuid: str, gpu_instance: int) -> None:
        """Destroy a GPU instance without compute instances; no error where it is gone. UnavailableError while used."""
        ...

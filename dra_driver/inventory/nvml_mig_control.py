"""MIG instances made and destroyed through NVML.

NVML has two numbers for a profile, the enum index and the driver's id; a compute instance's profile is neither that of
its GPU instance nor derived from it (7g.40gb is index 4 on an A100, and 8 elsewhere; a `+me` GPU instance holds a plain
compute instance). So it is looked for among those that the GPU instance has: the first whose slices fill it.

Calls for one GPU come one after the other in a worker of its own, since NVML may hang; two GPUs are cut at the same time.
Each holds a reference to NVML while it runs, so that a scan that ends its session leaves it the library. A job
that was given up goes on, and may still make what it was asked for; the next call for that GPU comes after it.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from dra_driver.errors import UnavailableError
from dra_driver.inventory.bounded import BoundedWorker, StillRunningError
from dra_driver.inventory.mig_control import ComputeInstance, GpuInstance
from dra_driver.inventory.mig_refusals import needs_reset, refused
from dra_driver.inventory.nvml_api import Code, Handle, NvmlCalls, NvmlError, text
from dra_driver.inventory.nvml_mig import is_switchable, places

T = TypeVar("T")

_SHARED_ENGINES = 0  # the only engine profile there is
_MOST_INSTANCES = 16  # of one profile; NVML's own instanceCount is wrong on some boards


class NvmlMigControl:
    """`MigControl` on NVML, for the GPUs of a session that somebody else opens."""

    def __init__(self, calls: NvmlCalls, is_open: Callable[[], bool], deadline_seconds: float = 30.0) -> None:
        self._calls = calls
        self._nvml = calls.module
        self._is_open = is_open
        self._deadline_seconds = deadline_seconds
        self._mutex = threading.Lock()  # guards the dict, nothing is waited for under it
        self._workers: dict[str, tuple[threading.Lock, BoundedWorker]] = {}  # by GPU UUID

    def instances(self, gpu_uuid: str) -> tuple[GpuInstance, ...]:
        def read(gpu: Handle) -> tuple[GpuInstance, ...]:
            if not self._mode(gpu)[0]:
                return ()
            found = [self._instance(handle) for handle in self._gpu_instances(gpu)]
            return tuple(sorted(found, key=lambda instance: instance.placement))

        return self._run(gpu_uuid, "its instances cannot be listed", read)

    def mode(self, gpu_uuid: str) -> bool:
        return self._run(gpu_uuid, "its MIG mode cannot be read", lambda gpu: bool(self._mode(gpu)[0]))

    def set_mode(self, gpu_uuid: str, *, enabled: bool) -> None:
        def switch(gpu: Handle) -> bool:
            if self._mode(gpu) == [enabled, enabled]:
                return True
            if not is_switchable(self._calls, gpu):
                return False
            status = self._calls.call(self._nvml.nvmlDeviceSetMigMode, gpu, int(enabled))
            gpu = self._gpu(gpu_uuid)  # the driver may have bound it anew
            if self._mode(gpu)[0] == enabled:
                return True
            # What is pending now would come into force at some later reset, when nobody expects it.
            self._calls.call(self._nvml.nvmlDeviceSetMigMode, gpu, int(not enabled))
            if status == Code.RESET_REQUIRED:
                return False
            raise NvmlError("nvmlDeviceSetMigMode", status)

        what = f"MIG mode cannot be {'enabled' if enabled else 'disabled'}"
        if not self._run(gpu_uuid, what, switch):
            raise needs_reset(gpu_uuid, enabled=enabled)

    def create_gpu_instance(self, gpu_uuid: str, profile_id: int, start: int) -> int:
        def create(gpu: Handle) -> int:
            nvml = self._nvml
            placement = nvml.c_nvmlGpuInstancePlacement_t()
            placement.start, placement.size = start, self._size(gpu, profile_id, start)
            instance = self._calls.call(
                nvml.nvmlDeviceCreateGpuInstanceWithPlacement, gpu, profile_id, ctypes.pointer(placement)
            )
            return int(self._calls.call(nvml.nvmlGpuInstanceGetInfo, instance).id)

        what = f"a GPU instance of profile {profile_id} cannot be made at memory slice {start}"
        return self._run(gpu_uuid, what, create)

    def create_compute_instance(self, gpu_uuid: str, gpu_instance: int) -> ComputeInstance:
        def create(gpu: Handle) -> ComputeInstance:
            instance = self._calls.call(self._nvml.nvmlDeviceGetGpuInstanceById, gpu, gpu_instance)
            profile = self._filling_profile(gpu, instance)
            made = self._calls.call(self._nvml.nvmlGpuInstanceCreateComputeInstance, instance, profile)
            return self._compute_instance(made)

        what = f"a compute instance cannot be made in GPU instance {gpu_instance}"
        return self._run(gpu_uuid, what, create)

    def destroy_compute_instance(self, gpu_uuid: str, gpu_instance: int, compute_instance: int) -> None:
        def destroy(gpu: Handle) -> None:
            instance = self._existing(self._nvml.nvmlDeviceGetGpuInstanceById, gpu, gpu_instance)
            if instance is None:
                return
            compute = self._existing(
                self._nvml.nvmlGpuInstanceGetComputeInstanceById, instance, compute_instance
            )
            if compute is not None:
                self._calls.call(self._nvml.nvmlComputeInstanceDestroy, compute)

        what = f"compute instance {compute_instance} of GPU instance {gpu_instance} cannot be destroyed"
        self._run(gpu_uuid, what, destroy)

    def destroy_gpu_instance(self, gpu_uuid: str, gpu_instance: int) -> None:
        def destroy(gpu: Handle) -> None:
            instance = self._existing(self._nvml.nvmlDeviceGetGpuInstanceById, gpu, gpu_instance)
            if instance is not None:
                self._calls.call(self._nvml.nvmlGpuInstanceDestroy, instance)

        self._run(gpu_uuid, f"GPU instance {gpu_instance} cannot be destroyed", destroy)

    def _run(self, gpu_uuid: str, what: str, work: Callable[[Handle], T]) -> T:
        with self._mutex:
            turn, worker = self._workers.setdefault(gpu_uuid, (threading.Lock(), BoundedWorker("nvml-mig")))
        if not self._is_open():
            raise UnavailableError(f"GPU {gpu_uuid}: {what} before the NVIDIA driver answers")
        late = UnavailableError(
            f"GPU {gpu_uuid}: {what} in {self._deadline_seconds:g} s; look for Xid errors in the kernel log"
        )
        if not turn.acquire(timeout=self._deadline_seconds):
            raise late
        try:
            return worker.run(lambda: self._with_gpu(gpu_uuid, work), self._deadline_seconds)
        except StillRunningError:
            raise late from None
        except NvmlError as error:
            raise refused(what, gpu_uuid, error) from error
        finally:
            turn.release()

    def _with_gpu(self, gpu_uuid: str, work: Callable[[Handle], T]) -> T:
        self._calls.call(self._nvml.nvmlInitWithFlags, self._nvml.NVML_INIT_FLAG_NO_GPUS)
        try:
            return work(self._gpu(gpu_uuid))
        finally:
            with suppress(NvmlError):  # the driver was reloaded meanwhile: there is nothing to give back
                self._calls.call(self._nvml.nvmlShutdown)

    def _gpu(self, uuid: str) -> Handle:
        return self._calls.call(self._nvml.nvmlDeviceGetHandleByUUID, uuid)

    def _mode(self, gpu: Handle) -> list[int]:
        return self._calls.call(self._nvml.nvmlDeviceGetMigMode, gpu)

    def _size(self, gpu: Handle, profile_id: int, start: int) -> int:
        sizes = [size for at, size in places(self._calls, gpu, profile_id) if at == start]
        if not sizes:
            raise NvmlError("nvmlDeviceGetGpuInstancePossiblePlacements", Code.INVALID_ARGUMENT)
        return sizes[0]

    def _profiles(self, gpu: Handle) -> Iterator[Any]:
        """The profiles of GPU instances that a GPU has, by enum index."""
        for index in range(self._nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            info = self._existing(self._nvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, index, 1)
            if info is not None:
                yield info

    def _gpu_instances(self, gpu: Handle) -> Iterator[Handle]:
        nvml = self._nvml
        for profile in self._profiles(gpu):
            yield from self._listed(nvml.nvmlDeviceGetGpuInstances, gpu, profile.id, nvml.c_nvmlGpuInstance_t)

    def _instance(self, handle: Handle) -> GpuInstance:
        info = self._calls.call(self._nvml.nvmlGpuInstanceGetInfo, handle)
        return GpuInstance(
            id=int(info.id),
            profile_id=int(info.profileId),
            placement=int(info.placement.start),
            size=int(info.placement.size),
            compute_instances=tuple(self._compute_instances(handle)),
        )

    def _compute_instances(self, instance: Handle) -> Iterator[ComputeInstance]:
        nvml = self._nvml
        for profile in self._compute_profiles(instance):
            for handle in self._listed(
                nvml.nvmlGpuInstanceGetComputeInstances, instance, profile.id, nvml.c_nvmlComputeInstance_t
            ):
                yield self._compute_instance(handle)

    def _compute_instance(self, handle: Handle) -> ComputeInstance:
        info = self._calls.call(self._nvml.nvmlComputeInstanceGetInfo_v2, handle)
        return ComputeInstance(
            int(info.id), text(self._calls.call(self._nvml.nvmlDeviceGetUUID, info.device))
        )

    def _compute_profiles(self, instance: Handle) -> Iterator[Any]:
        """The profiles of compute instances that a GPU instance has, by enum index."""
        ask = self._nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
        for index in range(self._nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            info = self._existing(ask, instance, index, _SHARED_ENGINES, 1)
            if info is not None:
                yield info

    def _filling_profile(self, gpu: Handle, instance: Handle) -> int:
        profile_id = self._calls.call(self._nvml.nvmlGpuInstanceGetInfo, instance).profileId
        slices = {profile.id: profile.sliceCount for profile in self._profiles(gpu)}
        for compute in self._compute_profiles(instance):
            if compute.sliceCount == slices.get(profile_id):
                return int(compute.id)
        raise NvmlError("nvmlGpuInstanceGetComputeInstanceProfileInfo", Code.NOT_SUPPORTED)

    def _listed(self, ask: Callable[..., Any], of: Handle, profile_id: int, handle: Any) -> list[Handle]:
        """The handles of all instances of one profile."""
        count = ctypes.c_uint(_MOST_INSTANCES)
        handles = (handle * _MOST_INSTANCES)()
        self._calls.call(ask, of, profile_id, handles, ctypes.pointer(count))
        return list(handles[: count.value])

    def _existing(self, ask: Callable[..., Handle], of: Handle, *which: int) -> Handle | None:
        """The instance or profile of that number; None where there is none, as when MIG mode is off.

        Any other refusal is no answer: an instance that is not listed would be forgotten, and its claim with it.
        """
        try:
            return self._calls.call(ask, of, *which)
        except NvmlError as error:
            if error.code in {Code.NOT_FOUND, Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT}:
                return None
            raise

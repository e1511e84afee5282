# ruff: noqa: N815 - the names of pynvml
"""MIG in the fake NVML: mode, profiles, and instances that are made and destroyed by the rules of real boards."""

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from dra_driver.inventory.mig_rules import Place, instance_id, misfit
from dra_driver.inventory.nvml import PYNVML
from dra_driver.inventory.nvml_api import Code, text
from tests.unit.inventory.nvml.fake_gpu import FakeGpu, FakeGpuInstance, FakeMig, FakeMigDevice, FakeProfile
from tests.unit.inventory.nvml.fake_nvml_session import FakeSession, Handle, struct


class FakeMigCalls(FakeSession):
    """The functions of NVML about MIG."""

    NVML_GPU_INSTANCE_PROFILE_COUNT = PYNVML.NVML_GPU_INSTANCE_PROFILE_COUNT
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT = PYNVML.NVML_COMPUTE_INSTANCE_PROFILE_COUNT
    NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED = PYNVML.NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED
    c_nvmlGpuInstancePlacement_t = PYNVML.c_nvmlGpuInstancePlacement_t
    c_nvmlGpuInstance_t = ctypes.py_object
    c_nvmlComputeInstance_t = ctypes.py_object

    def nvmlDeviceGetMigMode(self, handle: Any, /) -> list[int]:
        mig = self.had(self.gpu(handle, "nvmlDeviceGetMigMode").mig)
        return [mig.current, mig.pending]

    def nvmlDeviceGetGpuInstanceProfileInfo(self, handle: Any, profile: int, version: int = 2, /) -> Any:
        # pynvml's argument chooses between two functions of the library.
        name = "nvmlDeviceGetGpuInstanceProfileInfo" + ("V" if version == 2 else "")
        mig = self.had(self.gpu(handle, name).mig)
        return self._profile_info(mig.profiles.get(profile), version)

    def nvmlDeviceGetGpuInstanceProfileInfoById(self, handle: Any, profile_id: int, /) -> Any:
        mig = self.had(self.gpu(handle, "nvmlDeviceGetGpuInstanceProfileInfoById").mig)
        return self._profile_info(_by_id(mig, profile_id), 2)

    def nvmlDeviceGetGpuInstancePossiblePlacements(
        self, handle: Any, profile_id: int, placements: Any, count: Any, /
    ) -> int:
        mig = self.had(self.gpu(handle, "nvmlDeviceGetGpuInstancePossiblePlacements").mig)
        profile = _by_id(mig, profile_id)
        if profile is None:
            raise self.error(Code.INVALID_ARGUMENT)
        if placements is not None:
            if count.contents.value < len(profile.placements):
                raise self.error(Code.MEMORY)
            for slot, (start, size) in zip(placements, profile.placements, strict=False):
                slot.start, slot.size = start, size
        count.contents.value = len(profile.placements)
        return 0

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, /) -> int:
        gpu = self.gpu(handle, "nvmlDeviceGetMaxMigDeviceCount")
        return len(gpu.mig.devices) if gpu.mig is not None and gpu.mig.current else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int, /) -> Any:
        gpu = self.gpu(handle, "nvmlDeviceGetMigDeviceHandleByIndex")
        devices = self.had(gpu.mig).devices
        if index >= len(devices) or (device := devices[index]) is None:
            raise self.error(Code.NOT_FOUND)
        return Handle(self.sessions, device, gpu)

    def nvmlDeviceGetGpuInstanceId(self, handle: Any, /) -> int:
        return self._mig_device(handle, "nvmlDeviceGetGpuInstanceId").gpu_instance

    def nvmlDeviceGetComputeInstanceId(self, handle: Any, /) -> int:
        return self._mig_device(handle, "nvmlDeviceGetComputeInstanceId").compute_instance

    def nvmlDeviceGetAttributes(self, handle: Any, /) -> Any:
        device = self._mig_device(handle, "nvmlDeviceGetAttributes")
        return struct(
            "c_nvmlDeviceAttributes",
            gpuInstanceSliceCount=device.gpu_slices,
            computeInstanceSliceCount=device.compute_slices,
        )

    def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[int], /) -> Any:
        resetless = self.had(self.gpu(handle, "nvmlDeviceGetFieldValues").mig).resetless
        code = Code.NOT_SUPPORTED if resetless is None else Code.SUCCESS
        return [
            SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=int(bool(resetless))))
            for _ in fields
        ]

    def nvmlDeviceSetMigMode(self, handle: Any, mode: int, /) -> int:
        mig = self.had(self.gpu(handle, "nvmlDeviceSetMigMode").mig)
        mig.pending = mode
        if mode != mig.current:
            if not mig.resetless:
                return Code.RESET_REQUIRED
            if mig.clients or self._all(mig):
                return Code.IN_USE
            mig.current = mode
        return Code.SUCCESS

    # GPU instances

    def nvmlDeviceCreateGpuInstanceWithPlacement(
        self, handle: Any, profile_id: int, placement: Any, /
    ) -> Any:
        gpu = self.gpu(handle, "nvmlDeviceCreateGpuInstanceWithPlacement")
        mig = self._in_mig_mode(gpu)
        profile, place = _by_id(mig, profile_id), (placement.contents.start, placement.contents.size)
        if profile is None or place not in profile.placements:
            raise self.error(Code.INVALID_ARGUMENT)
        profiles = {known.id: known.as_profile() for known in mig.profiles.values()}
        taken = [Place(profiles[other.profile_id], other.placement[0]) for other in self._all(mig)]
        if misfit(Place(profiles[profile_id], place[0]), taken, profiles.values()):
            raise self.error(Code.INSUFFICIENT_RESOURCES)
        number = instance_id(profiles[profile_id], place[0], profiles.values())
        mig.empty.append(FakeGpuInstance(number, profile_id, place))
        return Handle(self.sessions, mig.empty[-1], gpu)

    def nvmlDeviceGetGpuInstances(self, handle: Any, profile_id: int, instances: Any, count: Any, /) -> int:
        gpu = self.gpu(handle, "nvmlDeviceGetGpuInstances")
        found = [known for known in self._all(self._in_mig_mode(gpu)) if known.profile_id == profile_id]
        return self._list(found, gpu, instances, count)

    def nvmlDeviceGetGpuInstanceById(self, handle: Any, gpu_instance: int, /) -> Any:
        gpu = self.gpu(handle, "nvmlDeviceGetGpuInstanceById")
        for known in self._all(self._in_mig_mode(gpu)):
            if known.id == gpu_instance:
                return Handle(self.sessions, known, gpu)
        raise self.error(Code.NOT_FOUND)

    def nvmlGpuInstanceGetInfo(self, gpu_instance: Any, /) -> Any:
        instance = self._gpu_instance(gpu_instance, "nvmlGpuInstanceGetInfo")
        info = struct("c_nvmlGpuInstanceInfo_t", id=instance.id, profileId=instance.profile_id)
        info.placement.start, info.placement.size = instance.placement
        return info

    def nvmlGpuInstanceDestroy(self, gpu_instance: Any, /) -> int:
        instance = self._gpu_instance(gpu_instance, "nvmlGpuInstanceDestroy")
        mig = self.had(gpu_instance.parent.mig)
        if instance not in mig.empty:
            raise self.error(Code.IN_USE)
        mig.empty.remove(instance)
        return 0

    # Compute instances

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, gpu_instance: Any, profile: int, engine_profile: int, version: int = 2, /
    ) -> Any:
        name = "nvmlGpuInstanceGetComputeInstanceProfileInfo" + ("V" if version == 2 else "")
        instance = self._gpu_instance(gpu_instance, name)
        mig = self.had(gpu_instance.parent.mig)
        number, slices = self.had(mig.compute_profiles.get(profile))
        if engine_profile or slices > self.had(_by_id(mig, instance.profile_id)).slices:
            raise self.error(Code.NOT_SUPPORTED)
        kind = "c_nvmlComputeInstanceProfileInfo_" + ("v2_t" if version == 2 else "t")
        return struct(kind, id=number, sliceCount=slices, instanceCount=1)

    def nvmlGpuInstanceCreateComputeInstance(self, gpu_instance: Any, profile_id: int, /) -> Any:
        instance = self._gpu_instance(gpu_instance, "nvmlGpuInstanceCreateComputeInstance")
        gpu: FakeGpu = gpu_instance.parent
        mig = self.had(gpu.mig)
        slices = dict(mig.compute_profiles.values()).get(profile_id)
        whole = self.had(_by_id(mig, instance.profile_id)).slices
        if slices is None or slices > whole:
            raise self.error(Code.INVALID_ARGUMENT)
        if instance not in mig.empty:
            raise self.error(Code.INSUFFICIENT_RESOURCES)
        mig.empty.remove(instance)
        mig.made += 1
        uuid = f"MIG-{text(gpu.uuid)}-{mig.made}"
        device = FakeMigDevice(
            uuid,
            instance.id,
            instance.profile_id,
            instance.placement,
            0,
            slices,
            whole,
            errors=instance.errors,
        )
        hole = next((i for i, known in enumerate(mig.devices) if known is None), len(mig.devices))
        mig.devices[hole : hole + 1] = [device]
        return Handle(self.sessions, device, gpu)

    def nvmlGpuInstanceGetComputeInstances(
        self, gpu_instance: Any, profile_id: int, instances: Any, count: Any, /
    ) -> int:
        instance = self._gpu_instance(gpu_instance, "nvmlGpuInstanceGetComputeInstances")
        mig = self.had(gpu_instance.parent.mig)
        slices = dict(mig.compute_profiles.values())
        first = {
            count: number for number, count in reversed(slices.items())
        }  # a device does not keep its profile
        found = [
            device
            for device in mig.devices
            if device
            and device.gpu_instance == instance.id
            and first.get(device.compute_slices) == profile_id
        ]
        return self._list(found, gpu_instance.parent, instances, count)

    def nvmlGpuInstanceGetComputeInstanceById(self, gpu_instance: Any, compute_instance: int, /) -> Any:
        instance = self._gpu_instance(gpu_instance, "nvmlGpuInstanceGetComputeInstanceById")
        for device in self.had(gpu_instance.parent.mig).devices:
            if device and (device.gpu_instance, device.compute_instance) == (instance.id, compute_instance):
                return Handle(self.sessions, device, gpu_instance.parent)
        raise self.error(Code.NOT_FOUND)

    def nvmlComputeInstanceGetInfo_v2(self, compute_instance: Any, /) -> Any:
        device = self._mig_device(compute_instance, "nvmlComputeInstanceGetInfo_v2")
        handle = Handle(self.sessions, device, compute_instance.parent)
        return SimpleNamespace(device=handle, id=device.compute_instance)

    def nvmlComputeInstanceDestroy(self, compute_instance: Any, /) -> int:
        device = self._mig_device(compute_instance, "nvmlComputeInstanceDestroy")
        mig = self.had(compute_instance.parent.mig)
        if device.busy:
            raise self.error(Code.IN_USE)
        mig.devices[mig.devices.index(device)] = None
        if not any(known and known.gpu_instance == device.gpu_instance for known in mig.devices):
            mig.empty.append(FakeGpuInstance(device.gpu_instance, device.profile_id, device.placement))
        return 0

    def _in_mig_mode(self, gpu: FakeGpu) -> FakeMig:
        mig = self.had(gpu.mig)
        return self.had(mig if mig.current else None)

    def _all(self, mig: FakeMig) -> list[FakeGpuInstance]:
        """All GPU instances: those that MIG devices stand in, and the empty ones."""
        filled = {
            device.gpu_instance: FakeGpuInstance(
                device.gpu_instance, device.profile_id, device.placement, device.errors
            )
            for device in mig.devices
            if device is not None
        }
        return [*filled.values(), *mig.empty]

    def _list(self, found: Sequence[Any], gpu: FakeGpu, handles: Any, count: Any) -> int:
        for i, target in enumerate(found):
            handles[i] = Handle(self.sessions, target, gpu)
        count.contents.value = len(found)
        return 0

    def _gpu_instance(self, handle: Any, function: str) -> FakeGpuInstance:
        self.gpu(handle, function)
        if not isinstance(handle.target, FakeGpuInstance):
            raise self.error(Code.INVALID_ARGUMENT)
        return handle.target

    def _mig_device(self, handle: Any, function: str) -> FakeMigDevice:
        self.gpu(handle, function)
        if not isinstance(handle.target, FakeMigDevice):
            raise self.error(Code.INVALID_ARGUMENT)
        return handle.target

    def _profile_info(self, profile: FakeProfile | None, version: int) -> Any:
        if profile is None:
            raise self.error(Code.NOT_SUPPORTED)
        info = struct(
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


def _by_id(mig: FakeMig, profile_id: int) -> FakeProfile | None:
    return next((profile for profile in mig.profiles.values() if profile.id == profile_id), None)

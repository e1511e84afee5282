"""MIG of one GPU: mode, the profiles it can be cut into, and the devices that exist.

Two numbers name a profile: the enum index that the info call takes, and the driver's `id` in the answer,
which is what everything else (placements, creation, a GPU instance's `profileId`) uses. Only the id leaves
this module.

Names come from the driver ("MIG 1g.5gb"), for they differ between boards of one model; drivers without the
v2 struct leave the rule of go-nvlib. Only a compute instance that fills its GPU instance is a device: what
is published is the profile of the GPU instance, and a part of it would promise too much.
"""

import ctypes
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dra_driver.inventory.model import Mig, MigDevice, MigProfile, Problem
from dra_driver.inventory.nvml_api import GONE_CODES, SESSION_CODES, Code, Handle, NvmlCalls, NvmlError, text

_MIB = 2**20
_HOPPER = 9  # the first nvmlDeviceArchitecture_t whose mode is switched without a reset
_MODES = frozenset({0, 1})  # NVML_DEVICE_MIG_DISABLE, NVML_DEVICE_MIG_ENABLE
_INCAPABLE = frozenset({Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND})  # the GPU, or a driver before MIG
_UNKNOWN_ARCHITECTURE = 0xFFFFFFFF
# Memory slices of a GPU, places of a profile, MIG devices: the largest board has eight of each. What is far above is
# no answer, and must not be counted up to, nor memory taken for it.
_MOST = 64
# By NVML_GPU_INSTANCE_PROFILE_<n>_SLICE_<variant>: media engines extra, graphics, no media, all media.
_SUFFIXES = {
    0x7: "+me",
    0x8: "+me",
    0xA: "+gfx",
    0xB: "+gfx",
    0xC: "+gfx",
    0x11: "+gfx",
    0xD: "-me",
    0xE: "-me",
    0xF: "+me.all",
    0x10: "+me.all",
}


def read_mig(
    calls: NvmlCalls, handle: Handle, gpu_uuid: str, memory_bytes: int | None
) -> tuple[Mig | None, tuple[Problem, ...], bool]:
    """The MIG state of the GPU behind `handle`, None where it is not capable of MIG; what went wrong; whether it is told."""
    try:
        current, pending = calls.call(calls.module.nvmlDeviceGetMigMode, handle)
    except NvmlError as error:
        if error.code in SESSION_CODES or error.code in GONE_CODES:
            raise
        return None, (), error.code in _INCAPABLE
    if not {current, pending} <= _MODES:
        return None, (), False
    profiles = _read_profiles(calls, handle, memory_bytes)
    devices, problems = _read_devices(calls, handle, gpu_uuid, profiles) if current else ((), ())
    mig = Mig(
        enabled=bool(current),
        pending=bool(pending),
        profiles=tuple(profiles.values()),
        devices=devices,
        switchable=is_switchable(calls, handle),
        hidden=len(problems),
    )
    return mig, problems, True


def is_switchable(calls: NvmlCalls, handle: Handle) -> bool:
    """Whether the MIG mode can be switched without a reset; a driver that does not say leaves the architecture."""
    nvml = calls.module
    ask, field = nvml.nvmlDeviceGetFieldValues, nvml.NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED
    values = calls.optional(ask, handle, [field])
    if values is not None and values[0].nvmlReturn == Code.SUCCESS:
        return bool(values[0].value.uiVal)
    architecture = calls.optional(nvml.nvmlDeviceGetArchitecture, handle)
    return architecture is not None and _HOPPER <= architecture < _UNKNOWN_ARCHITECTURE


def _read_profiles(calls: NvmlCalls, handle: Handle, memory_bytes: int | None) -> dict[int, MigProfile]:
    nvml = calls.module
    profiles: dict[int, MigProfile] = {}
    for index in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = calls.optional(nvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, index, 2)
        if info is None:
            info = calls.optional(nvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, index, 1)
        if info is not None:
            name = _driver_name(info) or profile_name(info.sliceCount, info.memorySizeMB, memory_bytes, index)
            if name is not None:
                profiles[info.id] = _profile(calls, handle, info, name)
    return profiles


def _profile(calls: NvmlCalls, handle: Handle, info: Any, name: str) -> MigProfile:
    starts, size = _placements(calls, handle, info.id)
    return MigProfile(
        id=info.id,
        name=name,
        memory_bytes=info.memorySizeMB * _MIB,
        compute_slices=info.sliceCount,
        multiprocessors=info.multiprocessorCount,
        copy_engines=info.copyEngineCount,
        decoders=info.decoderCount,
        encoders=info.encoderCount,
        jpeg_engines=info.jpegCount,
        ofa_engines=info.ofaCount,
        max_instances=info.instanceCount,
        placements=starts,
        size=size,
    )


def _driver_name(info: Any) -> str | None:
    try:
        return text(getattr(info, "name", "")).removeprefix("MIG ") or None
    except UnicodeDecodeError:  # pynvml decodes when the field is read
        return None


def profile_name(slices: int, memory_mib: int, total_bytes: int | None, index: int) -> str | None:
    """The name by go-nvlib's rule, None where the GPU's total memory is not known.

    The number of GB is the profile's share in eighths of the GPU's memory, times the whole GiB of the GPU.
    """
    if not total_bytes:
        return None
    eighths = math.ceil(memory_mib * _MIB / total_bytes * 8)
    gigabytes = math.floor(eighths / 8 * math.ceil(total_bytes / 2**30) + 0.5)
    return f"{slices}g.{gigabytes}gb{_SUFFIXES.get(index, '')}"


def places(calls: NvmlCalls, handle: Handle, profile_id: int) -> list[tuple[int, int]]:
    """Start and size, in memory slices, of all that a profile can be placed at, in order; or NvmlError."""
    nvml = calls.module
    count, ask = ctypes.c_uint(), nvml.nvmlDeviceGetGpuInstancePossiblePlacements
    calls.call(ask, handle, profile_id, None, ctypes.pointer(count))
    placements = (nvml.c_nvmlGpuInstancePlacement_t * min(count.value, _MOST))()
    calls.call(ask, handle, profile_id, placements, ctypes.pointer(count))
    found = sorted((int(place.start), int(place.size)) for place in placements[: count.value])
    if count.value > _MOST or any(start + size > _MOST for start, size in found):
        raise NvmlError(ask.__name__, Code.UNKNOWN, "no GPU has so many memory slices")
    return found


def _placements(calls: NvmlCalls, handle: Handle, profile_id: int) -> tuple[tuple[int, ...], int]:
    """Starts, and their common size, in memory slices; ((), 0) where the driver does not say."""
    try:
        found = places(calls, handle, profile_id)
    except NvmlError as error:
        if error.code in SESSION_CODES or error.code in GONE_CODES:
            raise
        found = []
    return tuple(start for start, _ in found), found[0][1] if found else 0


def _read_devices(
    calls: NvmlCalls, handle: Handle, gpu_uuid: str, profiles: Mapping[int, MigProfile]
) -> tuple[tuple[MigDevice, ...], tuple[Problem, ...]]:
    devices: list[MigDevice] = []
    problems: list[Problem] = []
    nvml = calls.module
    try:
        count = calls.count(_MOST, nvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    except NvmlError as error:  # which is not that there are none
        return (), (_problem(gpu_uuid, "the MIG devices", error),)
    for index in range(count):
        which = f"MIG device {index}"
        try:
            mig = calls.call(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        except NvmlError as error:
            if error.code in {Code.NOT_FOUND, Code.INVALID_ARGUMENT}:
                continue  # a hole: indices of destroyed devices are not closed up
            problems.append(_problem(gpu_uuid, which, error))
            continue
        try:
            devices.append(_read_device(calls, handle, mig, profiles))
        except NvmlError as error:
            problems.append(_problem(gpu_uuid, which, error))
        except _UnpublishableError as error:
            problems.append(Problem(str(error), uuid=gpu_uuid))
    shared = {gi for gi, count in Counter(device.gpu_instance for device in devices).items() if count > 1}
    problems += [
        Problem(_partial(device.uuid), uuid=gpu_uuid) for device in devices if device.gpu_instance in shared
    ]
    whole = [device for device in devices if device.gpu_instance not in shared]
    return tuple(sorted(whole, key=lambda device: device.placement)), tuple(problems)


class _UnpublishableError(Exception):
    """A MIG device that exists but cannot be told apart or described well enough."""


def _read_device(
    calls: NvmlCalls, handle: Handle, mig: Handle, profiles: Mapping[int, MigProfile]
) -> MigDevice:
    nvml = calls.module
    uuid = text(calls.call(nvml.nvmlDeviceGetUUID, mig))
    gpu_instance = calls.call(nvml.nvmlDeviceGetGpuInstanceId, mig)
    compute_instance = calls.call(nvml.nvmlDeviceGetComputeInstanceId, mig)
    attributes = calls.optional(nvml.nvmlDeviceGetAttributes, mig)
    if attributes is not None and attributes.computeInstanceSliceCount < attributes.gpuInstanceSliceCount:
        raise _UnpublishableError(_partial(uuid))
    instance = calls.call(nvml.nvmlDeviceGetGpuInstanceById, handle, gpu_instance)
    info = calls.call(nvml.nvmlGpuInstanceGetInfo, instance)
    profile = profiles.get(info.profileId) or _profile_by_id(calls, handle, info.profileId)
    if profile is None:
        msg = f"MIG device {uuid} has profile {info.profileId}, which the driver does not describe: it is not published"
        raise _UnpublishableError(msg)
    if not profile.size:
        profile = replace(profile, size=info.placement.size)
    if info.placement.start + profile.size > _MOST:
        msg = (
            f"MIG device {uuid} has memory slices {info.placement.start} to {info.placement.start + profile.size - 1}, "
            "which no GPU has: it is not published"
        )
        raise _UnpublishableError(msg)
    return MigDevice(uuid, gpu_instance, compute_instance, profile, info.placement.start)


def _profile_by_id(calls: NvmlCalls, handle: Handle, profile_id: int) -> MigProfile | None:
    """A profile beyond the indices that this pynvml knows of."""
    info = calls.optional(calls.module.nvmlDeviceGetGpuInstanceProfileInfoById, handle, profile_id)
    name = None if info is None else _driver_name(info)
    return None if name is None else _profile(calls, handle, info, name)


def _partial(uuid: str) -> str:
    return (
        f"MIG device {uuid} is only a part of its GPU instance, so it is not published: "
        "create one compute instance that fills the GPU instance"
    )


def _problem(gpu_uuid: str, which: str, error: NvmlError) -> Problem:
    if error.code in SESSION_CODES or error.code in GONE_CODES:
        raise error
    message = f"{which} of GPU {gpu_uuid} cannot be read ({error}): not published"
    return Problem(message, uuid=gpu_uuid)

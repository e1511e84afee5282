"""MIG of simulated GPUs: instances come and go by the rules of real boards, and outlive the process as real ones do.

The state of a GPU is one file, `<driver root>/simulated/mig/<GPU UUID>.json`; until it is first changed, what the
profile says. It is read for each call and changed under a lock, so another process (a test in the part of an admin
with nvidia-smi) may cut the same GPUs. A reboot of the machine takes all instances away, and so does the reset that a
lost GPU needs before it is found again. Where the backend has no driver root, the state is kept in memory.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import dra_driver.files
from dra_driver.errors import UnavailableError
from dra_driver.files import Files
from dra_driver.inventory.driver_files import instances_of
from dra_driver.inventory.driver_root import show_instances
from dra_driver.inventory.faults import Fault, Faults, MigFault
from dra_driver.inventory.mig_control import ComputeInstance, GpuInstance
from dra_driver.inventory.mig_refusals import needs_reset, refused
from dra_driver.inventory.mig_rules import Place, instance_id, misfit
from dra_driver.inventory.model import Gpu, Mig, MigDevice
from dra_driver.inventory.nvml_api import Code, NvmlError
from dra_driver.inventory.simulated_mig_state import MigState, as_dict, boot_id, from_dict, locked

_FOLDER = "simulated/mig"
_NAMESPACE = uuid.UUID("0c6f3a3e-2f1b-5d0a-8f55-7a1c5b0d9e21")  # arbitrary and fixed


class SimulatedMig:
    """`MigControl` for the GPUs of a simulated node; `faults` tells what goes wrong at the moment."""

    def __init__(
        self,
        gpus: tuple[Gpu, ...],
        faults: Callable[[], Faults],
        driver_root: Path | None,
        files: Files = dra_driver.files,
    ) -> None:
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._faults = faults
        self._root = driver_root
        self._files = files
        self._memory: dict[str, MigState] = {}
        for gpu in gpus:
            if gpu.mig is not None and self._file(gpu) is not None:
                with self._locked(gpu):
                    self._show(gpu, self._load(gpu, gpu.mig))

    def now(self, gpu: Gpu, fault: MigFault | None) -> Gpu:
        """A GPU of the node as it is cut now; UnavailableError where its state cannot be read."""
        if gpu.mig is None:
            return gpu
        state, profiles = self._load(gpu, gpu.mig), {profile.id: profile for profile in gpu.mig.profiles}
        devices = tuple(
            MigDevice(
                compute.uuid, instance.id, compute.id, profiles[instance.profile_id], instance.placement
            )
            for instance in state.instances
            for compute in instance.compute_instances
        )
        mig = replace(gpu.mig, enabled=state.enabled, pending=state.enabled, devices=devices)
        if fault is MigFault.MODE_PENDING:
            mig = replace(mig, pending=not state.enabled, switchable=False)
        return replace(gpu, mig=mig)

    def reset(self, gpu: Gpu) -> None:
        """Have the GPU be cut as its profile says."""
        if gpu.mig is None:
            return
        with self._locked(gpu):
            self._memory.pop(gpu.uuid, None)
            path = self._file(gpu)
            if path is not None and path.exists():
                path.unlink()
                self._show(gpu, self._load(gpu, gpu.mig))

    def instances(self, gpu_uuid: str) -> tuple[GpuInstance, ...]:
        gpu, mig = self._asked(gpu_uuid, "its instances cannot be listed")
        return self._load(gpu, mig).instances

    def mode(self, gpu_uuid: str) -> bool:
        gpu, mig = self._asked(gpu_uuid, "its MIG mode cannot be read")
        return self._load(gpu, mig).enabled

    def set_mode(self, gpu_uuid: str, *, enabled: bool) -> None:
        what = f"MIG mode cannot be {'enabled' if enabled else 'disabled'}"
        with self._changing(gpu_uuid, what) as change:
            if change.state.enabled == enabled:
                return
            if not change.mig.switchable or change.fault is MigFault.MODE_PENDING:
                raise needs_reset(gpu_uuid, enabled=enabled)
            if change.fault is MigFault.IN_USE or change.state.instances:
                raise NvmlError("nvmlDeviceSetMigMode", Code.IN_USE)
            change.state = replace(change.state, enabled=enabled)

    def create_gpu_instance(self, gpu_uuid: str, profile_id: int, start: int) -> int:
        what = f"a GPU instance of profile {profile_id} cannot be made at memory slice {start}"
        with self._changing(gpu_uuid, what) as change:
            function = "nvmlDeviceCreateGpuInstanceWithPlacement"
            if not change.state.enabled:
                raise NvmlError(function, Code.NOT_SUPPORTED)
            if change.fault is MigFault.CREATE_FAILS:
                raise NvmlError(function, Code.UNKNOWN)
            profiles = {profile.id: profile for profile in change.mig.profiles}
            profile = profiles.get(profile_id)
            if profile is None or start not in profile.placements:
                raise NvmlError(function, Code.INVALID_ARGUMENT)
            taken = [Place(profiles[other.profile_id], other.placement) for other in change.state.instances]
            if misfit(Place(profile, start), taken, profiles.values()):
                raise NvmlError(function, Code.INSUFFICIENT_RESOURCES)
            instance = GpuInstance(
                instance_id(profile, start, profiles.values()), profile_id, start, profile.size
            )
            change.put(instance)
            return instance.id

    def create_compute_instance(self, gpu_uuid: str, gpu_instance: int) -> ComputeInstance:
        what = f"a compute instance cannot be made in GPU instance {gpu_instance}"
        with self._changing(gpu_uuid, what) as change:
            function = "nvmlGpuInstanceCreateComputeInstance"
            instance = change.find(gpu_instance)
            if instance is None:
                raise NvmlError(function, Code.NOT_FOUND)
            if change.fault is MigFault.COMPUTE_FAILS:
                raise NvmlError(function, Code.UNKNOWN)
            if instance.compute_instances:
                raise NvmlError(function, Code.INSUFFICIENT_RESOURCES)
            made = change.state.made + 1
            compute = ComputeInstance(0, f"MIG-{uuid.uuid5(_NAMESPACE, f'{gpu_uuid}/{made}')}")
            change.state = replace(change.state, made=made)
            change.put(replace(instance, compute_instances=(compute,)))
            return compute

    def destroy_compute_instance(self, gpu_uuid: str, gpu_instance: int, compute_instance: int) -> None:
        what = f"compute instance {compute_instance} of GPU instance {gpu_instance} cannot be destroyed"
        with self._changing(gpu_uuid, what) as change:
            instance = change.find(gpu_instance)
            if instance is None:
                return
            if change.fault is MigFault.IN_USE:
                raise NvmlError("nvmlComputeInstanceDestroy", Code.IN_USE)
            rest = tuple(each for each in instance.compute_instances if each.id != compute_instance)
            change.put(replace(instance, compute_instances=rest))

    def destroy_gpu_instance(self, gpu_uuid: str, gpu_instance: int) -> None:
        with self._changing(gpu_uuid, f"GPU instance {gpu_instance} cannot be destroyed") as change:
            instance = change.find(gpu_instance)
            if instance is None:
                return
            if change.fault is MigFault.IN_USE or instance.compute_instances:
                raise NvmlError("nvmlGpuInstanceDestroy", Code.IN_USE)
            change.drop(instance)

    def _asked(self, gpu_uuid: str, what: str) -> tuple[Gpu, Mig]:
        """The GPU of that UUID, if it answers and is capable of MIG."""
        gpu, faults = self._gpus.get(gpu_uuid), self._faults()
        if faults.nvml:
            raise UnavailableError(f"GPU {gpu_uuid}: {what} before the NVIDIA driver answers")
        fault = Fault.ABSENT if gpu is None else faults.gpus.of(gpu)
        if fault is None and gpu is not None and gpu.mig is not None:
            return gpu, gpu.mig
        if fault is None:
            raise refused(what, gpu_uuid, NvmlError("nvmlDeviceGetMigMode", Code.NOT_SUPPORTED))
        if gpu is not None:
            self.reset(gpu)
        code = Code.GPU_IS_LOST if fault is Fault.LOST else Code.NOT_FOUND
        raise refused(what, gpu_uuid, NvmlError("nvmlDeviceGetHandleByUUID", code))

    @contextmanager
    def _changing(self, gpu_uuid: str, what: str) -> "Iterator[_Change]":
        """What the block makes of a GPU's state is kept, unless it raises."""
        gpu, mig = self._asked(gpu_uuid, what)
        with self._locked(gpu):
            before = self._load(gpu, mig)
            change = _Change(mig, before, self._faults().mig.of(gpu))
            try:
                yield change
            except NvmlError as error:
                raise refused(what, gpu_uuid, error) from error
            if change.state != before:
                self._store(gpu, change.state)

    def _locked(self, gpu: Gpu) -> Any:
        path = self._file(gpu)
        return nullcontext() if path is None else locked(path.with_suffix(".lock"))

    def _file(self, gpu: Gpu) -> Path | None:
        return None if self._root is None else self._root / _FOLDER / f"{gpu.uuid}.json"

    def _load(self, gpu: Gpu, mig: Mig) -> MigState:
        initial, path = MigState(mig.enabled, instances_of(mig)), self._file(gpu)
        if path is None:
            return self._memory.get(gpu.uuid, initial)
        try:
            body = json.loads(path.read_bytes())
            return from_dict(body) if body["bootID"] == boot_id() else initial
        except FileNotFoundError:
            return initial
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnavailableError(f"{path} does not tell how a simulated GPU is cut: {error!r}") from error

    def _store(self, gpu: Gpu, state: MigState) -> None:
        path = self._file(gpu)
        if path is None:
            self._memory[gpu.uuid] = state
            return
        try:
            self._files.write_atomic(path, json.dumps(as_dict(state)).encode(), sync=False)
        except OSError as error:
            raise UnavailableError(f"{path} cannot be written: {error.strerror}") from error
        self._show(gpu, state)

    def _show(self, gpu: Gpu, state: MigState) -> None:
        if self._root is not None and gpu.minor is not None:
            show_instances(self._root, gpu.minor, state.instances)


class _Change:
    """A GPU's state while it is changed."""

    def __init__(self, mig: Mig, state: MigState, fault: MigFault | None) -> None:
        self.mig, self.state, self.fault = mig, state, fault

    def find(self, number: int) -> GpuInstance | None:
        return next((instance for instance in self.state.instances if instance.id == number), None)

    def put(self, instance: GpuInstance) -> None:
        """Add the instance, or replace the one with its id."""
        others = [other for other in self.state.instances if other.id != instance.id]
        ordered = sorted([*others, instance], key=lambda each: each.placement)
        self.state = replace(self.state, instances=tuple(ordered))

    def drop(self, instance: GpuInstance) -> None:
        rest = tuple(other for other in self.state.instances if other.id != instance.id)
        self.state = replace(self.state, instances=rest)

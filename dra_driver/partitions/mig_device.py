"""The step that makes a claim's MIG device: mode if need be, GPU instance, compute instance.

    {"device": "gpu-...-mig-1g10gb-19-0", "gpu": "GPU-...", "profile": 19, "start": 0}     about to be made
    {..., "gpuInstance": 7}                                                                 exists, and is empty
    {..., "gpuInstance": 7, "computeInstance": 0, "uuid": "MIG-..."}                        done

A GPU instance has no name of its own, and its id is given again to the next one at its place. So the first state is
saved only after a look that found the place free: whatever is of that profile at that place later is ours, however far
the step got. Where the driver refused to make it, `"refused": true` says that nothing is. Once the UUID is
known, it tells ours from one that somebody made there after ours was lost, in a reset of the GPU.

What no claim owns is somebody's: it is never destroyed, but for a GPU instance without compute instances, which is of
no use to anybody and is what is left when making one was cut short; and for those of which an option says that
they may go. Both are looked for once per GPU, at the start or before the first change.

Claims that were given shares of one device have one MIG device: the first makes it, the last takes it back.

"switched": true marks that MIG mode is on since one of our steps needed it. The last of them switches it off again, so
that the GPU can be given whole without delay. That it cannot be (a monitor holds the GPU) is no reason to keep a
claim: the GPU stays in MIG mode, and is tried again when somebody wants it whole.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from dra_driver.errors import DriverError, HardwareError, UnavailableError
from dra_driver.inventory.mig_control import GpuGoneError, GpuInstance, MigControl
from dra_driver.inventory.model import MigProfile
from dra_driver.steps import OtherStep, Partition, Save, State, StepResult

KIND = "mig-device"

log = structlog.get_logger(__name__)


class MigDevices:
    """All steps of the kind.

    `managed` tells the UUIDs of the GPUs that are cut on demand, and of each whether what no claim owns on it is
    destroyed. `look` has the inventory be read anew: a GPU whose mode was switched may have another minor.
    """

    def __init__(
        self, control: MigControl, managed: Callable[[], Mapping[str, bool]], look: Callable[[], None]
    ) -> None:
        self.control = control
        self.managed = managed
        self._look = look
        self._mutex = threading.Lock()  # guards the set
        self._cleared: set[str] = set()  # GPUs

    def undo(self, state: State, others: Sequence[OtherStep]) -> None:
        gpu = str(state["gpu"])
        if any(_place(other.state) == _place(state) for other in others):
            return
        try:
            for instance in self.control.instances(gpu):
                if _is_ours(state, instance):
                    self.destroy(gpu, instance)
        except GpuGoneError as error:
            log.warning("MIG device is gone with its GPU", device=state["device"], gpu=gpu, err=str(error))
            return
        if state.get("switched") and not any(other.state["gpu"] == gpu for other in others):
            self._switch_off(gpu)

    def result(self, state: State) -> StepResult:
        made = Partition(str(state["uuid"]), int(state["gpuInstance"]), int(state["computeInstance"]))
        return StepResult(partitions={str(state["device"]): made})

    def is_intact(self, state: State) -> bool:
        with suppress(GpuGoneError):
            for instance in self.control.instances(str(state["gpu"])):
                if _is_ours(state, instance):
                    return any(compute.uuid == state["uuid"] for compute in instance.compute_instances)
        return False

    def restore(self, recorded: Sequence[OtherStep]) -> None:
        for gpu in self.managed():
            try:
                self.clear_unowned(gpu, recorded)
            except DriverError as error:
                log.warning("GPU instances without a claim cannot be looked for yet", gpu=gpu, err=str(error))

    def clear_unowned(self, gpu: str, recorded: Sequence[OtherStep]) -> None:
        """See to the GPU instances that no claim owns, once; whoever calls keeps others from changing the GPU."""
        managed = self.managed()
        with self._mutex:
            if gpu in self._cleared or gpu not in managed:
                return
        for instance in self.control.instances(gpu):
            if any(_is_ours(other.state, instance) for other in recorded if other.state["gpu"] == gpu):
                continue
            if instance.compute_instances and not managed[gpu]:
                continue
            try:
                self.destroy(gpu, instance)
            except DriverError as error:
                log.warning(
                    "GPU instance without a claim stays", gpu=gpu, gpu_instance=instance.id, err=str(error)
                )
            else:
                log.warning("GPU instance without a claim destroyed", gpu=gpu, gpu_instance=instance.id)
        with self._mutex:
            self._cleared.add(gpu)

    def set_mode(self, gpu: str, *, enabled: bool) -> None:
        """Switch the GPU's MIG mode, if need be."""
        if self.control.mode(gpu) != enabled:
            self.control.set_mode(gpu, enabled=enabled)
            self._look()

    def destroy(self, gpu: str, instance: GpuInstance) -> None:
        """Destroy a GPU instance and all that is in it."""
        for compute in instance.compute_instances:
            self.control.destroy_compute_instance(gpu, instance.id, compute.id)
        self.control.destroy_gpu_instance(gpu, instance.id)

    def _switch_off(self, gpu: str) -> None:
        try:
            if not self.control.instances(gpu):
                self.control.set_mode(gpu, enabled=False)
        except DriverError as error:
            log.warning("MIG mode stays on", gpu=gpu, err=str(error))
            self._look()  # whoever is given the GPU whole must know


@dataclass(frozen=True, slots=True)
class MakeMigDevice:
    """The step for one device of a claim."""

    devices: MigDevices
    device: str  # the name
    gpu: str  # UUID
    profile: MigProfile
    start: int  # first memory slice

    @property
    def kind(self) -> str:
        return KIND

    @property
    def locks(self) -> tuple[str, ...]:
        return (self.gpu,)

    def do(self, save: Save, others: Sequence[OtherStep], done: StepResult) -> None:  # noqa: ARG002 - of the protocol
        control = self.devices.control
        self.devices.clear_unowned(self.gpu, others)
        state: dict[str, Any] = {
            "device": self.device,
            "gpu": self.gpu,
            "profile": self.profile.id,
            "start": self.start,
        }
        for other in others:
            if _place(other.state) == _place(state):
                save(self._shared(other))
                return
        is_on = control.mode(self.gpu)
        self._check_place(control.instances(self.gpu))
        if not is_on or any(
            other.state.get("switched") for other in others if other.state["gpu"] == self.gpu
        ):
            state["switched"] = True
        save(state)
        try:
            self.devices.set_mode(self.gpu, enabled=True)
            state["gpuInstance"] = control.create_gpu_instance(self.gpu, self.profile.id, self.start)
        except HardwareError:
            save(state | {"refused": True})
            raise
        save(state)
        made = control.create_compute_instance(self.gpu, state["gpuInstance"])
        save(state | {"computeInstance": made.id, "uuid": made.uuid})

    def _shared(self, other: OtherStep) -> State:
        """The state of the MIG device that another claim has made and shares with ours."""
        if "uuid" not in other.state or not self.devices.is_intact(other.state):
            raise UnavailableError(
                f"device {self.device} is not whole: what claim {other.claim} left of it has to be taken back first"
            )
        return other.state

    def _check_place(self, instances: Sequence[GpuInstance]) -> None:
        for instance in instances:
            if (
                self.start < instance.placement + instance.size
                and instance.placement < self.start + self.profile.size
            ):
                raise HardwareError(
                    f"device {self.device} cannot be made: GPU instance {instance.id} of GPU {self.gpu} has its "
                    "memory slices and is of no claim; destroy it with nvidia-smi mig, or keep Pods off this device"
                )


@dataclass(frozen=True, slots=True)
class LeaveMigMode:
    """The step before a GPU is given whole that is in MIG mode; there is nothing to take back."""

    devices: MigDevices
    device: str  # the name
    gpu: str  # UUID

    @property
    def kind(self) -> str:
        return KIND

    @property
    def locks(self) -> tuple[str, ...]:
        return (self.gpu,)

    def do(self, save: Save, others: Sequence[OtherStep], done: StepResult) -> None:  # noqa: ARG002 - of the protocol
        self.devices.clear_unowned(self.gpu, others)
        if instances := self.devices.control.instances(self.gpu):
            raise HardwareError(
                f"device {self.device} cannot be given whole: GPU {self.gpu} has GPU instance {instances[0].id}, which "
                "is of no claim; destroy it with nvidia-smi mig, or keep Pods off this device"
            )
        self.devices.set_mode(self.gpu, enabled=False)


def _place(state: State) -> tuple[Any, ...]:
    return state["gpu"], state["profile"], state["start"]


def _is_ours(state: State, instance: GpuInstance) -> bool:
    """Whether `instance` is what the step of that state has made."""
    if state.get("refused") or (state["profile"], state["start"]) != (
        instance.profile_id,
        instance.placement,
    ):
        return False
    uuids = {compute.uuid for compute in instance.compute_instances}
    return state.get("gpuInstance") in {None, instance.id} and (
        "uuid" not in state or not uuids or state["uuid"] in uuids
    )

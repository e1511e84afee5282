"""MPS: a control daemon for the devices of a group, whose clients run at the same time.

Two steps. `MpsDaemon` sets the compute mode EXCLUSIVE_PROCESS, so that nobody gets past the server, and has the
supervisor start the daemon; it holds the locks of its GPUs. `MpsReady` waits for the daemon, holds up nobody else, and
leaves nothing behind. Claims that share a device share its daemon; the last of them ends it.

MIG devices have no compute mode, so their daemon is a daemon each and containers could get past it: by not setting
CUDA_MPS_PIPE_DIRECTORY. That is told in docs/sharing.md.

What a share of a device consumes of its memory is a limit in the environment of its containers, which the server
enforces; a limit of the daemon would be the same for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from dra_driver.cdi.spec import ContainerEdits, Mount
from dra_driver.config.settings import Mps
from dra_driver.errors import HardwareError, UnavailableError
from dra_driver.sharing.compute_modes import modes_before, restore_mode, set_modes
from dra_driver.sharing.daemon import DaemonSpec, client_limits, daemon_for
from dra_driver.sharing.group import Member
from dra_driver.sharing.nvidia_smi import EXCLUSIVE_MODE, NvidiaSmi
from dra_driver.sharing.programs import DriverPrograms
from dra_driver.sharing.supervision import CONTAINER_PIPE, Supervisor
from dra_driver.steps import OtherStep, Save, State, StepResult

log = structlog.get_logger(__name__)

KIND, READY_KIND = "mps-daemon", "mps-ready"
READY_SECONDS = 20.0  # the kubelet gives a call 45
_RESTART_SECONDS = 10.0  # a Prepare may have to wait for this and for READY_SECONDS
_MOUNT_OPTIONS = ("rw", "nosuid", "nodev", "rbind", "rprivate")


@dataclass(frozen=True, slots=True)
class MpsDaemon:
    """The step that starts a daemon.

    Its state: {"name": of the daemon, "modes": {uuid: mode before}, "devices": {name of the device: UUID}, "limits": the
    clients', or ""}.
    """

    smi: NvidiaSmi
    supervisor: Supervisor
    programs: DriverPrograms
    setting: Mps
    members: tuple[Member, ...]
    path: str  # of the configuration
    kind: str = KIND

    @property
    def locks(self) -> tuple[str, ...]:
        return tuple(sorted({member.target.gpu_uuid for member in self.members}))

    def do(self, save: Save, others: Sequence[OtherStep], done: StepResult) -> None:
        uuids = self.uuids(done)
        spec = self.spec(done)
        consumed = {uuids[m.name]: m.memory for m in self.members if m.memory is not None}
        gpus = [member.target.uuid for member in self.members if member.is_gpu]
        left = self.supervisor.left(
            spec.name
        )  # by a claim whose record was lost, if others do not know of it
        before = modes_before(self.smi, gpus, others, left.modes if left else {})
        limits = client_limits(spec.devices, consumed)
        save({"name": spec.name, "modes": before, "devices": uuids, "limits": limits})
        set_modes(self.smi, before, EXCLUSIVE_MODE)
        if left and left.spec != spec and not any(other.state["name"] == spec.name for other in others):
            self.supervisor.stop(spec.name)
        self.supervisor.start(spec, before, self.programs.root, simulated=self.programs.simulated)

    def uuids(self, done: StepResult) -> dict[str, str]:
        """The UUID of each member; that of a MIG device that was just made comes from `done`."""
        return {
            member.name: done.partitions[member.name].uuid
            if member.name in done.partitions
            else member.target.uuid
            for member in self.members
        }

    def spec(self, done: StepResult) -> DaemonSpec:
        return daemon_for(self.setting, list(self.uuids(done).values()), self.path)


@dataclass(frozen=True, slots=True)
class MpsReady:
    """The step that waits for a daemon; it changes nothing, and records nothing."""

    supervisor: Supervisor
    daemon: MpsDaemon
    seconds: float = READY_SECONDS
    kind: str = READY_KIND
    locks: tuple[str, ...] = ()

    def do(self, save: Save, others: Sequence[OtherStep], done: StepResult) -> None:  # noqa: ARG002 - of the protocol
        self.supervisor.wait(self.daemon.spec(done).name, self.seconds)


class MpsDaemons:
    """The kind of `MpsDaemon`."""

    def __init__(self, smi: NvidiaSmi, supervisor: Supervisor) -> None:
        self._smi = smi
        self._supervisor = supervisor

    def undo(self, state: State, others: Sequence[OtherStep]) -> None:
        if any(state["name"] == other.state["name"] for other in others):
            return
        self._supervisor.stop(state["name"])
        for gpu, before in state["modes"].items():
            restore_mode(self._smi, gpu, before, EXCLUSIVE_MODE)

    def result(self, state: State) -> StepResult:
        directory = self._supervisor.of(state["name"])
        env = [f"CUDA_MPS_PIPE_DIRECTORY={CONTAINER_PIPE}"]
        env += [f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT={state['limits']}"] if state["limits"] else []
        edits = ContainerEdits(
            env=tuple(env),
            mounts=(
                Mount(str(directory.pipe), CONTAINER_PIPE, _MOUNT_OPTIONS),
                Mount(str(directory.shm), "/dev/shm", _MOUNT_OPTIONS),
            ),
        )
        return StepResult(edits=dict.fromkeys(state["devices"], edits))

    def is_intact(self, state: State) -> bool:
        try:
            # One that was just started again gets ready; to undo the claim would end what its other Pods run on.
            self._supervisor.wait(state["name"], _RESTART_SECONDS)
        except HardwareError:
            return False
        except UnavailableError as error:  # without a supervisor no daemon runs, and no limit would be kept
            raise HardwareError(str(error)) from error
        return True

    def restore(self, recorded: Sequence[OtherStep]) -> None:
        """End the daemons that no record knows, and give their GPUs the modes back."""
        known = {other.state["name"] for other in recorded}
        in_use = {gpu for other in recorded for gpu in other.state["modes"]}
        try:
            unknown = self._supervisor.names() - known
        except (HardwareError, UnavailableError) as error:
            log.info("MPS daemons not looked at", err=str(error))
            return
        for name in sorted(unknown):
            log.warning("MPS daemon without a record is ended", daemon=name)
            left = self._supervisor.left(name)
            try:
                for gpu, before in (left.modes if left else {}).items():
                    if gpu not in in_use:
                        restore_mode(self._smi, gpu, before, EXCLUSIVE_MODE)
                self._supervisor.stop(name)
            except (HardwareError, UnavailableError) as error:  # the next start tries again
                log.warning("MPS daemon without a record is left", daemon=name, err=str(error))

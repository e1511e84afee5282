"""Time-slicing and MPS on one node: the kinds of steps, and the steps that groups of devices need."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from dra_driver.config.settings import Mps, TimeSlicing
from dra_driver.errors import ClaimError
from dra_driver.sharing import mps, time_slicing
from dra_driver.sharing.group import Group
from dra_driver.sharing.mps import MpsDaemon, MpsDaemons, MpsReady
from dra_driver.sharing.nvidia_smi import NvidiaSmi
from dra_driver.sharing.programs import DriverPrograms
from dra_driver.sharing.supervision import Supervisor
from dra_driver.sharing.time_slicing import TimeSlice, TimeSlices
from dra_driver.steps import NOTHING, Step, StepKind

_MULTI_USER_SINCE = (7, 0)  # Volta


class NodeSharing:
    """What shares devices on this node; nothing is started or asked before a step needs it."""

    def __init__(
        self, programs: DriverPrograms, mps_directory: Path, *, ready_seconds: float = mps.READY_SECONDS
    ) -> None:
        """`mps_directory` is the supervisor's; `ready_seconds` is for how long a Prepare waits for a daemon."""
        self._programs = programs
        self._smi = NvidiaSmi(programs)
        self._supervisor = Supervisor(mps_directory)
        self._ready_seconds = ready_seconds
        self.kinds: Mapping[str, StepKind] = {
            time_slicing.KIND: TimeSlices(self._smi),
            mps.KIND: MpsDaemons(self._smi, self._supervisor),
        }

    def steps(self, groups: Iterable[Group]) -> list[Step]:
        """The steps for a claim's groups; ClaimError or ConfigError where a device cannot be shared as its group says.

        Waiting comes last, so that daemons start at the same time.
        """
        steps: list[Step] = []
        waits: list[Step] = []
        for group in groups:
            match group.setting:
                case TimeSlicing(interval):
                    gpus = tuple(member.target.uuid for member in group.members if member.is_gpu)
                    steps += [TimeSlice(self._smi, interval, gpus)] if gpus else []
                case Mps() as setting:
                    _check_multi_user(setting, group)
                    daemon = MpsDaemon(
                        self._smi, self._supervisor, self._programs, setting, group.members, group.path
                    )
                    daemon.spec(NOTHING)  # a limit for another device is found before anything is changed
                    steps.append(daemon)
                    waits.append(MpsReady(self._supervisor, daemon, self._ready_seconds))
        return steps + waits


def _check_multi_user(setting: Mps, group: Group) -> None:
    for member in group.members if setting.multi_user else ():
        if member.compute_capability is not None and member.compute_capability < _MULTI_USER_SINCE:
            version = ".".join(map(str, member.compute_capability[:2]))
            raise ClaimError(
                f"{group.path}.sharing.mpsConfig.multiUser: device {member.name} has compute capability {version}, "
                "and MPS serves several users at once from 7.0 on; leave multiUser out"
            )

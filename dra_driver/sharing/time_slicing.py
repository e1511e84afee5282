"""Time-slicing: how long a process has a GPU before the next one's turn.

GPUs take turns between processes anyway, so this is done only where a claim asks for it, and only to whole GPUs: MIG
devices have no interval. The interval is the GPU's, not the claim's. The last claim to end gives the GPU the default
back, not what it had before: nvidia-smi says that in no form that can be relied on.

A GPU without this setting fails the claim that asked for another interval than the default, and no other. To ask it
for the default is to ask for what it does.

A reset of the GPU or a reload of the driver sets it back until the next claim that asks; no container could run across
either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from dra_driver.config.settings import Interval
from dra_driver.errors import ClaimError, HardwareError
from dra_driver.sharing.compute_modes import modes_before, restore_mode, set_modes
from dra_driver.sharing.nvidia_smi import DEFAULT_MODE, NvidiaSmi, UnsupportedError
from dra_driver.steps import OtherStep, Save, State, StepResult

log = structlog.get_logger(__name__)

KIND = "time-slice"


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """The step: an interval for the GPUs of a group. Its state: {"interval": ..., "modes": {uuid: mode before}}."""

    smi: NvidiaSmi
    interval: Interval
    gpus: tuple[str, ...]  # UUIDs
    kind: str = KIND

    @property
    def locks(self) -> tuple[str, ...]:
        return self.gpus

    def do(self, save: Save, others: Sequence[OtherStep], done: StepResult) -> None:  # noqa: ARG002 - of the protocol
        before = modes_before(self.smi, self.gpus, others, {})
        save({"interval": self.interval.value, "modes": before})
        set_modes(self.smi, before, DEFAULT_MODE)
        for gpu in self.gpus:
            try:  # also where another claim has recorded the same: its step may have failed there
                self.smi.set_interval(gpu, self.interval)
            except UnsupportedError as error:
                if self.interval is not Interval.DEFAULT:
                    raise ClaimError(
                        f"{error}; leave timeSlicingConfig out, or ask for another model of GPU"
                    ) from error
                log.info("GPU without time-slice setting has the default", device=gpu)


class TimeSlices:
    """The kind of these steps."""

    def __init__(self, smi: NvidiaSmi) -> None:
        self._smi = smi

    def undo(self, state: State, others: Sequence[OtherStep]) -> None:
        for gpu, before in state["modes"].items():
            if any(gpu in other.state["modes"] for other in others):
                continue
            try:
                self._smi.set_interval(gpu, Interval.DEFAULT)
            except HardwareError as error:
                # Gone, or it refused to be set as well: no reason to keep the claim.
                log.warning("time-slice not restored", device=gpu, err=str(error))
            restore_mode(self._smi, gpu, before, DEFAULT_MODE)

    def result(self, state: State) -> StepResult:  # noqa: ARG002 - of the protocol
        return StepResult()

    def is_intact(self, state: State) -> bool:  # noqa: ARG002 - of the protocol
        return True

    def restore(self, recorded: Sequence[OtherStep]) -> None:
        """Nothing is changed that is not recorded before."""

"""The two settings of a GPU that sharing changes, through nvidia-smi: NVML has no call for time-slices.

Both hold for the whole GPU and all its users, and neither outlives a reload of the driver or a reset. What nvidia-smi
means by its exit code is from its manual page; its output is only for people, except for the compute mode.
"""

from enum import IntEnum

from dra_driver.config.settings import Interval
from dra_driver.errors import HardwareError
from dra_driver.sharing.programs import DriverPrograms, Finished, MissingProgramError

_PROGRAM = "nvidia-smi"
SECONDS = 15.0  # without persistence mode it initialises all GPUs first
_INTERVALS = {Interval.DEFAULT: 0, Interval.SHORT: 1, Interval.MEDIUM: 2, Interval.LONG: 3}
DEFAULT_MODE, EXCLUSIVE_MODE = "Default", "Exclusive_Process"  # as nvidia-smi spells them
_MODES = {DEFAULT_MODE: "DEFAULT", EXCLUSIVE_MODE: "EXCLUSIVE_PROCESS", "Prohibited": "PROHIBITED"}


class _Code(IntEnum):
    NOT_SUPPORTED = 3
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    NO_LIBRARY = 12
    NO_FUNCTION = 13
    GPU_LOST = 15


_UNSUPPORTED = frozenset({_Code.NOT_SUPPORTED, _Code.NO_FUNCTION})
_GONE = frozenset({_Code.NOT_FOUND, _Code.DRIVER_NOT_LOADED, _Code.NO_LIBRARY, _Code.GPU_LOST})


class UnsupportedError(HardwareError):
    """The GPU has no such setting."""


class GoneError(HardwareError):
    """The GPU or its driver is not there, and no setting of it either."""


class NvidiaSmi:
    """Settings of GPUs by UUID. HardwareError where a GPU refuses, UnavailableError where nvidia-smi hangs."""

    def __init__(self, programs: DriverPrograms) -> None:
        self._programs = programs

    def compute_mode(self, gpu_uuid: str) -> str:
        """Who may use the GPU: "Default", "Exclusive_Process" or "Prohibited"."""
        arguments = ("--query-gpu=compute_mode", "--format=csv,noheader", "-i", gpu_uuid)
        done = self._run(f"the compute mode of GPU {gpu_uuid} cannot be read", *arguments)
        if done.output not in _MODES:
            raise HardwareError(f"nvidia-smi calls the compute mode of GPU {gpu_uuid} {done.output[:64]!r}")
        return done.output

    def set_compute_mode(self, gpu_uuid: str, mode: str) -> None:
        self._run(f"the compute mode of GPU {gpu_uuid} cannot be set", "-i", gpu_uuid, "-c", _MODES[mode])

    def set_interval(self, gpu_uuid: str, interval: Interval) -> None:
        """Give each process the GPU for this long; UnsupportedError on GPUs where that cannot be set."""
        self._run(
            f"the time-slice of GPU {gpu_uuid} cannot be set",
            "compute-policy",
            "-i",
            gpu_uuid,
            f"--set-timeslice={_INTERVALS[interval]}",
        )

    def _run(self, failure: str, *arguments: str) -> Finished:
        try:
            done = self._programs.run(_PROGRAM, *arguments, seconds=SECONDS)
        except MissingProgramError as error:
            raise GoneError(f"{failure}: {error}") from error
        if done.ok:
            return done
        text = f"{failure}: nvidia-smi said {done.output[:200]!r} and ended with code {done.code}"
        if done.code in _UNSUPPORTED:
            raise UnsupportedError(text)
        if done.code in _GONE:
            raise GoneError(text)
        raise HardwareError(text)

"""The compute mode of GPUs while claims need another one than they had.

Time-slicing needs DEFAULT, MPS needs EXCLUSIVE_PROCESS, so that nobody gets past its server. What a GPU had before is
asked once, by the first claim, and goes into its record and from there into those of the claims after it: the last one
to end puts it back.
"""

from collections.abc import Iterable, Mapping, Sequence

import structlog

from dra_driver.errors import HardwareError
from dra_driver.sharing.nvidia_smi import GoneError, NvidiaSmi
from dra_driver.steps import OtherStep

log = structlog.get_logger(__name__)


def modes_before(
    smi: NvidiaSmi, gpus: Iterable[str], others: Sequence[OtherStep], left: Mapping[str, str]
) -> dict[str, str]:
    """What the modes of `gpus` were before any claim changed them, by UUID; `left` is known of one without a record."""
    known = {**left, **{gpu: mode for other in others for gpu, mode in other.state["modes"].items()}}
    return {gpu: known.get(gpu) or smi.compute_mode(gpu) for gpu in gpus}


def set_modes(smi: NvidiaSmi, before: Mapping[str, str], mode: str) -> None:
    """Have all GPUs in `mode`; one that is in it already is left alone."""
    for gpu, was in before.items():
        if was != mode:
            smi.set_compute_mode(gpu, mode)


def restore_mode(smi: NvidiaSmi, gpu: str, before: str, changed_to: str) -> None:
    """Put the mode back; with the GPU or its driver gone, the setting is too.

    A GPU that refused the change refuses this as well, and has the mode that it had.
    """
    if before == changed_to:
        return
    try:
        smi.set_compute_mode(gpu, before)
    except GoneError as error:
        log.warning("compute mode not restored: nothing is there", device=gpu, err=str(error))
    except HardwareError:
        if smi.compute_mode(gpu) != before:
            raise

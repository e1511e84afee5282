"""What was last read of each GPU, so that one that is lost is still there to be named.

A claim may hold a GPU when it falls off the bus; its device stays published (tainted) and its claim must be
released, so the facts must outlive the hardware. A GPU that was read once therefore stays in the inventory
until the process ends, with a `fault` from the scan on that does not find it well. It leaves earlier only
when another GPU has taken its PCI address, since device names are made of those.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dra_driver.errors import HardwareError
from dra_driver.inventory.model import Gpu, Problem, pci_order


@dataclass(frozen=True, slots=True)
class Reading:
    """What a scan made of one GPU: the GPU, or who it would have been as far as that is known."""

    gpu: Gpu | None
    problems: tuple[Problem, ...] = ()
    uuid: str | None = None
    pci_address: str | None = None
    error: HardwareError | None = None  # that ended the reading early
    is_mig_told: bool = True  # no MIG state of the GPU then means that it is not capable of MIG


class KnownGpus:
    """The GPUs of all scans so far, each as it was when it was last read in full."""

    def __init__(self) -> None:
        self._good: dict[str, Gpu] = {}

    def merge(self, readings: Iterable[Reading]) -> tuple[tuple[Gpu, ...], tuple[Problem, ...]]:
        """The GPUs of the node after a scan, by PCI address, and the problems that no GPU's fault tells."""
        found: dict[str, Gpu] = {}
        faults: dict[str, str] = {}
        problems: list[Problem] = []
        for reading in readings:
            if (gpu := reading.gpu) is not None and gpu.fault is None:
                problems += reading.problems + _add(
                    found, gpu if reading.is_mig_told else self._with_mig(gpu)
                )
            elif reading.uuid in self._good and reading.uuid is not None:
                faults[reading.uuid] = _fault(reading)
            else:
                problems += reading.problems + (() if gpu is None else _add(found, gpu))
        good = {uuid: gpu for uuid, gpu in found.items() if gpu.fault is None}
        taken = {gpu.pci_address for gpu in found.values()}
        for uuid, gpu in self._good.items():
            if uuid not in found and gpu.pci_address not in taken:
                found[uuid] = replace(gpu, fault=faults.get(uuid) or _gone(gpu))
        self._good = {
            uuid: good.get(uuid) or self._good[uuid] for uuid in found if uuid in {**good, **self._good}
        }
        return _ordered(found), tuple(problems)

    def _with_mig(self, gpu: Gpu) -> Gpu:
        """`gpu` with the MIG state that was read last: one that is cut into MIG devices must not pass for a whole one."""
        before = self._good.get(gpu.uuid)
        return gpu if before is None else replace(gpu, mig=before.mig)

    def all_faulty(self, fault: str) -> tuple[Gpu, ...]:
        """Every known GPU, with `fault`: for when nothing can be asked."""
        return _ordered({uuid: replace(gpu, fault=fault) for uuid, gpu in self._good.items()})


def _add(found: dict[str, Gpu], gpu: Gpu) -> tuple[Problem, ...]:
    """Put `gpu` into `found`, unless one with its identity is there: device names must be unique."""
    twin = next(
        (other for other in found.values() if gpu.uuid == other.uuid or gpu.pci_address == other.pci_address),
        None,
    )
    if twin is None:
        found[gpu.uuid] = gpu
        return ()
    message = (
        f"GPU {gpu.uuid} at {gpu.pci_address} has the UUID or PCI address of GPU {twin.uuid} at "
        f"{twin.pci_address}, so it is not published"
    )
    return (Problem(message, gpu.pci_address, gpu.uuid),)


def _fault(reading: Reading) -> str:
    if reading.gpu is not None and reading.gpu.fault is not None:
        return reading.gpu.fault
    return next(problem.message for problem in reading.problems)


def _gone(gpu: Gpu) -> str:
    return (
        f"GPU {gpu.uuid} at {gpu.pci_address} is no longer listed by NVML: it was unbound, removed or has "
        "fallen off the bus"
    )


def _ordered(gpus: Mapping[str, Gpu]) -> tuple[Gpu, ...]:
    return tuple(sorted(gpus.values(), key=lambda gpu: pci_order(gpu.pci_address)))

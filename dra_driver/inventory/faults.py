"""Faults on demand for simulated GPUs, from a YAML file that anyone may write while the plugin runs.

`<driver root>/simulated/faults.yaml` is read at each scan; without the file nothing is wrong:

    nvml: unavailable          # NVML cannot be asked at all
    gpus: absent               # all GPUs, or by PCI address or UUID:
    gpus:
      0000:07:00.0: lost       # does not answer any more, as after Xid 79
      GPU-5d1f...: absent      # not found, as after a hot unplug
    mig: create-fails          # so does every MIG instance, or by GPU as above; see `MigFault`

Replace the file in one step (write another, rename it): a file that is half written is reported as a
problem, and the faults that were read last stay in force, so that a lost GPU is not healthy for a moment.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from dra_driver.inventory import document
from dra_driver.inventory.links import read_pci_address
from dra_driver.inventory.model import Gpu

_FILE = Path("simulated/faults.yaml")


class Fault(StrEnum):
    """What is wrong with a GPU."""

    LOST = "lost"
    ABSENT = "absent"


class MigFault(StrEnum):
    """What goes wrong when a GPU is cut into MIG devices."""

    CREATE_FAILS = "create-fails"  # no GPU instance can be made
    COMPUTE_FAILS = "compute-instance-fails"  # a GPU instance can, the compute instance in it cannot
    IN_USE = "in-use"  # a process uses all that exists: nothing is destroyed, and the mode not switched
    MODE_PENDING = "mode-pending"  # another mode waits for a reset


F = TypeVar("F", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class FaultsOf(Generic[F]):
    """Faults of one sort: of all GPUs, or of some by PCI address or UUID."""

    everywhere: F | None = None
    by_gpu: Mapping[str, F] = field(default_factory=dict)

    def of(self, gpu: Gpu) -> F | None:
        return self.everywhere or self.by_gpu.get(gpu.uuid) or self.by_gpu.get(gpu.pci_address)


@dataclass(frozen=True, slots=True)
class Faults:
    """All that is wrong with a node; nothing, unless told."""

    nvml: bool = False
    gpus: FaultsOf[Fault] = field(default_factory=FaultsOf)
    mig: FaultsOf[MigFault] = field(default_factory=FaultsOf)

    def named(self) -> Iterator[str]:
        """The PCI addresses and UUIDs that the faults name."""
        yield from self.gpus.by_gpu
        yield from self.mig.by_gpu


def faults_file(driver_root: Path) -> Path:
    """Where the faults of a simulated driver root stand."""
    return driver_root / _FILE


def read_faults(path: Path) -> Faults:
    """The faults in `path`; UsageError says what is wrong with the file."""
    try:
        root = document.read_file(path)
    except FileNotFoundError:
        return Faults()
    fields = root.fields((), ["nvml", "gpus", "mig"])
    return Faults(
        "nvml" in fields and fields["nvml"].choice(["available", "unavailable"]) == "unavailable",
        _faults_of(fields.get("gpus"), Fault),
        _faults_of(fields.get("mig"), MigFault),
    )


def _faults_of(value: document.Value | None, kind: type[F]) -> FaultsOf[F]:
    if value is None:
        return FaultsOf()
    if isinstance(value.content, str):
        return FaultsOf(kind(value.choice(kind)))
    return FaultsOf(None, {_gpu(key, each): kind(each.choice(kind)) for key, each in value.mapping().items()})


def _gpu(key: str, value: document.Value) -> str:
    if key.startswith("GPU-"):
        return key
    return read_pci_address(document.Value(value.source, value.line, value.path, key))

"""Faults on demand for simulated GPUs, from a YAML file that anyone may write while the plugin runs.

`<driver root>/simulated/faults.yaml` is read at each scan; without the file nothing is wrong:

    nvml: unavailable          # NVML cannot be asked at all
    gpus: absent               # all GPUs, or by PCI address or UUID:
    gpus:
      0000:07:00.0: lost       # does not answer any more, as after Xid 79
      GPU-5d1f...: absent      # not found, as after a hot unplug

Replace the file in one step (write another, rename it): a file that is half written is reported as a
problem, and the faults that were read last stay in force, so that a lost GPU is not healthy for a moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dra_driver.inventory import document
from dra_driver.inventory.links import read_pci_address
from dra_driver.inventory.model import Gpu

_FILE = Path("simulated/faults.yaml")


class Fault(StrEnum):
    """What is wrong with a GPU."""

    LOST = "lost"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Faults:
    """All that is wrong with a node; nothing, unless told."""

    nvml: bool = False
    all_gpus: Fault | None = None
    gpus: Mapping[str, Fault] = field(default_factory=dict)  # by PCI address or UUID

    def of(self, gpu: Gpu) -> Fault | None:
        return self.all_gpus or self.gpus.get(gpu.uuid) or self.gpus.get(gpu.pci_address)


def faults_file(driver_root: Path) -> Path:
    """Where the faults of a simulated driver root stand."""
    return driver_root / _FILE


def read_faults(path: Path) -> Faults:
    """The faults in `path`; UsageError says what is wrong with the file."""
    try:
        root = document.read_file(path)
    except FileNotFoundError:
        return Faults()
    fields = root.fields((), ["nvml", "gpus"])
    nvml = "nvml" in fields and fields["nvml"].choice(["available", "unavailable"]) == "unavailable"
    gpus = fields.get("gpus")
    if gpus is None:
        return Faults(nvml)
    if isinstance(gpus.content, str):
        return Faults(nvml, Fault(gpus.choice(Fault)))
    return Faults(
        nvml, None, {_gpu(key, value): Fault(value.choice(Fault)) for key, value in gpus.mapping().items()}
    )


def _gpu(key: str, value: document.Value) -> str:
    if key.startswith("GPU-"):
        return key
    return read_pci_address(document.Value(value.source, value.line, value.path, key))

"""How the GPUs of a node are offered: cut into MIG devices or not, for one claim at a time or for several.

    apiVersion: config.dra-driver.io/v1alpha1
    kind: NodeConfig
    gpus:
    - uuid: GPU-3f583ca0-3c35-5d6a-b127-5b963226112d
      mig: "off"
    - model: NVIDIA H100*
      mig: dynamic
    - shares: 4

An entry is for the GPUs that have all that it names, by UUID, PCI address or model; one that names nothing is for all.
Each setting comes from the first entry that is for the GPU and has it. So one file serves nodes of all kinds: entries
that match no GPU of a node do nothing there.

What is built in changes nothing on the hardware: `auto` offers each GPU as it is found. Cutting GPUs on demand takes
exclusive hold of their MIG mode, which an admin may have other tools for, so that it has to be asked for.

Reading a file loads pydantic (20 MiB); a node without one does without.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from dra_driver.errors import UsageError
from dra_driver.inventory.document import read_file
from dra_driver.inventory.model import Gpu


class MigMode(StrEnum):
    """What is offered of a GPU that can be cut into MIG devices."""

    AUTO = "auto"  # whole while MIG mode is off, else the MIG devices that exist
    STATIC = "static"  # the MIG devices that exist; MIG mode is expected to be on
    DYNAMIC = "dynamic"  # whole, and every MIG device that it can be cut into, made on demand
    OFF = "off"  # whole


Shares = Literal["none", "unlimited", "memory"] | int
"""Who may have a device at the same time: one claim; any number; as long as there is memory; that many."""


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """What is in force for one GPU and its MIG devices."""

    mig: MigMode = MigMode.AUTO
    shares: Shares = "none"
    destroy_unowned: bool = False  # with MigMode.DYNAMIC: MIG devices that no claim owns may be destroyed


@dataclass(frozen=True, slots=True)
class GpuEntry:
    """An entry of the file; None where it does not say."""

    uuid: str | None = None  # as `Gpu.uuid`
    pci_address: str | None = None  # as `Gpu.pci_address`
    model: str | None = None  # in lower case, with * for any text
    mig: MigMode | None = None
    shares: Shares | None = None
    destroy_unowned: bool | None = None

    def is_for(self, gpu: Gpu) -> bool:
        return (
            self.uuid in {None, gpu.uuid}
            and self.pci_address in {None, gpu.pci_address}
            and (self.model is None or _matches(self.model, gpu.name.lower()))
        )


def _matches(pattern: str, text: str) -> bool:
    return fnmatchcase(text, re.sub(r"[\[?]", r"[\g<0>]", pattern))  # the star alone has a meaning


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings of all GPUs; `mig` is for those that no entry says a mode of."""

    mig: MigMode = MigMode.AUTO
    entries: tuple[GpuEntry, ...] = ()

    def of(self, gpu: Gpu) -> GpuSettings:
        mine = [entry for entry in self.entries if entry.is_for(gpu)]
        mig = next((entry.mig for entry in mine if entry.mig is not None), self.mig)
        shares: Shares = next((entry.shares for entry in mine if entry.shares is not None), "none")
        unowned = (entry.destroy_unowned for entry in mine if entry.destroy_unowned is not None)
        return GpuSettings(mig, shares, mig is MigMode.DYNAMIC and next(unowned, False))


DEFAULT = NodeConfig()


def load(path: Path, mig: MigMode = MigMode.AUTO) -> NodeConfig:
    """The configuration in a file; UsageError says all that is wrong with it, each with its line."""
    from dra_driver.config import node_models

    try:
        document = read_file(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path} cannot be read: there is no such file") from error
    return NodeConfig(mig, node_models.read(document))

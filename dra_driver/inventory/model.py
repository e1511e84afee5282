"""The facts of a node's GPUs, as frozen dataclasses that every backend fills in the same way.

None always means that the hardware or its driver does not say: it is never published, and never guessed.
Sizes are bytes. PCI addresses are lower case with at least four digits of domain ("0000:65:00.0",
"10000:01:00.0"), as sysfs names its directories, whatever NVML's own notation is.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

PCI_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7])", re.ASCII)


class RemoteType(StrEnum):
    """What the other end of an NVLink is."""

    GPU = "gpu"
    SWITCH = "switch"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NvLink:
    """One active NVLink of a GPU."""

    index: int
    remote: RemoteType
    remote_pci_address: str | None  # of the GPU or switch; not told on multi-node fabrics


@dataclass(frozen=True, slots=True)
class Fabric:
    """Membership of a multi-node NVLink fabric; present only where its state is COMPLETED and its UUID non-zero."""

    cluster_uuid: str
    clique_id: int


ENGINES = {
    "copyEngines": "copy_engines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpegEngines": "jpeg_engines",
    "ofaEngines": "ofa_engines",
}
"""The engines of a MIG profile: the name of a capacity, and the field of `MigProfile`."""


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A shape of GPU instance that this GPU can be cut into.

    `id` is the driver's profile id (19 for 1g.5gb), the one that all create calls take. Placements are starts
    in memory slices; every placement of a profile has the same `size`.
    """

    id: int
    name: str  # "1g.5gb", "1g.5gb+me": without "MIG "
    memory_bytes: int
    compute_slices: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    max_instances: int
    placements: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class MigDevice:
    """An existing MIG device: one compute instance that fills its GPU instance."""

    uuid: str  # "MIG-..."; new after each creation
    gpu_instance: int
    compute_instance: int
    profile: MigProfile
    placement: int  # first memory slice


@dataclass(frozen=True, slots=True)
class Mig:
    """The MIG state of a GPU that is capable of it."""

    enabled: bool
    pending: bool  # the mode after the next reset
    profiles: tuple[MigProfile, ...] = ()  # empty where the driver does not list them
    devices: tuple[MigDevice, ...] = ()
    switchable: bool = False  # the mode can be changed without a reset
    hidden: int = 0  # MIG devices that exist, but of which too little is known to be among `devices`


@dataclass(frozen=True, slots=True)
class Gpu:
    """A physical GPU.

    `fault` is one sentence where the GPU answers no longer (lost, fallen off the bus): it is then published
    only while a claim holds it. A GPU whose identity (UUID, PCI address) cannot be read is not a `Gpu` at
    all, but a `Problem` of the inventory.
    """

    uuid: str  # "GPU-..."
    pci_address: str
    index: int  # NVML order at this scan; for messages only, never an identity
    minor: int | None  # N of /dev/nvidiaN; None on WSL2 and some integrated GPUs
    name: str
    brand: str | None
    architecture: str | None
    compute_capability: tuple[int, int] | None
    memory_bytes: int | None  # NVML total; None on unified-memory GPUs (GB10)
    addressing_mode: str | None = None  # "HMM", "ATS", "None"
    multiprocessors: int | None = None
    mig: Mig | None = None  # None: not capable
    nvlinks: tuple[NvLink, ...] | None = None  # active links; None: cannot be read; (): has none
    fabric: Fabric | None = None
    pcie_root: str | None = None  # "pci0000:64"
    numa_node: int | None = None
    serial: str | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about the hardware that a person should know: one sentence, and the GPU where there is one."""

    message: str
    pci_address: str | None = None
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that one scan found. `available` is False where NVML or the driver cannot be asked at all."""

    available: bool
    driver_version: str | None = None  # as NVIDIA writes it, "580.65.06"
    cuda_driver_version: int | None = None  # 1000 * major + 10 * minor
    gpus: tuple[Gpu, ...] = ()  # by PCI address
    problems: tuple[Problem, ...] = ()

    def gpu(self, uuid: str) -> Gpu | None:
        """The GPU of this UUID."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)


def pci_address(text: object) -> str | None:
    """A PCI address as sysfs writes it, of that or of NVML's notation with eight digits of domain; None: it is none."""
    match = PCI_ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    domain, rest = match.groups()
    return f"{int(domain, 16):04x}:{rest}".lower()


def pci_order(address: str) -> tuple[int, ...]:
    """A sort key: NVML's order of GPUs, by number and not by text, since domains differ in length."""
    return tuple(int(part, 16) for part in re.split("[:.]", address))

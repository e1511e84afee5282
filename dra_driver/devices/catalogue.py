"""The catalogue: everything that a published device can say of itself.

The one source for what users select by: `api/attributes.yaml` and the reference page are rendered from it, lint
and the selector compiler take their types from it, and a test holds it against the devices of every simulated
node. Names and types of the official driver keep their meaning; ours come beside them.

Attributes without a domain belong to the driver: `uuid` is `device.attributes["gpu.nvidia.com"].uuid`.
"""

from dataclasses import dataclass
from typing import Literal

from dra_driver.devices.cut import Obstacle
from dra_driver.devices.model import TargetKind
from dra_driver.devices.names import DRIVER_NAME

AttributeType = Literal["string", "int", "bool", "version"]

_ALL: tuple[TargetKind, ...] = ("gpu", "mig", "partition")
_GPU: tuple[TargetKind, ...] = ("gpu",)
_MIG: tuple[TargetKind, ...] = ("mig", "partition")
_EXISTING: tuple[TargetKind, ...] = ("gpu", "mig")
_FIRST = "0.1.0"


@dataclass(frozen=True, slots=True)
class Entry:
    """What attributes and capacities have in common."""

    name: str
    meaning: str
    example: str | int | bool
    devices: tuple[TargetKind, ...] = _ALL
    when: str | None = None  # None: every device of these types carries it
    since: str = _FIRST

    @property
    def domain(self) -> str:
        return self.name.rpartition("/")[0] or DRIVER_NAME

    @property
    def identifier(self) -> str:
        """The part behind the domain, with a number for a placeholder: memorySlice<i> -> memorySlice0."""
        return self.name.rpartition("/")[2].replace("<i>", "0")


@dataclass(frozen=True, slots=True)
class Attribute(Entry):
    """An attribute."""

    type: AttributeType = "string"
    values: tuple[str, ...] = ()  # all that there are, where the set is closed

    @property
    def guard(self) -> str:
        """A selector on it that does not fail on a device without it."""
        reference = f'device.attributes["{self.domain}"].{self.identifier}'
        match self.type:
            case "version":
                condition = f'{reference}.compareTo(semver("{self.example}")) >= 0'
            case "bool":
                condition = reference if self.example else f"!{reference}"
            case "int":
                condition = f"{reference} == {self.example}"
            case "string":
                condition = f'{reference} == "{self.example}"'
        return f"has({reference}) && {condition}"


@dataclass(frozen=True, slots=True)
class Capacity(Entry):
    """A capacity; its values are quantities."""

    unit: Literal["bytes", "count"] = "count"

    @property
    def guard(self) -> str:
        """A selector on it that does not fail on a device without it."""
        reference = f'device.capacity["{self.domain}"].{self.identifier}'
        return f'has({reference}) && {reference}.compareTo(quantity("{self.example}")) >= 0'


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of the set `<GPU's device>-counters` of a GPU that is cut on demand."""

    name: str
    meaning: str
    since: str = _FIRST


@dataclass(frozen=True, slots=True)
class TaintKey:
    """A taint that this driver puts on devices."""

    key: str
    effect: Literal["None", "NoSchedule", "NoExecute"]
    meaning: str
    values: tuple[str, ...] = ()
    since: str = _FIRST


_IF_KNOWN = "the NVIDIA driver reports it"

ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("type", "What the device is: a whole GPU, or a MIG device.", "gpu", values=("gpu", "mig")),
    Attribute(
        "uuid",
        "NVIDIA's UUID: GPU-... of a whole GPU, MIG-... of a MIG device (another one each time it is made).",
        "GPU-3f583ca0-3c35-5d6a-b127-5b963226112d",
        _EXISTING,
    ),
    Attribute(
        "parentUUID",
        "UUID of the GPU that a MIG device is part of.",
        "GPU-3f583ca0-3c35-5d6a-b127-5b963226112d",
        _MIG,
    ),
    Attribute("profile", "MIG profile.", "1g.5gb", _MIG),
    Attribute("productName", "Product name, as nvidia-smi shows it.", "NVIDIA A100-SXM4-40GB"),
    Attribute("brand", "Brand in NVIDIA's terms.", "Nvidia", when=_IF_KNOWN),
    Attribute("architecture", "GPU architecture.", "Ampere", when=_IF_KNOWN),
    Attribute("cudaComputeCapability", "CUDA compute capability.", "8.0.0", when=_IF_KNOWN, type="version"),
    Attribute(
        "driverVersion",
        "Version of the NVIDIA driver as a semantic version: 580.65.06 is written 580.65.6.",
        "580.65.6",
        when=_IF_KNOWN,
        type="version",
    ),
    Attribute(
        "driverVersionString",
        "Version of the NVIDIA driver as NVIDIA writes it, leading zeros included.",
        "580.65.06",
        when=_IF_KNOWN,
    ),
    Attribute(
        "cudaDriverVersion",
        "Newest CUDA version that the NVIDIA driver supports.",
        "13.0.0",
        when=_IF_KNOWN,
        type="version",
    ),
    Attribute(
        "addressingMode",
        "How the GPU addresses the host's memory: HMM (in software), ATS (in hardware, on Grace), or None.",
        "HMM",
        when=_IF_KNOWN,
        values=("HMM", "ATS", "None"),
    ),
    Attribute(
        "resource.kubernetes.io/pciBusID",
        "PCI address of the GPU.",
        "0000:65:00.0",
        when="its PCI domain has four digits, as the standard wants it",
    ),
    Attribute(
        "resource.kubernetes.io/pcieRoot",
        "PCIe root complex of the GPU; equal for GPUs and NICs on one root.",
        "pci0000:64",
        when="sysfs tells it",
    ),
    Attribute(
        "resource.kubernetes.io/numaNode",
        "NUMA node whose processors are nearest to the GPU.",
        0,
        when="sysfs tells it",
        type="int",
    ),
    Attribute(
        "memoryKind",
        "Whether the memory is the GPU's own (dedicated) or the system's (unified: GB10, Jetson, Thor).",
        "dedicated",
        when="the memory's size or the GPU's compute capability tells it",
        values=("dedicated", "unified"),
    ),
    Attribute(
        "migCapable", "Whether the GPU can be cut into MIG devices.", example=True, devices=_GPU, type="bool"
    ),
    Attribute(
        "migMode",
        "Whether a claim gets the GPU in MIG mode: always disabled, since a GPU in MIG mode is published as its MIG "
        "devices, and MIG mode of one that is cut on demand is switched off before it is given whole.",
        "disabled",
        _GPU,
        values=("enabled", "disabled"),
    ),
    Attribute(
        "migObstacle",
        "Why the GPU is not offered in the MIG mode that the node configuration says, but as it is: its mode cannot be "
        "switched without a reset, or will be at the next; the driver does not list its profiles; the mode is off, or there "
        "are MIG devices, though they should not be; or there are some whose place is not known.",
        "needs-reset",
        _EXISTING,
        "there is an obstacle",
        values=tuple(obstacle.value for obstacle in Obstacle),
    ),
    Attribute(
        "nvlinkClique",
        "Equal just for the GPUs that reach each other over NVLink: on a multi-node fabric its cluster UUID and "
        "clique id, else the lowest PCI address of the island. A GPU without NVLink has a clique of its own.",
        "0000:07:00.0",
        _GPU,
        "the state of its NVLinks can be read",
    ),
    Attribute(
        "nvlinkPeers",
        "Number of other GPUs of this node in the same NVLink clique.",
        7,
        _GPU,
        "the state of its NVLinks can be read",
        type="int",
    ),
    Attribute(
        "fabricClusterUUID",
        "UUID of the multi-node NVLink cluster that the GPU has joined.",
        "6a7d3c4e-52b1-4f0a-9c1d-3e8f2b6a9d10",
        _GPU,
        "the GPU is part of a multi-node NVLink fabric",
    ),
    Attribute(
        "fabricCliqueID",
        "Clique of the GPU inside that cluster.",
        32766,
        _GPU,
        "the GPU is part of a multi-node NVLink fabric",
        type="int",
    ),
)

CAPACITIES: tuple[Capacity, ...] = (
    Capacity(
        "memory",
        "Memory: NVML's total of a whole GPU, the profile's of a MIG device. Less than the name of the product says: "
        "an H100 80GB has 81559Mi.",
        "40Gi",
        when="the GPU has memory of its own and the NVIDIA driver reports it",
        unit="bytes",
    ),
    Capacity(
        "multiprocessors",
        "Streaming multiprocessors.",
        "14",
        when="it is a MIG device, or the NVIDIA driver reports the number",
    ),
    Capacity("copyEngines", "Copy engines.", "1", _MIG),
    Capacity("decoders", "Video decoders (NVDEC).", "0", _MIG),
    Capacity("encoders", "Video encoders (NVENC).", "0", _MIG),
    Capacity("jpegEngines", "JPEG decoders (NVJPG).", "0", _MIG),
    Capacity("ofaEngines", "Optical flow accelerators (OFA).", "0", _MIG),
    Capacity(
        "memorySlice<i>",
        "1 for each memory slice of the parent GPU that the MIG device lies on.",
        "1",
        ("mig",),
        "no more than 32 attributes and capacities result; else all of them are left out",
    ),
    Capacity(
        "shares",
        "How many claims may have the device at the same time; each takes one unless it asks for more.",
        "4",
        when="the node configuration gives a number of shares",
    ),
)

COUNTERS: tuple[Counter, ...] = (
    Counter("memory", "Memory of the largest profile."),
    Counter("multiprocessors", "Streaming multiprocessors of the largest profile."),
    Counter("copy-engines", "Copy engines."),
    Counter("decoders", "Video decoders (NVDEC)."),
    Counter("encoders", "Video encoders (NVENC)."),
    Counter("jpeg-engines", "JPEG decoders (NVJPG)."),
    Counter("ofa-engines", "Optical flow accelerators (OFA)."),
    Counter("compute-slices", "Compute slices."),
    Counter(
        "memory-slice-<i>",
        "1 for each memory slice of the GPU, so that MIG devices exclude each other by place.",
    ),
    Counter(
        "instances-<id>",
        "MIG devices of the profile of this id, where nothing else limits them to as many as may be.",
    ),
)

TAINTS: tuple[TaintKey, ...] = (
    TaintKey(
        f"{DRIVER_NAME}/gpu-lost",
        "NoSchedule",
        "A claim holds the device, but its hardware is not there as it was allocated. The value says why.",
        values=("fault", "mig-mode", "missing", "moved", "replaced", "unavailable"),
    ),
)

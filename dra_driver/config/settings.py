"""What opaque parameters mean once they are decoded: frozen values, the same for Prepare, webhook and lint.

Nothing here needs pydantic, which only the decoding of settings loads (`models`): a node whose claims carry none never
pays for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dra_driver.quantity import Quantity


class Interval(StrEnum):
    """How long a process has a time-sliced GPU before the next one; NVIDIA publishes no milliseconds."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


@dataclass(frozen=True, slots=True)
class TimeSlicing:
    """Processes take turns on the GPU, and share its memory without limits."""

    interval: Interval = Interval.DEFAULT


@dataclass(frozen=True, slots=True)
class Mps:
    """Processes run at the same time, as clients of one MPS server."""

    threads: int | None = None  # active thread percentage of each client, 0 to 100
    memory: Quantity | None = None  # device memory of each client on each device
    memory_of: Mapping[str, Quantity] = field(default_factory=dict)  # by UUID or index, before `memory`
    multi_user: bool = False  # clients of several users at the same time


Sharing = TimeSlicing | Mps


@dataclass(frozen=True, slots=True)
class GpuConfig:
    """For whole GPUs; without `sharing` nothing is set, and all containers of the claim share as the GPU does."""

    sharing: Sharing | None = None
    device_type = "gpu"

    def __str__(self) -> str:
        return "GpuConfig"


@dataclass(frozen=True, slots=True)
class MigDeviceConfig:
    """For MIG devices. TimeSlicing sets nothing: processes on a MIG device take turns anyway."""

    sharing: Sharing | None = None
    device_type = "mig"

    def __str__(self) -> str:
        return "MigDeviceConfig"


Config = GpuConfig | MigDeviceConfig


@dataclass(frozen=True, slots=True)
class Setting:
    """What is in force for a device of a claim, as far as other claims have to know."""

    text: str  # equal for equal settings, and for people to read
    exclusive: bool  # no container may use the device otherwise, not even one that asks for nothing

    def agrees_with(self, other: "Setting | None") -> bool:
        """Whether both can be in force for one device; None asks for nothing."""
        return not self.exclusive if other is None else self == other


def setting_of(sharing: Sharing, devices: Sequence[str]) -> Setting:
    """The setting for `devices`, by name, which one MPS daemon serves."""
    text = describe(sharing)
    if isinstance(sharing, Mps) and len(devices) > 1:
        text += f" of {' and '.join(sorted(devices))} together"
    return Setting(text, isinstance(sharing, Mps))


def describe(sharing: Sharing | None) -> str:
    """The setting in words, for a message about two that disagree."""
    match sharing:
        case None:
            return "no sharing settings"
        case TimeSlicing(interval):
            return f"TimeSlicing with interval {interval}"
        case Mps():
            parts = [] if sharing.threads is None else [f"{sharing.threads} % of the threads"]
            parts += [] if sharing.memory is None else [f"{_in_mib(sharing.memory)} of memory"]
            parts += [f"{_in_mib(limit)} on {device}" for device, limit in sorted(sharing.memory_of.items())]
            parts += ["several users"] if sharing.multi_user else []
            return f"MPS ({', '.join(parts)})" if parts else "MPS"


def _in_mib(limit: Quantity) -> Quantity:
    """As MPS counts, so that two ways to write an amount are one setting."""
    return Quantity.of_bytes(limit.value >> 20 << 20)

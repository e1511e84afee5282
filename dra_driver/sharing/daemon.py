"""An MPS daemon as it is wanted: which devices it serves, and what it allows each client.

Limits are the daemon's defaults for every client, on each device. `devices` are in the order of their UUIDs, which is
what indices of limits count (as in the official driver), and what clients count their devices by. MPS takes memory in
MiB and calls it M.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from dra_driver.config.settings import Mps
from dra_driver.errors import ConfigError

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DaemonSpec:
    """What a daemon is started with."""

    devices: tuple[str, ...]  # UUIDs, sorted
    threads: int | None = None  # percent
    memory: Mapping[str, int] = field(default_factory=dict)  # MiB by UUID
    multi_user: bool = False

    @property
    def name(self) -> str:
        """The name of the daemon's directory: short, for the path of a socket has at most 107 bytes."""
        return sha256(",".join(self.devices).encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        return {
            "devices": list(self.devices),
            "threads": self.threads,
            "memoryMiB": dict(self.memory),
            "multiUser": self.multi_user,
        }

    def commands(self) -> tuple[str, ...]:
        """What the control program is told before the first client comes: later is too late for a server."""
        threads = () if self.threads is None else (f"set_default_active_thread_percentage {self.threads}",)
        return (
            *threads,
            *(f"set_default_device_pinned_mem_limit {device} {mib}M" for device, mib in self.memory.items()),
        )


def spec_from_dict(body: Mapping[str, Any]) -> DaemonSpec:
    """The inverse of `DaemonSpec.as_dict`; KeyError, TypeError or ValueError where it is not one."""
    memory = body["memoryMiB"]
    if not isinstance(memory, Mapping):
        raise TypeError(f"memoryMiB is no object: {memory!r}")
    return DaemonSpec(
        tuple(str(device) for device in body["devices"]),
        None if body["threads"] is None else int(body["threads"]),
        {str(device): int(mib) for device, mib in memory.items()},
        bool(body["multiUser"]),
    )


def daemon_for(setting: Mps, uuids: Sequence[str], path: str) -> DaemonSpec:
    """The daemon that `setting`, found at `path`, asks for; ConfigError where a limit is for none of its devices, or
    one of them has two.
    """
    devices = tuple(sorted(uuids))
    limits: dict[str, int] = {}
    for key, limit in setting.memory_of.items():
        device = devices[int(key)] if key.isdigit() and int(key) < len(devices) else key
        where = f"{path}.sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit: {key[:64]!r}"
        if device not in devices:
            raise ConfigError(
                f"{where} is none of the claim's devices; write one of their UUIDs, or an index below {len(devices)}"
            )
        if device in limits:
            raise ConfigError(
                f"{where} is a device that has a limit by index and by UUID; leave one of them out"
            )
        limits[device] = limit.value // _MIB
    memory = {} if setting.memory is None else dict.fromkeys(devices, setting.memory.value // _MIB)
    return DaemonSpec(devices, setting.threads, memory | limits, setting.multi_user)


def client_limits(devices: Sequence[str], consumed: Mapping[str, int]) -> str:
    """The value of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT for a client that consumes these bytes, by UUID."""
    return ",".join(
        f"{index}={max(1, consumed[device] // _MIB)}M"
        for index, device in enumerate(devices)
        if device in consumed
    )

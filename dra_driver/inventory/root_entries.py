"""What can stand at a path of a simulated driver root, and how its driver was installed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Symlink:
    target: str


@dataclass(frozen=True, slots=True)
class CharDevice:
    major: int
    minor: int
    mode: int = 0o666
    gid: int = 0


Entry = File | Symlink | CharDevice


@dataclass(frozen=True, slots=True)
class Layout:
    """The choices of whoever installed the driver."""

    loader_cache: bool = True  # /etc/ld.so.cache
    cdi_hook: bool = False  # NVIDIA's container toolkit, /usr/bin/nvidia-cdi-hook
    device_gid: int = 0  # the one group that may open GPUs (NVreg_DeviceFileGID, mode 0660); 0: everybody may


DEFAULT_LAYOUT = Layout()

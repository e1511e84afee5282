"""Devices of a claim that are shared in one way: what a sharing step is made for.

A configuration applies to the devices of several requests, and an MPS daemon serves all GPUs of its group. MIG devices
are a group each: a CUDA process can use only one.
"""

from dataclasses import dataclass

from dra_driver.config.settings import Sharing
from dra_driver.devices.model import Target


@dataclass(frozen=True, slots=True)
class Member:
    """A device of a group, whatever the number of its shares in the claim."""

    name: str
    target: Target
    compute_capability: tuple[int, ...] | None = None  # of its GPU
    memory: int | None = None  # bytes that the claim's shares of it consume; None: it is not shared out

    @property
    def is_gpu(self) -> bool:
        return self.target.kind == "gpu"


@dataclass(frozen=True, slots=True)
class Group:
    """Devices of one claim, by name, and the setting for them."""

    path: str  # of the configuration, for messages
    setting: Sharing
    members: tuple[Member, ...]

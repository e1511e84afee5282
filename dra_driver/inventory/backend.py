"""The one door to hardware facts: a backend behind a Protocol."""

from typing import Protocol

from dra_driver.inventory.mig_control import MigControl
from dra_driver.inventory.model import Inventory


class Backend(Protocol):
    """A source of hardware facts: NVML, or a simulated node."""

    name: str  # "nvml", "simulated:dgx-h100": for logs

    @property
    def mig(self) -> MigControl:
        """What cuts its GPUs into MIG devices."""
        ...

    def scan(self) -> Inventory:
        """What is there now.

        Never raises for what hardware or driver do, and returns within seconds even where NVML hangs: then
        `available` is False and `problems` says why. May be called from one thread at a time.
        """
        ...

    def close(self) -> None:
        """Give the session back; no call comes after it."""
        ...

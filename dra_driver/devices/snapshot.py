"""What one look at the hardware found. Whoever decides by both of its parts takes both from one look."""

from dataclasses import dataclass

from dra_driver.devices.model import DeviceSet
from dra_driver.inventory.model import Inventory


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a look found, and the devices made of it."""

    inventory: Inventory
    devices: DeviceSet

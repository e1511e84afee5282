"""Which memory slices of its GPU a MIG device has: what two of them must never have in common.

A MIG device that exists lists them in its capacities, one that can be made in the counters that it takes.
"""

import re

from dra_driver.devices import counters, form
from dra_driver.devices.model import Device

_NAME = re.compile(rf"(?:{form.MEMORY_SLICE}|{counters.MEMORY_SLICE})(\d+)")


def memory_slices(device: Device) -> frozenset[int]:
    """The slices of a MIG device by number; none for a whole GPU, nor for a MIG device too large to list them."""
    if device.target.kind == "gpu":
        return frozenset()
    names = [*device.capacity, *(name for taken in device.consumes for name in taken.counters)]
    return frozenset(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def have_slices_in_common(one: Device, other: Device) -> bool:
    """Whether two devices of one GPU do; a device whose slices are not told has all of them."""
    mine, theirs = memory_slices(one), memory_slices(other)
    return not mine or not theirs or not mine.isdisjoint(theirs)

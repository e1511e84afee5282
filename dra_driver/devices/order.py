"""The order of devices in a pool, which is the order in which the scheduler tries them: it takes the first fit.

So what is least missed by others comes first:

* MIG devices before whole GPUs, small ones before large ones; of two that are equal otherwise, the one without
  the scarce media engines (1g.10gb before 1g.10gb+me);
* of the places for one profile on a GPU, the last before the first: the large profiles start at the first memory slice;
* whole GPUs with less memory before those with more;
* among these, GPUs of small NVLink islands before those of large ones, and each island as a block: a claim for
  a single GPU then breaks a lone GPU or an island already broken, and pairs and eights stay whole for those who
  ask for them;
* then by PCI address and name, so that the order never depends on the order of enumeration.

It is computed from the published form alone, so a device keeps its place when its hardware is gone.
"""

from typing import Any

from dra_driver.devices.model import Device
from dra_driver.quantity import Quantity

_NONE = Quantity.of(0)
_MEDIA = ("decoders", "encoders", "jpegEngines", "ofaEngines")


def sort_key(device: Device) -> tuple[Any, ...]:
    """Sorts devices of one pool; keys of any two devices compare."""
    amounts = device.capacity.get
    memory, processors = amounts("memory", _NONE), amounts("multiprocessors", _NONE)
    place = (len(device.target.pci_address), device.target.pci_address)
    if device.target.kind != "gpu":
        media = sum(amounts(name, _NONE).nanos for name in _MEDIA)
        return (0, memory, processors, media, *place, -(device.target.start or 0), *natural(device.name))
    peers, clique = device.attributes.get("nvlinkPeers", 0), device.attributes.get("nvlinkClique", "")
    island = (len(clique), clique) if isinstance(clique, str) else (0, "")
    return (1, memory, peers if isinstance(peers, int) else 0, *island, *place, device.name)


def natural(name: str) -> tuple[int, str]:
    """Orders names that differ in a trailing number by that number: ...-9 before ...-10."""
    return len(name), name

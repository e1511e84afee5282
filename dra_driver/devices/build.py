"""From hardware facts to the devices of the node's pool: one pure function.

Called after every scan, it has no memory: the same facts give the same devices in the same order, so the
publisher sees a change only where there is one. It never raises for what the hardware says. What it could not
publish, or thinks somebody should know, comes back as notes.

What of a GPU is published is decided in `cut`, by its MIG mode, its MIG devices and the node configuration. Devices that
are made of the same hardware consume counters, so that no two of them are given out which overlap.

A GPU that does not answer is not published, unless a claim holds it (see `retained`).
"""

from collections.abc import Iterable, Iterator

from dra_driver.config.node import DEFAULT, NodeConfig
from dra_driver.devices.cut import cut
from dra_driver.devices.gpu import gpu_device
from dra_driver.devices.mig import mig_device, partition_device
from dra_driver.devices.model import CounterSet, Device, DeviceSet, HeldDevice, Note, NoteReason
from dra_driver.devices.names import DRIVER_NAME, gpu_name
from dra_driver.devices.order import sort_key
from dra_driver.devices.retained import retain
from dra_driver.inventory.model import Inventory
from dra_driver.inventory.topology import nvlink_cliques


def build_devices(
    inventory: Inventory,
    held: Iterable[HeldDevice] = (),
    *,
    driver_name: str = DRIVER_NAME,
    node: NodeConfig = DEFAULT,
) -> DeviceSet:
    """The devices to publish for a node with this hardware, these held devices and this configuration.

    `driver_name` is the domain of the taint keys. Names are unique; every device passes the API server's
    validation. Order: `order.sort_key`.
    """
    held = tuple(held)
    offered: dict[str, Device] = {}
    counter_sets: dict[str, CounterSet] = {}
    notes: list[Note] = []
    for device, remarks in _offers(inventory, held, node, counter_sets, notes):
        if device.name in offered:
            one, other = (twin.target.uuid or twin.target.gpu_uuid for twin in (offered[device.name], device))
            message = f"device {device.name} is offered once, though two are at its place: {one} and {other}"
            notes.append(Note(NoteReason.DUPLICATE, device.name, message))
            continue
        offered[device.name] = device
        notes += remarks
    kept = retain(offered.values(), tuple(counter_sets.values()), held, inventory, driver_name)
    return DeviceSet(
        devices=tuple(sorted(kept.devices, key=sort_key)),
        counter_sets=kept.counter_sets,
        notes=(*notes, *kept.notes),
    )


def _offers(
    inventory: Inventory,
    held: tuple[HeldDevice, ...],
    node: NodeConfig,
    counter_sets: dict[str, CounterSet],
    notes: list[Note],
) -> Iterator[tuple[Device, list[Note]]]:
    """All devices of all GPUs that answer, each with remarks; adds to the last two what is not of one device."""
    cliques = nvlink_cliques(inventory.gpus)
    for gpu in inventory.gpus:
        if gpu.fault is not None:
            message = f"GPU {gpu.uuid} at {gpu.pci_address} does not answer: {gpu.fault}"
            notes.append(Note(NoteReason.GPU_FAULT, gpu_name(gpu.pci_address), message))
            continue
        settings = node.of(gpu)
        offer = cut(gpu, settings.mig, [hold.device for hold in held])
        notes += offer.notes
        if offer.board is not None:
            remaining = offer.board.without(offer.taken)
            counter_sets.setdefault(remaining.name, remaining)
        if offer.whole:
            yield gpu_device(gpu, inventory, cliques.get(gpu.uuid), offer, settings.shares)
        for mig in offer.existing:
            yield mig_device(mig, gpu, inventory, offer, settings.shares)
        for place in offer.partitions:
            yield partition_device(place, gpu, inventory, offer, settings.shares)

"""From hardware facts to the devices of the node's pool: one pure function.

Called after every scan, it has no memory: the same facts give the same devices in the same order, so the
publisher sees a change only where there is one. It never raises for what the hardware says. What it could not
publish, or thinks somebody should know, comes back as notes.

* A GPU is published whole, or, in MIG mode, as its MIG devices, never as both: they are the same memory.
* A GPU in MIG mode without MIG devices is not published: its memory cannot be used before somebody creates some.
* A GPU that does not answer is not published, unless a claim holds it (see `retained`).
"""

from collections.abc import Iterable

from dra_driver.devices.gpu import gpu_device
from dra_driver.devices.mig import mig_device
from dra_driver.devices.model import Device, DeviceSet, HeldDevice, Note, NoteReason
from dra_driver.devices.names import DRIVER_NAME, gpu_name
from dra_driver.devices.order import sort_key
from dra_driver.devices.retained import retain
from dra_driver.inventory.model import Gpu, Inventory
from dra_driver.inventory.topology import Clique, nvlink_cliques


def build_devices(
    inventory: Inventory, held: Iterable[HeldDevice] = (), *, driver_name: str = DRIVER_NAME
) -> DeviceSet:
    """The devices to publish for a node with this hardware and these held devices.

    `driver_name` is the domain of the taint keys. Names are unique; every device passes the API server's
    validation. Order: `order.sort_key`.
    """
    cliques = nvlink_cliques(inventory.gpus)
    offered: dict[str, Device] = {}
    notes: list[Note] = []
    for gpu in inventory.gpus:
        for device, remarks in _devices_of(gpu, inventory, cliques.get(gpu.uuid), notes):
            if device.name in offered:
                twins = f"{offered[device.name].target.uuid} and {device.target.uuid}"
                message = f"device {device.name} is offered once, though two are at its place: {twins}"
                notes.append(Note(NoteReason.DUPLICATE, device.name, message))
                continue
            offered[device.name] = device
            notes += remarks
    kept = retain(tuple(offered.values()), held, inventory, driver_name)
    return DeviceSet(
        devices=tuple(sorted(kept.devices, key=sort_key)),
        counter_sets=kept.counter_sets,
        notes=(*notes, *kept.notes),
    )


def _devices_of(
    gpu: Gpu, inventory: Inventory, clique: Clique | None, notes: list[Note]
) -> list[tuple[Device, list[Note]]]:
    name, where = gpu_name(gpu.pci_address), f"GPU {gpu.uuid} at {gpu.pci_address}"
    if gpu.fault is not None:
        notes.append(Note(NoteReason.GPU_FAULT, name, f"{where} does not answer: {gpu.fault}"))
        return []
    mig = gpu.mig
    if mig is not None and mig.pending != mig.enabled:
        mode = "enabled" if mig.pending else "disabled"
        message = f"MIG mode of {where} is {mode} after its next reset"
        notes.append(Note(NoteReason.MIG_PENDING, name, message))
    if mig is None or not (mig.enabled or mig.devices):
        return [gpu_device(gpu, inventory, clique)]
    if not mig.devices:
        message = (
            f"{where} is not published: it is in MIG mode and has no MIG devices; create some, or disable MIG"
        )
        notes.append(Note(NoteReason.MIG_EMPTY, name, message))
    return [mig_device(device, gpu, inventory) for device in mig.devices]

"""Devices that records hold, whatever became of their hardware.

A claim stays allocated while its Pod lives, and the scheduler counts a device, and the counters it takes, as used
only while a slice lists it. So a held device never leaves the pool:

* its hardware is there under its name: it is published as it is now, and takes the counters it took;
* else (lost, sick, replaced, cut into MIG devices, NVML away) it is published as it was recorded, with a taint that
  keeps new claims off it.

In the second case the hardware may still be there under another name: a GPU that a claim holds whole and that
somebody has put into MIG mode, the other way round, or a GPU that moved to another slot. Containers of that claim
keep device nodes (`/dev/nvidia0`, capability minors of a GPU instance whose id is used again) that would open
the new hardware. So a device that overlaps such a claim is held back, not merely tainted: a toleration must never
put two claims on the same memory. Both end with the claim.

MIG devices overlap where they have memory slices in common; a whole GPU overlaps everything on it. The GPU is
compared by UUID and by PCI address, since either may be what the stale container reaches.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dra_driver.devices.memory_slices import memory_slices
from dra_driver.devices.model import CounterSet, Device, HeldDevice, Note, NoteReason, Taint
from dra_driver.inventory.model import Inventory
from dra_driver.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Retained:
    """What remains of the offered devices, with the held ones among them."""

    devices: tuple[Device, ...]
    counter_sets: tuple[CounterSet, ...]
    notes: tuple[Note, ...]


def retain(
    offered: Sequence[Device], held: Iterable[HeldDevice], inventory: Inventory, driver_name: str
) -> Retained:
    """Reconcile what the hardware offers with what records hold."""
    current = {device.name: device for device in offered}
    # Several claims hold a device where some have admin access; their records agree on it but for its age.
    holds = {hold.device.name: hold for hold in sorted(held, key=lambda hold: hold.claim_uid, reverse=True)}
    kept: dict[str, Device] = {}
    lost: list[HeldDevice] = []
    notes: list[Note] = []
    for name, hold in sorted(holds.items()):
        device = current.get(name)
        if device is not None and device.target.uuid == hold.device.target.uuid:
            kept[name] = replace(device, consumes=hold.device.consumes or device.consumes)
            continue
        cause, text = _cause(hold.device, inventory)
        taint = Taint(f"{driver_name.lower()}/gpu-lost", cause, "NoSchedule")
        kept[name] = replace(hold.device, taints=(taint,))
        lost.append(hold)
        notes.append(Note(NoteReason.HELD_LOST, name, f"device {name} of claim {hold.claim} {text}"))
    for name, device in current.items():
        if name in kept:
            continue
        blocker = next((hold for hold in lost if _overlap(hold.device, device)), None)
        if blocker is None:
            kept[name] = device
        else:
            why = f"claim {blocker.claim} holds {blocker.device.name} on the same hardware"
            notes.append(Note(NoteReason.HELD_BACK, name, f"device {name} is not offered: {why}"))
    return Retained(tuple(kept.values()), _counter_sets(lost), tuple(notes))


def _cause(device: Device, inventory: Inventory) -> tuple[str, str]:
    """Why the hardware is not there as it was recorded: the taint's value, and the end of a sentence."""
    target = device.target
    gpu = inventory.gpu(target.gpu_uuid)
    if not inventory.available:
        return "unavailable", "cannot be checked: the NVIDIA driver does not answer"
    if gpu is None:
        if any(other.pci_address == target.pci_address for other in inventory.gpus):
            return "replaced", f"is gone: another GPU is at {target.pci_address}"
        return "missing", f"is gone: there is no GPU {target.gpu_uuid}"
    if gpu.fault is not None:
        return "fault", f"does not answer: {gpu.fault}"
    if gpu.pci_address != target.pci_address:
        return "moved", f"is gone: its GPU is at {gpu.pci_address} now"
    if target.kind == "gpu":
        return "mig-mode", "is gone: its GPU is in MIG mode now"
    return "missing", f"is gone: there is no MIG device {target.uuid}"


def _overlap(held: Device, offered: Device) -> bool:
    one, other = held.target, offered.target
    if one.gpu_uuid != other.gpu_uuid and one.pci_address != other.pci_address:
        return False
    mine, theirs = memory_slices(held), memory_slices(offered)
    return not mine or not theirs or not mine.isdisjoint(theirs)


def _counter_sets(lost: Iterable[HeldDevice]) -> tuple[CounterSet, ...]:
    """Counter sets for devices whose hardware offers none any more: just as large as what they take.

    A consumption of an unknown set makes schedulers ignore the whole pool.
    """
    totals: dict[str, dict[str, Quantity]] = {}
    for consumption in (entry for hold in lost for entry in hold.device.consumes):
        total = totals.setdefault(consumption.counter_set, {})
        for name, amount in consumption.counters.items():
            before = total.get(name)
            total[name] = amount if before is None else replace(amount, nanos=amount.nanos + before.nanos)
    return tuple(CounterSet(name, total) for name, total in sorted(totals.items()))

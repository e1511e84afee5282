"""Devices that records hold, whatever became of their hardware.

A claim stays allocated while its Pod lives, and the scheduler counts a device, and the counters it takes, as used
only while a slice lists it. So a held device never leaves the pool:

* its hardware is there under its name: it is published as it is now, but takes the counters it took, and is shared as it
  was: another node configuration comes into force for a device when no claim holds it;
* else (lost, sick, replaced, cut into MIG devices, NVML away) it is published as it was recorded, with a taint that
  keeps new claims off it.

In the second case the hardware may still be there under another name: a GPU that a claim holds whole and that
somebody has put into MIG mode, the other way round, or a GPU that moved to another slot. Containers of that claim
keep device nodes (`/dev/nvidia0`, capability minors of a GPU instance whose id is used again) that would open
the new hardware. So a device that overlaps such a claim is held back, not merely tainted: a toleration must never
put two claims on the same memory. Both end with the claim.

MIG devices overlap where they have memory slices in common; a whole GPU overlaps everything on it. The GPU is
compared by UUID and by PCI address, since either may be what the stale container reaches.

No counter is ever less than what held devices take of it, whatever the hardware says now: schedulers hold back every
device of the pool that uses counters while a single one is overdrawn. And a consumption of a set that is not there
makes them ignore the pool.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dra_driver.devices.memory_slices import have_slices_in_common
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
    offered: Iterable[Device],
    counter_sets: Iterable[CounterSet],
    held: Iterable[HeldDevice],
    inventory: Inventory,
    driver_name: str,
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
        if device is not None and device.target == hold.device.target:
            kept[name] = _as_held(device, hold.device)
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
    taken = [kept[name] for name in holds]
    return Retained(tuple(kept.values()), _counter_sets(counter_sets, taken), tuple(notes))


def _as_held(now: Device, held: Device) -> Device:
    """A device whose hardware is there, for which the scheduler counts what it was allocated as."""
    device = replace(now, consumes=held.consumes or now.consumes)
    if not held.allow_multiple_allocations:
        return device
    return replace(device, allow_multiple_allocations=True, capacity=held.capacity, policies=held.policies)


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
    if target.kind == "partition":
        return "missing", "is gone: its GPU has other MIG devices there, or cannot be cut so any more"
    return "missing", f"is gone: there is no MIG device {target.uuid}"


def _overlap(held: Device, offered: Device) -> bool:
    one, other = held.target, offered.target
    if one.gpu_uuid != other.gpu_uuid and one.pci_address != other.pci_address:
        return False
    return have_slices_in_common(held, offered)


def _counter_sets(offered: Iterable[CounterSet], held: Iterable[Device]) -> tuple[CounterSet, ...]:
    """The counter sets, raised to what held devices take where that is more."""
    totals = {counter_set.name: dict(counter_set.counters) for counter_set in offered}
    taken: dict[tuple[str, str], Quantity] = {}
    for consumption in (entry for device in held for entry in device.consumes):
        for name, amount in consumption.counters.items():
            key = consumption.counter_set, name
            before = taken.get(key)
            taken[key] = amount if before is None else replace(amount, nanos=amount.nanos + before.nanos)
    for (counter_set, name), amount in taken.items():
        total = totals.setdefault(counter_set, {})
        total[name] = max(amount, total.get(name, amount))
    return tuple(CounterSet(name, total) for name, total in sorted(totals.items()))

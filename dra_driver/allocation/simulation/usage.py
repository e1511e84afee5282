"""What is used of the devices and what is left, by model, with shares and partitions counted for what they are.

A partition is free while its counters suffice, so a whole GPU is not free beside one of its MIG devices that is
used. A device that may be shared is free while some of its memory is left, if it has any.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_driver.allocation import taints
from dra_driver.allocation.diagnosis.world import Object, World
from dra_driver.allocation.model import Device, DeviceId, Pool, nanos
from dra_driver.allocation.needs import usable
from dra_driver.allocation.nodes import node_name, selects
from dra_driver.allocation.simulation.model import Usage
from dra_driver.allocation.state import Allocated, CounterLedger
from dra_driver.selectors.reads import Read

_MEMORY = "memory"
_NANO = 10**9


@dataclass(slots=True)
class _Row:
    nodes: set[str] = field(default_factory=set)
    seen: set[DeviceId] = field(default_factory=set)
    used: int = 0
    free: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    left: int | None = None
    memory: int | None = None


def usage(world: World) -> tuple[Usage, ...]:
    """One line a model, by name. Devices that several nodes can use count once, for the first of them."""
    allocated = world.scene.snapshot.allocated
    ledger = CounterLedger(allocated)
    rows: defaultdict[str, _Row] = defaultdict(_Row)
    for node, pool, device in _devices(world):
        row = rows[model_of(device.id.driver, device.raw)]
        if device.id in row.seen:
            continue
        row.seen.add(device.id)
        row.nodes.add(node_name(node))
        row.used += allocated.holds(device.id)
        if not _is_open(node, device):
            continue
        if device.shareable:
            _share(row, device, allocated)
        if _is_free(pool, device, allocated, ledger):
            row.free[node_name(node)] += 1
    return tuple(_usage(model, row) for model, row in sorted(rows.items()))


def model_of(driver: str, device: Mapping[str, Any]) -> str:
    """What people call a device: the product, and of a MIG device the profile; else driver and type."""
    names = ("productName", "profile", "type")
    product, profile, kind = (Read("attributes", driver, name).shown(driver, device) for name in names)
    if product:
        return f"{product} {profile}" if profile else product
    return f"{driver} {kind}" if kind else driver


def _devices(world: World) -> Iterator[tuple[Object, Pool, Device]]:
    for node in world.nodes:
        for candidate in usable(world.scene.snapshot.slices.readable_pools(node)):
            per_device = candidate.part.spec.get("perDeviceNodeSelection")
            if not per_device or selects(candidate.device.raw, node):
                yield node, candidate.pool, candidate.device


def _is_open(node: Object, device: Device) -> bool:
    return not (node.get("spec") or {}).get("unschedulable") and taints.tolerated(
        device.raw.get("taints") or (), ()
    )


def _share(row: _Row, device: Device, allocated: Allocated) -> None:
    if _MEMORY in device.capacity:
        total = nanos(device.capacity[_MEMORY]["value"])
        row.memory = (row.memory or 0) + total // _NANO
        row.left = (row.left or 0) + (
            total - (allocated.capacity.get(device.id) or {}).get(_MEMORY, 0)
        ) // _NANO


def _is_free(pool: Pool, device: Device, allocated: Allocated, ledger: CounterLedger) -> bool:
    if device.id in allocated.devices:
        return False
    if device.shareable:
        used = allocated.capacity.get(device.id) or {}
        if any(nanos(entry["value"]) <= used.get(name, 0) for name, entry in device.capacity.items()):
            return False
        if device.id in allocated.shared:
            return True  # its first share paid for the counters
    if not device.consumes:
        return True
    fits = ledger.take(pool, device)
    if fits:
        ledger.give_back(pool, device)
    return fits


def _usage(model: str, row: _Row) -> Usage:
    free = sum(row.free.values())
    return Usage(
        model,
        len(row.nodes),
        len(row.seen),
        row.used,
        free,
        max(row.free.values(), default=0),
        row.left,
        row.memory,
    )

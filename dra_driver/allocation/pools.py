"""Slices of the cluster, indexed, and the pools that a node sees.

A pool counts only in its newest generation and only when all its slices are there. Slices with counters matter to
every node, since a device of the pool on any node may use them; so a pool can be visible to a node, and be
reported as incomplete to a request for all devices, although it has no device for the node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.model import Counters, Pool, PoolId, Slice, nanos
from dra_driver.allocation.nodes import node_name, selects


class SliceIndex:
    """The slices of a cluster by pool and by node; built once, read by many threads."""

    def __init__(self, slices: Iterable[Mapping[str, Any]]) -> None:
        self._by_pool: defaultdict[PoolId, list[Slice]] = defaultdict(list)
        self._by_node: defaultdict[str, list[Slice]] = defaultdict(list)
        self._elsewhere: list[Slice] = []  # whose nodes have to be looked at
        listed = [
            Slice(raw["metadata"]["name"], raw["spec"], position) for position, raw in enumerate(slices)
        ]
        for part in sorted(listed, key=lambda part: part.name):
            self._by_pool[part.pool].append(part)
            if part.spec.get("nodeName"):
                self._by_node[part.spec["nodeName"]].append(part)
            else:
                self._elsewhere.append(part)
        # Pools with counters that no node can use as they are; the others only matter where they have devices.
        self._troubled = [
            key
            for key, parts in self._by_pool.items()
            if any(part.has_counters for part in parts) and self._trouble(key)
        ]

    def _trouble(self, key: PoolId) -> bool:
        pool = self._pool(key, [part for part in self._by_pool[key] if part.has_counters])
        return pool is not None and not pool.usable

    def readable_pools(self, node: Mapping[str, Any]) -> list[Pool]:
        """As `pools`; none where a slice aborts every allocation."""
        try:
            return self.pools(node)
        except AllocationError:
            return []

    def pools(self, node: Mapping[str, Any]) -> list[Pool]:
        """The pools that the node sees, in the order in which they are used.

        AllocationError where a node selector of a slice makes no sense.
        """
        seen: dict[PoolId, list[Slice]] = {}
        for part in self._by_node.get(node_name(node), ()):
            seen.setdefault(part.pool, []).append(part)
        for part in self._elsewhere:
            if part.has_counters or _relevant(part, node):
                seen.setdefault(part.pool, []).append(part)
        for key in self._troubled:
            seen.setdefault(key, [])
        pools = []
        for key, parts in seen.items():
            shared = [part for part in self._by_pool[key] if part.has_counters and part not in parts]
            pool = self._pool(key, parts + shared)
            if pool is not None:
                pools.append(pool)
        return sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id))

    def _pool(self, key: PoolId, relevant: list[Slice]) -> Pool | None:
        generation = max(part.generation for part in relevant)
        current = sorted(
            (part for part in relevant if part.generation == generation), key=lambda part: part.name
        )
        everywhere, incomplete = tuple(current), False
        # Where slices disagree about their number, the scheduler believes the first that it comes across.
        first = min(current, key=lambda part: (not part.of_one_node, part.position))
        if len(current) != first.expected_slices:
            if any(part.generation > generation for part in self._by_pool[key]):
                return None  # what the node has is outdated
            everywhere = tuple(part for part in self._by_pool[key] if part.generation == generation)
            incomplete = len(everywhere) != first.expected_slices
        counters, invalid = _counters(everywhere)
        invalid = invalid or _contradiction(current, everywhere, counters)
        return Pool(key, tuple(current), everywhere, incomplete, invalid, counters)


def _relevant(part: Slice, node: Mapping[str, Any]) -> bool:
    try:
        if part.spec.get("perDeviceNodeSelection"):
            return any(selects(device.raw, node) for device in part.devices)
        return selects(part.spec, node)
    except AllocationError as error:
        raise AllocationError(f"slice {part.name}: {error}") from error


def _counters(parts: Iterable[Slice]) -> tuple[Counters, str | None]:
    counters: Counters = {}
    for part in parts:
        for entry in part.spec.get("sharedCounters") or ():
            if entry["name"] in counters:
                return counters, f"duplicate counter set {entry['name']}"
            counters[entry["name"]] = {
                name: nanos(counter["value"]) for name, counter in (entry.get("counters") or {}).items()
            }
    return counters, None


def _contradiction(current: Iterable[Slice], everywhere: Iterable[Slice], counters: Counters) -> str | None:
    names = Counter(device.id.device for part in current for device in part.devices)
    for name, times in names.items():
        if times > 1:
            return f"duplicate device name {name}"
    for part in everywhere:
        for device in part.devices:
            for name, taken in device.consumes.items():
                if name not in counters:
                    return f"counter set {name} not found"
                for counter in taken:
                    if counter not in counters[name]:
                        return f"counter {counter} not found in counter set {name}"
    return None

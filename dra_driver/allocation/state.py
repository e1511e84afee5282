"""What is taken: by claims allocated before, and by the attempt in progress.

Results for admin access take nothing. Results with a share id take capacity, not the device.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from dra_driver.allocation.model import Counters, Device, DeviceId, Pool, PoolId, nanos


class Allocated:
    """What the allocated claims of a cluster take."""

    def __init__(self, claims: Iterable[Mapping[str, Any]]) -> None:
        self.devices: set[DeviceId] = set()
        self.shared: set[DeviceId] = set()
        self.capacity: defaultdict[DeviceId, dict[str, int]] = defaultdict(dict)
        for claim in claims:
            allocation = (claim.get("status") or {}).get("allocation") or {}
            for result in (allocation.get("devices") or {}).get("results") or ():
                self._add(result)

    def _add(self, result: Mapping[str, Any]) -> None:
        if result.get("adminAccess"):
            return
        device = DeviceId(result["driver"], result["pool"], result["device"])
        if not result.get("shareID"):
            self.devices.add(device)
            return
        self.shared.add(device)
        used = self.capacity[device]
        for name, amount in (result.get("consumedCapacity") or {}).items():
            used[name] = used.get(name, 0) + nanos(amount)

    def holds(self, device: DeviceId) -> bool:
        return device in self.devices or device in self.shared


class CounterLedger:
    """What is left of the counters of each pool during one attempt."""

    def __init__(self, allocated: Allocated) -> None:
        self._allocated = allocated
        self._left: dict[PoolId, Counters] = {}
        self._overdrawn: set[PoolId] = set()

    def take(self, pool: Pool, device: Device) -> bool:
        """Charge the device's counters; False, and nothing charged, where they do not suffice.

        A counter of the pool that is negative already, since its total was lowered under its use, blocks every
        device that uses counters there.
        """
        if not self.suffice(pool, device):
            return False
        self._charge(self.left(pool), device, -1)
        return True

    def suffice(self, pool: Pool, device: Device) -> bool:
        """Whether `take` would charge the device's counters."""
        if not device.consumes:
            return True
        left = self.left(pool)
        return pool.id not in self._overdrawn and all(
            left[name][counter] >= amount
            for name, counters in device.consumes.items()
            for counter, amount in counters.items()
        )

    def amounts(self) -> Hashable:
        """What is left, as far as it was asked for; equal for equal amounts."""
        return frozenset(
            (pool, name, *counters.values())
            for pool, left in self._left.items()
            for name, counters in left.items()
        )

    def left(self, pool: Pool) -> Counters:
        """What is left of the counters of a pool; not to be changed."""
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = self._available(pool)
            if any(amount < 0 for counters in left.values() for amount in counters.values()):
                self._overdrawn.add(pool.id)
        return left

    def give_back(self, pool: Pool, device: Device) -> None:
        self._charge(self.left(pool), device, 1)

    def _available(self, pool: Pool) -> Counters:
        left = {name: dict(counters) for name, counters in pool.counters.items()}
        for part in pool.all_slices:
            for device in part.devices:
                if self._allocated.holds(device.id):
                    self._charge(left, device, -1)
        return left

    @staticmethod
    def _charge(left: Counters, device: Device, sign: int) -> None:
        for name, counters in device.consumes.items():
            for counter, amount in counters.items():
                left[name][counter] += sign * amount

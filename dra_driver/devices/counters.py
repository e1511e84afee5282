"""The counters of a GPU that is cut on demand: what keeps the scheduler from giving out what does not fit together.

Names and amounts are those of the official driver: an amount of each kind of hardware, and one counter for each memory
slice, so that devices exclude each other by their place and not just by their size. Added are `compute-slices`, which
the hardware counts too, and `instances-<profile id>` for a profile of which there may be fewer than all that
would let there be. So counters say what `inventory.mig_rules` says, and what the scheduler gives, Prepare can make.

Totals are the most that any profile has. MIG devices that exist without a claim are taken out of the totals, rather
than consume them: they take their part of the GPU whether they are allocated or not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dra_driver.devices.model import CounterConsumption, CounterSet
from dra_driver.devices.names import gpu_name
from dra_driver.inventory.mig_rules import Place
from dra_driver.inventory.model import Gpu, MigProfile
from dra_driver.quantity import Quantity
from dra_driver.resource.limits import MAX_COUNTERS

MEMORY_SLICE = "memory-slice-"
_MEMORY = "memory"
_AMOUNTS = {
    _MEMORY: "memory_bytes",
    "multiprocessors": "multiprocessors",
    "copy-engines": "copy_engines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpeg-engines": "jpeg_engines",
    "ofa-engines": "ofa_engines",
    "compute-slices": "compute_slices",
}


@dataclass(frozen=True, slots=True)
class Board:
    """All that there is to cut a GPU from; amounts by counter."""

    counter_set: str
    totals: dict[str, int]

    @property
    def is_publishable(self) -> bool:
        return 0 < len(self.totals) <= MAX_COUNTERS

    def of(self, place: Place) -> CounterConsumption:
        """What a MIG device there consumes."""
        return CounterConsumption(self.counter_set, _quantities(self._amounts(place)))

    def all(self) -> CounterConsumption:
        """What the whole GPU consumes."""
        return CounterConsumption(self.counter_set, _quantities(self.totals))

    def without(self, places: Iterable[Place]) -> CounterSet:
        """The counter set of what is left beside these MIG devices."""
        left = dict(self.totals)
        for place in places:
            for name, amount in self._amounts(place).items():
                left[name] = max(0, left[name] - amount)
        return CounterSet(self.counter_set, _quantities(left))

    def _amounts(self, place: Place) -> dict[str, int]:
        profile, start = place
        amounts = {name: getattr(profile, field) for name, field in _AMOUNTS.items()}
        amounts |= {f"{MEMORY_SLICE}{index}": 1 for index in range(start, start + profile.size)}
        amounts[_instances(profile)] = 1
        return {name: amount for name, amount in amounts.items() if name in self.totals}


def board_of(gpu: Gpu, profiles: Sequence[MigProfile]) -> Board:
    """The board that `profiles` of `gpu` describe; all of them have placements."""
    totals = {name: max(getattr(p, field) for p in profiles) for name, field in _AMOUNTS.items()}
    slices = max(profile.placements[-1] + profile.size for profile in profiles)
    totals |= {f"{MEMORY_SLICE}{index}": 1 for index in range(slices)}
    totals |= {
        _instances(profile): profile.max_instances for profile in profiles if _needs_count(profile, totals)
    }
    return Board(f"{gpu_name(gpu.pci_address)}-counters", totals)


def _needs_count(profile: MigProfile, totals: dict[str, int]) -> bool:
    """Whether neither the places nor an amount alone limit the instances of a profile to as many as there may be."""
    beside_each_other, free = 0, 0
    for start in profile.placements:
        if start >= free:
            beside_each_other, free = beside_each_other + 1, start + profile.size
    amounts = ((totals[name], getattr(profile, field)) for name, field in _AMOUNTS.items())
    most = min([beside_each_other, *(total // amount for total, amount in amounts if amount)])
    return bool(most > profile.max_instances)


def _instances(profile: MigProfile) -> str:
    return f"instances-{profile.id}"


def _quantities(amounts: dict[str, int]) -> dict[str, Quantity]:
    return {
        name: Quantity.of_bytes(amount) if name == _MEMORY else Quantity.of(amount)
        for name, amount in amounts.items()
    }

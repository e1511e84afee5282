"""Which counters of its pool a device lacks, and who uses them.

A partition lacks several counters at once, and one sentence has to do. Counters of which there is one, such as
memory-slice-3 of a GPU, say more than amounts: they are the place, and somebody has it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dra_driver.allocation.explanation.model import Blocker, Holder, Kind
from dra_driver.allocation.explanation.scene import Scene
from dra_driver.allocation.explanation.wording import shown, who
from dra_driver.allocation.model import Counters, Device, Pool, nanos
from dra_driver.quantity import Quantity

_ONE = nanos(1)
_MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class _Short:
    """A counter with less left than the device needs, in nano-units."""

    counter_set: str
    counter: str
    needs: int
    left: int


def short_counters(scene: Scene, left: Counters, pool: Pool, device: Device) -> Iterator[Blocker]:
    """What the device lacks of what is left of its pool's counters; nothing where they suffice."""
    short = [
        _Short(name, counter, amount, left[name][counter])
        for name, needs in device.consumes.items()
        for counter, amount in needs.items()
        if amount > left[name][counter]
    ]
    places = [one for one in short if pool.counters[one.counter_set][one.counter] == one.needs == _ONE]
    if places:
        same = [one for one in places if one.counter_set == places[0].counter_set]
        yield _taken(same, _users(scene, pool, same))
    elif short:
        yield _amount(short[0], pool, _users(scene, pool, short[:1]))
    else:
        yield from _overdrawn(left)


def _taken(places: list[_Short], holders: tuple[Holder, ...]) -> Blocker:
    names = [one.counter for one in places]
    few = (
        names
        if len(names) <= _MAX_NAMES
        else [*names[: _MAX_NAMES - 1], f"{len(names) - _MAX_NAMES + 1} more"]
    )
    listed = " and ".join(filter(None, (", ".join(few[:-1]), few[-1])))
    text = f"{places[0].counter_set}: {listed} {'is' if len(names) == 1 else 'are'} taken by {who(holders)}"
    return Blocker(Kind.COUNTER, text, holders=holders)


def _amount(one: _Short, pool: Pool, holders: tuple[Holder, ...]) -> Blocker:
    written = _written(pool, one)
    text = (
        f"counter {one.counter} of {one.counter_set} is short by {shown(one.needs - one.left, written)}:"
        f" needs {shown(one.needs, written)}, {shown(one.left, written)} is left"
    )
    return Blocker(Kind.COUNTER, text + (f" beside {who(holders)}" if holders else ""), holders=holders)


def _overdrawn(left: Counters) -> Iterator[Blocker]:
    for name, counters in left.items():
        for counter, amount in counters.items():
            if amount < 0:
                text = f"counter {counter} of {name} is overdrawn, which blocks its whole pool"
                yield Blocker(Kind.COUNTER, text)
                return


def _users(scene: Scene, pool: Pool, short: Iterable[_Short]) -> tuple[Holder, ...]:
    """Who has devices that use one of these counters."""
    devices = [device for part in pool.all_slices for device in part.devices]
    found: dict[Holder, None] = {}
    for one in short:
        for device in devices:
            if one.counter in device.consumes.get(one.counter_set, ()):
                found.update(dict.fromkeys(scene.holders.get(device.id, ())))
    return tuple(found)


def _written(pool: Pool, one: _Short) -> Quantity:
    """The counter's total as its slice writes it: its notation is what people know it by."""
    for part in pool.all_slices:
        for entry in part.spec.get("sharedCounters") or ():
            if entry["name"] == one.counter_set:
                return Quantity.parse(str(entry["counters"][one.counter]["value"]))
    return Quantity.of(0)

"""A node's devices as the contents of its slices. Pure.

Counter sets come first, in slices of their own (a slice holds devices or counter sets, not both), so that the
publisher learns whether the API server keeps counters before it writes a device that needs them. Devices keep
their order, which is the order in which the scheduler tries them. A node without devices has one empty slice:
an empty pool is told from a driver that is not there.

What the API server would refuse never leaves: a value (attribute, capacity) is withheld alone where that mends
its device, otherwise the device is, and so is a shared one without a capacity that its shares are counted by; the others
are not touched. Each is reported, since somebody may look for it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_driver.devices.model import CounterSet, Device, DeviceSet
from dra_driver.resource.limits import MAX_COUNTER_SETS, MAX_DEVICES, MAX_DEVICES_WITH_EXTRAS
from dra_driver.resource.slices import needs_small_slice
from dra_driver.resource.validation import validate

_VALUE = re.compile(r"^spec\.devices\[0\]\.(attributes|capacity)\[(.+?)\](?:\.|$)")
_ENVELOPE: Mapping[str, Any] = {
    "driver": "driver",
    "nodeName": "node",
    "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
}


@dataclass(frozen=True, slots=True)
class Content:
    """What one slice carries: devices, or counter sets, or nothing; as resource.k8s.io/v1 writes them."""

    devices: tuple[dict[str, Any], ...] = ()
    counter_sets: tuple[dict[str, Any], ...] = ()

    def as_spec(self) -> dict[str, Any]:
        """The part of a slice's spec; absent is not the same as empty beside the other list."""
        if self.counter_sets:
            return {"sharedCounters": list(self.counter_sets)}
        return {"devices": list(self.devices)} if self.devices else {}


@dataclass(frozen=True, slots=True)
class Withheld:
    """Something that is not published, and why."""

    name: str  # of the device or counter set
    part: str  # "" for all of it, or such as "attributes[productName]"
    reason: str

    def __str__(self) -> str:
        return f"{self.part} of {self.name}: {self.reason}" if self.part else f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Packed:
    """The slices' contents by index, never none of them, and what is missing from them."""

    contents: tuple[Content, ...]
    withheld: tuple[Withheld, ...] = ()


def pack(devices: DeviceSet, *, counters: bool = True, refused: Mapping[str, str] | None = None) -> Packed:
    """Pack `devices`, without those that the server `refused` (name: reason).

    `counters=False` is for a server that keeps no counters: a whole GPU is published without them, and what
    would share it is not, as nothing would keep the scheduler from giving out both.
    """
    withheld: list[Withheld] = []
    sets = _sound_sets(devices.counter_sets, withheld) if counters else []
    known = {entry["name"]: entry["counters"].keys() for entry in sets}
    entries: list[dict[str, Any]] = []
    taken: set[str] = set()
    for device in devices:
        reason = (refused or {}).get(device.name) or _obstacle(device, known, counters=counters)
        if device.name in taken:
            reason = "a device before it has the same name"
        if reason:
            withheld.append(Withheld(device.name, "", reason))
            continue
        entry = device.as_dict()
        if not counters:
            entry.pop("consumesCounters", None)
        sound = _sound(entry, withheld)
        if sound is not None:
            taken.add(device.name)
            entries.append(sound)
    contents = [Content(counter_sets=tuple(part)) for part in _chunks(sets)]
    contents += [Content(devices=tuple(part)) for part in _split(entries)]
    return Packed(tuple(contents) or (Content(),), tuple(withheld))


def _obstacle(device: Device, known: Mapping[str, Iterable[str]], *, counters: bool) -> str | None:
    """Why `device` cannot be published beside the counter sets that are."""
    if not counters:
        if device.consumes and device.target.kind != "gpu":
            return "the API server keeps no counters, so it could be given out together with its GPU"
        return None
    for consumption in device.consumes:
        if consumption.counter_set not in known:
            return f"its counter set {consumption.counter_set} is not published"
        missing = sorted(set(consumption.counters) - set(known[consumption.counter_set]))
        if missing:
            return f"counter set {consumption.counter_set} has no {missing[0]}"
    return None


def _sound_sets(sets: Sequence[CounterSet], withheld: list[Withheld]) -> list[dict[str, Any]]:
    sound: dict[str, dict[str, Any]] = {}
    for counter_set in sets:
        entry = counter_set.as_dict()
        problems = _problems({"sharedCounters": [entry]})
        if counter_set.name in sound:
            problems = ["a counter set before it has the same name"]
        if problems:
            withheld.append(Withheld(counter_set.name, "", problems[0]))
        else:
            sound[counter_set.name] = entry
    return list(sound.values())


def _sound(entry: dict[str, Any], withheld: list[Withheld]) -> dict[str, Any] | None:
    """`entry` without the values that make it invalid; None where that does not mend it."""
    dropped: list[Withheld] = []
    for problem in validate(_slice({"devices": [entry]})):
        value = _VALUE.match(problem.path)
        if value is None or value[2] not in entry[value[1]]:
            continue
        if value[1] == "capacity" and entry.get("allowMultipleAllocations"):
            continue  # it is what limits how often the device is given out
        part = {key: content for key, content in entry[value[1]].items() if key != value[2]}
        entry = {**entry, value[1]: part}
        dropped.append(Withheld(entry["name"], f"{value[1]}[{value[2]}]", problem.message))
    problems = _problems({"devices": [entry]})
    if problems:
        withheld.append(Withheld(str(entry["name"]), "", problems[0]))
        return None
    withheld += dropped
    return entry


def _problems(content: Mapping[str, Any]) -> list[str]:
    return [str(problem) for problem in validate(_slice(content))]


def _slice(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice"},
        "spec": {**_ENVELOPE, **content},
    }


def _chunks(sets: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(sets), MAX_COUNTER_SETS):
        yield sets[start : start + MAX_COUNTER_SETS]


def _split(entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Full slices in order: 128 devices, or 64 where one of them has taints or counters."""
    part: list[dict[str, Any]] = []
    small = False
    for entry in entries:
        would_be_small = small or needs_small_slice(entry)
        if len(part) >= (MAX_DEVICES_WITH_EXTRAS if would_be_small else MAX_DEVICES):
            yield part
            part, would_be_small = [], needs_small_slice(entry)
        part.append(entry)
        small = would_be_small
    if part:
        yield part

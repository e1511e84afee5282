"""Slices, pools and devices as the search needs them; read once from the API objects, then never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from dra_driver.quantity import Quantity
from dra_driver.selectors import Device as DeviceValue
from dra_driver.selectors import device_value
from dra_driver.selectors.device import is_readable


class PoolId(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


Counters = dict[str, dict[str, int]]  # counter set -> counter -> amount in nano-units


@dataclass(frozen=True)
class Device:
    """One device of a slice; `raw` is the API's device."""

    id: DeviceId
    raw: Mapping[str, Any]

    @cached_property
    def value(self) -> DeviceValue:
        """What selectors see; EvaluationError where an attribute cannot be read, or is a list."""
        return device_value(self.id.driver, self.raw)

    @cached_property
    def readable(self) -> bool:
        """Whether `value` can be read and has no lists."""
        return is_readable(self.raw)

    @cached_property
    def shareable(self) -> bool:
        return bool(self.raw.get("allowMultipleAllocations"))

    @cached_property
    def consumes(self) -> Counters:
        """What the device takes from the counter sets of its pool."""
        taken: Counters = {}
        for entry in self.raw.get("consumesCounters") or ():
            counters = taken.setdefault(entry["counterSet"], {})
            for name, counter in (entry.get("counters") or {}).items():
                counters[name] = counters.get(name, 0) + nanos(counter["value"])
        return taken

    @cached_property
    def capacity(self) -> Mapping[str, Mapping[str, Any]]:
        return self.raw.get("capacity") or {}

    def attribute(self, name: str) -> tuple[str, Any] | None:
        """(type, value) of the attribute `name`, which has a domain; bare ids are in the driver's domain."""
        attributes = self.raw.get("attributes") or {}
        found = attributes.get(name)
        if found is None:
            domain, _, identifier = name.partition("/")
            found = attributes.get(identifier) if domain == self.id.driver else None
        return next(iter(found.items()), None) if found else None


@dataclass(frozen=True)
class Slice:
    """A ResourceSlice; `spec` is the API's, `position` its place in the list that it came in."""

    name: str
    spec: Mapping[str, Any]
    position: int = 0

    @cached_property
    def pool(self) -> PoolId:
        return PoolId(self.spec["driver"], self.spec["pool"]["name"])

    @cached_property
    def generation(self) -> int:
        return int(self.spec["pool"].get("generation", 0))

    @cached_property
    def expected_slices(self) -> int:
        """How many slices the pool has, as this one says."""
        return int(self.spec["pool"]["resourceSliceCount"])

    @cached_property
    def has_counters(self) -> bool:
        return bool(self.spec.get("sharedCounters"))

    @cached_property
    def of_one_node(self) -> bool:
        """Whether it matters to one node only: counters may be used from every node."""
        return bool(self.spec.get("nodeName")) and not self.has_counters

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        return tuple(Device(DeviceId(*self.pool, raw["name"]), raw) for raw in self.spec.get("devices") or ())


@dataclass(frozen=True)
class Pool:
    """A pool as one node sees it: the slices of its newest generation that matter to the node.

    `incomplete` while slices are missing, `invalid` (why) when they contradict each other; no device of such a
    pool may be allocated. `all_slices` also has those for other nodes: their allocated devices use counters too.
    """

    id: PoolId
    slices: tuple[Slice, ...]
    all_slices: tuple[Slice, ...]
    incomplete: bool = False
    invalid: str | None = None
    counters: Counters = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        return not self.incomplete and self.invalid is None

    @cached_property
    def has_binding_conditions(self) -> bool:
        return any(device.raw.get("bindingConditions") for part in self.slices for device in part.devices)


def nanos(value: Any) -> int:
    """A quantity of the API in nano-units."""
    return Quantity.parse(str(value)).nanos

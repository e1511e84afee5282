"""The attributes and capacities of one device while they are put together.

One value that the API server refuses would cost the node its whole slice, so each is judged before it is taken:
what cannot be published is left out with a note, and the device goes on without it. Unknown (None, empty) is
left out without one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from dra_driver.config.node import Shares
from dra_driver.devices.model import (
    AttributeValue,
    CounterConsumption,
    Device,
    Note,
    NoteReason,
    Target,
    Version,
)
from dra_driver.devices.shares import SHARES, obstacle_to, request_policies
from dra_driver.quantity import Quantity
from dra_driver.resource.limits import MAX_ATTRIBUTE_LENGTH, MAX_ATTRIBUTES_AND_CAPACITIES
from dra_driver.resource.names import size
from dra_driver.versions import is_semver

PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NUMA_NODE = "resource.kubernetes.io/numaNode"
MEMORY_SLICE = "memorySlice"

# What k8s.io/dynamic-resource-allocation/deviceattribute writes; other drivers compare with it. It has no room for
# PCI domains above ffff.
_STANDARD = {
    PCI_BUS_ID: re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"),
    PCIE_ROOT: re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}"),
}
_INT64 = range(-(2**63), 2**63)


@dataclass(slots=True)
class Form:
    """A device in the making."""

    device: str
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    capacity: dict[str, Quantity] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def attribute(self, name: str, value: AttributeValue | None) -> None:
        if value is None or value == "":
            return
        if objection := _objection(name, value):
            self._drop(f"attribute {name}", objection)
        else:
            self.attributes[name] = value

    def version(self, name: str, text: str | None, raw: str | None) -> None:
        """A version attribute: `text` is what was made of the `raw` string, None where that failed."""
        if raw:
            self.attribute(name, Version(raw if text is None else text))

    def count(self, name: str, value: int | None) -> None:
        """A capacity that is a number of things."""
        self._measure(name, value, Quantity.of)

    def bytes(self, name: str, value: int | None) -> None:
        """A capacity in bytes. Zero is unknown: some integrated GPUs report it."""
        self._measure(name, value or None, Quantity.of_bytes)

    def device_of(
        self, target: Target, *, shares: Shares = "none", consumes: tuple[CounterConsumption, ...] = ()
    ) -> Device:
        """The device as it is published."""
        objection = obstacle_to(self.capacity, shares)
        if objection is not None:
            message = f"device {self.device} is offered to one claim at a time: {objection}"
            self.notes.append(Note(NoteReason.NOT_SHARED, self.device, message))
            shares = "none"
        if isinstance(shares, int):
            self.count(SHARES, shares)
        self._fit()
        return Device(
            self.device,
            target,
            self.attributes,
            self.capacity,
            consumes=consumes,
            allow_multiple_allocations=shares != "none",
            policies={} if shares == "none" else request_policies(self.capacity, shares),
        )

    def _fit(self) -> None:
        """Keep to the number of values that a device may have. Memory slices go first, all of them:

        some of them would read as a smaller placement.
        """
        if len(self.attributes) + len(self.capacity) > MAX_ATTRIBUTES_AND_CAPACITIES:
            self.capacity = {n: q for n, q in self.capacity.items() if not n.startswith(MEMORY_SLICE)}
            self._drop(f"capacity {MEMORY_SLICE}<i>", f"it makes more than {MAX_ATTRIBUTES_AND_CAPACITIES}")

    def _measure(self, name: str, value: int | None, quantity: Callable[[int], Quantity]) -> None:
        if value is None:
            return
        if value not in _INT64 or value < 0:
            self._drop(f"capacity {name}", f"{value} is no amount")
        else:
            self.capacity[name] = quantity(value)

    def _drop(self, what: str, objection: str) -> None:
        message = f"device {self.device} is published without {what}: {objection}"
        self.notes.append(Note(NoteReason.VALUE_DROPPED, self.device, message))


def _objection(name: str, value: AttributeValue) -> str | None:
    """Why no API server, or no reader, would take the value."""
    match value:
        case bool():
            return None
        case int():
            return None if value in _INT64 else f"{value} does not fit into 64 bits"
        case Version(text):
            if not is_semver(text):
                return f"{text!r} is no semantic version"
        case str() as text:
            pattern = _STANDARD.get(name)
            if pattern and not pattern.fullmatch(text):
                return f"{text!r} is not of the standard form {pattern.pattern}"
    if any("\ud800" <= character <= "\udfff" for character in text):
        # It would come back from the server as another text, and be published again and again.
        return f"{text!r} is not Unicode"
    if size(text) > MAX_ATTRIBUTE_LENGTH:
        return f"{text!r} is longer than {MAX_ATTRIBUTE_LENGTH} bytes"
    return None

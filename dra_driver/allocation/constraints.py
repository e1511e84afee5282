"""matchAttribute and distinctAttribute, as state that grows with each device and can be taken back.

Kubernetes keys distinctAttribute by request name, so of a request with several devices only the last value is
remembered; this is kept, since the answers must agree.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.model import Device

Undo = Callable[[], None]


class Constraint(Protocol):
    """A rule over the devices of some requests of a claim."""

    def add(self, request: str, subrequest: str | None, device: Device) -> Undo | None:
        """Take the device in; what takes it back, or None where the rule does not allow it."""
        ...

    def state(self) -> Hashable:
        """What the devices so far mean for the next; equal where they mean the same."""
        ...


def make(entry: Mapping[str, Any], claim: str, index: int, *, lists: bool) -> Constraint:
    """The constraint of a claim's entry; `lists`: whether attributes may be lists of values."""
    requests = frozenset(entry.get("requests") or ())
    if entry.get("matchAttribute"):
        return _Match(requests, entry["matchAttribute"], lists=lists)
    if entry.get("distinctAttribute"):
        return _Distinct(requests, entry["distinctAttribute"], lists=lists)
    raise AllocationError(
        f"claim {claim}, constraint #{index}: empty constraint (unsupported constraint type?)"
    )


def applies(requests: frozenset[str], request: str, subrequest: str | None) -> bool:
    """Whether a constraint over these requests, all where there are none, is about one of them."""
    if not requests or request in requests:
        return True
    return subrequest is not None and f"{request}/{subrequest}" in requests


def _nothing() -> None:
    """What takes back a device that a constraint did not look at."""


Values = frozenset[tuple[str, Any]]  # (type, value) of each, since 1 and "1" and True are different


def values_of(attribute: tuple[str, Any], *, lists: bool) -> Values:
    """The values of an attribute: one, or those of its list; none where lists are not known."""
    kind, value = attribute
    if not isinstance(value, list):
        return frozenset({(kind, value)})
    return frozenset((kind.removesuffix("s"), one) for one in value) if lists else frozenset()


class _Match:
    """There is a value that all devices have."""

    def __init__(self, requests: frozenset[str], attribute: str, *, lists: bool) -> None:
        self._requests = requests
        self._attribute = attribute
        self._lists = lists
        self._shared: Values | None = None  # what the devices so far have in common; None before the first

    def add(self, request: str, subrequest: str | None, device: Device) -> Undo | None:
        if not applies(self._requests, request, subrequest):
            return _nothing
        attribute = device.attribute(self._attribute)
        if attribute is None:
            return None
        before, values = self._shared, values_of(attribute, lists=self._lists)
        shared = values if before is None else before & values
        if before is not None and not shared:
            return None
        self._shared = shared
        return lambda: self._restore(before)

    def state(self) -> Hashable:
        return self._shared

    def _restore(self, shared: Values | None) -> None:
        self._shared = shared


class _Distinct:
    """No value is had by two devices."""

    def __init__(self, requests: frozenset[str], attribute: str, *, lists: bool) -> None:
        self._requests = requests
        self._attribute = attribute
        self._lists = lists
        self._values: dict[str, Values] = {}

    def add(self, request: str, subrequest: str | None, device: Device) -> Undo | None:
        if not applies(self._requests, request, subrequest):
            return _nothing
        attribute = device.attribute(self._attribute)
        if attribute is None:
            return None
        values = values_of(attribute, lists=self._lists)
        if any(not values or values & others for others in self._values.values()):
            return None
        self._values[request] = values
        return lambda: self._remove(request)

    def state(self) -> Hashable:
        return frozenset(self._values.items())

    def _remove(self, request: str) -> None:
        self._values.pop(request, None)

"""matchAttribute and distinctAttribute, as state that grows with each device and can be taken back.

Kubernetes keys distinctAttribute by request name, so of a request with several devices only the last value is
remembered; this is kept, since the answers must agree.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.model import Device

Undo = Callable[[], None]


class Constraint(Protocol):
    """A rule over the devices of some requests of a claim."""

    def add(self, request: str, subrequest: str | None, device: Device) -> Undo | None:
        """Take the device in; what takes it back, or None where the rule does not allow it."""
        ...


def make(entry: Mapping[str, Any], claim: str, index: int) -> Constraint:
    """The constraint of a claim's entry."""
    requests = frozenset(entry.get("requests") or ())
    if entry.get("matchAttribute"):
        return _Match(requests, entry["matchAttribute"])
    if entry.get("distinctAttribute"):
        return _Distinct(requests, entry["distinctAttribute"])
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


class _Match:
    """All devices have the same value of an attribute."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._value: tuple[str, Any] | None = None
        self._devices = 0

    def add(self, request: str, subrequest: str | None, device: Device) -> Undo | None:
        if not applies(self._requests, request, subrequest):
            return _nothing
        value = device.attribute(self._attribute)
        if value is None or (self._devices and value != self._value):
            return None
        self._value = value
        self._devices += 1
        return self._remove

    def _remove(self) -> None:
        self._devices -= 1


class _Distinct:
    """Devices have different values of an attribute."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._values: dict[str, tuple[str, Any]] = {}

    def add(self, request: str, subrequest: str | None, device: Device) -> Undo | None:
        if not applies(self._requests, request, subrequest):
            return _nothing
        value = device.attribute(self._attribute)
        if value is None or value in self._values.values():
            return None
        self._values[request] = value
        return lambda: self._remove(request)

    def _remove(self, request: str) -> None:
        self._values.pop(request, None)

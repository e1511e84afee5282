"""Whether two slices' contents mean the same, and what the API server did not keep of one. Pure.

The server writes quantities its own way ("0.5Gi" comes back as "512Mi"), leaves out what is empty, and sets
`timeAdded` of taints. None of that is a difference; an update because of it would be answered the same way, for
ever. Everything else is one, the order of devices included.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.quantity import Quantity

_QUANTITY_MAPS = frozenset({"capacity", "counters"})
_QUANTITIES = frozenset({"value", "default", "min", "max", "step"})
_GATES = {
    "taints": "DRADeviceTaints",
    "sharedCounters": "DRAPartitionableDevices",
    "consumesCounters": "DRAPartitionableDevices",
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "capacity": "DRAConsumableCapacity",  # its requestPolicy
    "attributes": "DRAListTypeAttributes",  # lists
    "bindingConditions": "DRADeviceBindingConditions",
    "bindingFailureConditions": "DRADeviceBindingConditions",
    "bindsToNode": "DRADeviceBindingConditions",
}


@dataclass(frozen=True, slots=True)
class DroppedField:
    """A field that the API server does not store as it was sent."""

    field: str
    devices: tuple[str, ...]  # whose; empty for the counter sets

    @property
    def gate(self) -> str | None:
        """The feature gate of the API server that is probably off."""
        return _GATES.get(self.field)

    def __str__(self) -> str:
        whose = f" of {_some(self.devices)}" if self.devices else ""
        why = (
            f"feature gate {self.gate} seems to be off there"
            if self.gate
            else "for a reason it does not tell"
        )
        return f"the API server does not keep {self.field}{whose}: {why}"


def fingerprint(spec: Mapping[str, Any]) -> str:
    """A text that is equal for contents (`devices` and `sharedCounters` of a spec) that mean the same."""
    content = {name: spec.get(name) for name in ("devices", "sharedCounters")}
    return json.dumps(_normal(content), sort_keys=True, separators=(",", ":"))


def dropped_fields(sent: Mapping[str, Any], stored: Mapping[str, Any]) -> tuple[DroppedField, ...]:
    """What of the content `sent` is not, or is otherwise, in `stored`."""
    found: dict[str, list[str]] = {}
    if _normal(sent.get("sharedCounters")) != _normal(stored.get("sharedCounters")):
        found["sharedCounters"] = []
    ours, theirs = ((spec.get("devices") or []) for spec in (sent, stored))
    if [device["name"] for device in ours] != [device.get("name") for device in theirs]:
        found["devices"] = [device["name"] for device in ours]
    else:
        for device, other in zip(ours, theirs, strict=True):
            for name in _differing(_normal(device), _normal(other)):
                found.setdefault(name, []).append(device["name"])
    return tuple(DroppedField(name, tuple(devices)) for name, devices in sorted(found.items()))


def taint_key(taint: Mapping[str, Any]) -> tuple[str, str, str]:
    """What makes a taint that taint, whenever it was added."""
    return taint["key"], taint.get("value") or "", taint["effect"]


def _differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(left.keys() | right.keys()):
        if left.get(name) != right.get(name):
            yield name


def _normal(value: Any, *, quantities: bool = False) -> Any:
    """`value` with amounts for quantities, and without what is empty or of no meaning.

    `quantities` holds below a map of capacities or counters: `value` means an amount there, not in an attribute
    or a taint.
    """
    if isinstance(value, Mapping):
        result = {}
        for name, part in value.items():
            if quantities and name in _QUANTITIES:
                result[name] = _amount(part)
            elif quantities and name == "validValues":
                result[name] = [_amount(item) for item in part or ()]
            elif name == "taints":
                result[name] = [list(taint_key(taint)) for taint in part or ()]
            else:
                result[name] = _normal(part, quantities=quantities or name in _QUANTITY_MAPS)
        return {name: part for name, part in result.items() if part not in (None, [], {})}
    if isinstance(value, list | tuple):
        return [_normal(item, quantities=quantities) for item in value]
    return value


def _amount(text: Any) -> Any:
    try:
        return Quantity.parse(text).nanos
    except (TypeError, ValueError):
        return _normal(text, quantities=True)  # a counter or capacity named "value", or nonsense of others


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"

"""Feature gates that are off: their fields are dropped on the way in, silently, as the real server does.

A field stays if the old object already uses the feature. Dropping is not refusing: the answer is a success
without the field, which is why a publisher has to read what comes back.
"""

import copy
from collections.abc import Iterable
from typing import Any

from dra_driver.embedded.apiserver.kinds import (
    DEVICE_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    Kind,
)
from dra_driver.resource.problems import Problem, forbidden

_DEVICE = "spec.devices[]"
_REQUESTS = (
    "spec.devices.requests[].exactly",
    "spec.devices.requests[].firstAvailable[]",
)
_ALLOCATED = "status.allocation.devices.results[]"
_SLICE = "slice"
_CLAIM = "claim"
_CLASS = "class"
# Paths by kind: `[]` stands for every item of a list, `{}` for every value of a map.
_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "DRAAdminAccess": {_CLAIM: (f"{_REQUESTS[0]}.adminAccess", f"{_ALLOCATED}.adminAccess")},
    "DRAConsumableCapacity": {
        _SLICE: (f"{_DEVICE}.allowMultipleAllocations", f"{_DEVICE}.capacity{{}}.requestPolicy"),
        _CLAIM: (
            *(f"{request}.capacity" for request in _REQUESTS),
            f"{_ALLOCATED}.shareID",
            f"{_ALLOCATED}.consumedCapacity",
        ),
    },
    "DRADerivedAttributes": {_CLAIM: tuple(f"{request}.derivedAttributes" for request in _REQUESTS)},
    "DRADeviceBindingConditions": {
        _SLICE: tuple(
            f"{_DEVICE}.{name}" for name in ("bindsToNode", "bindingConditions", "bindingFailureConditions")
        ),
        _CLAIM: (f"{_ALLOCATED}.bindingConditions", f"{_ALLOCATED}.bindingFailureConditions"),
    },
    "DRADeviceCompatibilityGroups": {_SLICE: (f"{_DEVICE}.consumesCounters[].compatibilityGroups",)},
    "DRADeviceTaints": {
        _SLICE: (f"{_DEVICE}.taints",),
        _CLAIM: (*(f"{request}.tolerations" for request in _REQUESTS), f"{_ALLOCATED}.tolerations"),
    },
    "DRAExtendedResource": {_CLASS: ("spec.extendedResourceName",)},
    "DRAListTypeAttributes": {
        _SLICE: tuple(f"{_DEVICE}.attributes{{}}.{name}" for name in ("bools", "ints", "strings", "versions"))
    },
    "DRANodeAllocatableResources": {_SLICE: (f"{_DEVICE}.nodeAllocatableResources",)},
    "DRAOptionalNodeOperations": {
        _SLICE: ("spec.skipNodeOperations",),
        _CLAIM: (f"{_ALLOCATED}.skipNodeOperations",),
    },
    "DRAPartitionableDevices": {
        _SLICE: (
            "spec.sharedCounters",
            "spec.perDeviceNodeSelection",
            *(f"{_DEVICE}.{name}" for name in ("consumesCounters", "nodeName", "nodeSelector", "allNodes")),
        )
    },
    "DRAPrioritizedList": {_CLAIM: ("spec.devices.requests[].firstAvailable",)},
    "DRAResourceClaimDeviceStatus": {_CLAIM: ("status.devices",)},
}
# Alpha in 1.37, and so off unless somebody asks.
ALPHA = frozenset(
    {
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevicesType",
    }
)
# The one gate whose field is refused, not dropped (tagged forbidden-if-disabled in types.go).
_REFUSED = {"DRAPartitionableDevicesType": "partitionTypeAttribute"}
KNOWN = frozenset(_FIELDS) | frozenset(_REFUSED)


def drop_disabled(
    kind: Kind, obj: dict[str, Any], old: dict[str, Any] | None, disabled: Iterable[str]
) -> None:
    """Remove from `obj`, in place, the fields of disabled features that `old` does not use."""
    for feature in disabled:
        paths = _paths(kind, feature)
        if old is not None and any(_strip(copy.deepcopy(old), path) for path in paths):
            continue
        for path in paths:
            _strip(obj, path)


def refused(kind: Kind, obj: dict[str, Any], disabled: Iterable[str]) -> list[Problem]:
    """Problems for fields that may not be set while their gate is off."""
    if kind is not RESOURCE_SLICE:
        return []
    return [
        forbidden(f"spec.{_REFUSED[feature]}", f"may not be set when the {feature} feature gate is disabled")
        for feature in disabled
        if feature in _REFUSED and _REFUSED[feature] in obj.get("spec", {})
    ]


def _paths(kind: Kind, feature: str) -> tuple[str, ...]:
    fields = _FIELDS.get(feature, {})
    if kind is RESOURCE_SLICE:
        return fields.get(_SLICE, ())
    if kind is DEVICE_CLASS:
        return fields.get(_CLASS, ())
    if kind is RESOURCE_CLAIM:
        return fields.get(_CLAIM, ())
    if kind is RESOURCE_CLAIM_TEMPLATE:
        return tuple(f"spec.{path}" for path in fields.get(_CLAIM, ()) if path.startswith("spec."))
    return ()


def _strip(value: Any, path: str) -> bool:
    """Remove what `path` points at; whether there was anything."""
    head, _, rest = path.partition(".")
    name = head.rstrip("[]{}")
    if not isinstance(value, dict) or name not in value:
        return False
    if not rest:
        del value[name]
        return True
    below = value[name]
    if head.endswith("[]"):
        items = below if isinstance(below, list) else []
    elif head.endswith("{}"):
        items = list(below.values()) if isinstance(below, dict) else []
    else:
        items = [below]
    return any([_strip(item, rest) for item in items])  # noqa: C419 - every item is stripped, any() must not stop early

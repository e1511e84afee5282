"""Feature gates that are off: their fields are dropped on the way in, silently, as the real server does.

Those are here that are alpha in 1.37, or that older servers lack and the driver can do without. A field stays if
the old object already uses the feature. Dropping is not refusing: the answer is a success
without the field, which is why a publisher has to read what comes back.
"""

from collections.abc import Collection, Iterable
from typing import Any

from dra_driver.embedded.apiserver.kinds import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE, Kind
from dra_driver.resource.problems import Problem, forbidden

_DEVICE = "spec.devices[]"
_REQUESTS = (
    "spec.devices.requests[].exactly",
    "spec.devices.requests[].firstAvailable[]",
)
_ALLOCATED = "status.allocation.devices.results[]"
# Paths by kind: `[]` stands for every item of a list, `{}` for every value of a map.
_FIELDS: dict[str, dict[Kind, tuple[str, ...]]] = {
    "DRAConsumableCapacity": {
        RESOURCE_SLICE: (f"{_DEVICE}.allowMultipleAllocations", f"{_DEVICE}.capacity{{}}.requestPolicy"),
        RESOURCE_CLAIM: (
            *(f"{request}.capacity" for request in _REQUESTS),
            f"{_ALLOCATED}.shareID",
            f"{_ALLOCATED}.consumedCapacity",
        ),
    },
    "DRADerivedAttributes": {RESOURCE_CLAIM: tuple(f"{request}.derivedAttributes" for request in _REQUESTS)},
    "DRADeviceCompatibilityGroups": {RESOURCE_SLICE: (f"{_DEVICE}.consumesCounters[].compatibilityGroups",)},
    "DRADeviceTaints": {
        RESOURCE_SLICE: (f"{_DEVICE}.taints",),
        RESOURCE_CLAIM: (*(f"{request}.tolerations" for request in _REQUESTS), f"{_ALLOCATED}.tolerations"),
    },
    "DRAListTypeAttributes": {
        RESOURCE_SLICE: tuple(
            f"{_DEVICE}.attributes{{}}.{name}" for name in ("bools", "ints", "strings", "versions")
        )
    },
    "DRANodeAllocatableResources": {RESOURCE_SLICE: (f"{_DEVICE}.nodeAllocatableResources",)},
    "DRAOptionalNodeOperations": {
        RESOURCE_SLICE: ("spec.skipNodeOperations",),
        RESOURCE_CLAIM: (f"{_ALLOCATED}.skipNodeOperations",),
    },
    "DRAPartitionableDevices": {
        RESOURCE_SLICE: (
            "spec.sharedCounters",
            "spec.perDeviceNodeSelection",
            *(f"{_DEVICE}.{name}" for name in ("consumesCounters", "nodeName", "nodeSelector", "allNodes")),
        )
    },
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
_PARTITION_TYPE = "DRAPartitionableDevicesType"


def drop_disabled(
    kind: Kind, obj: dict[str, Any], old: dict[str, Any] | None, disabled: Iterable[str]
) -> None:
    """Remove from `obj`, in place, the fields of disabled features that `old` does not use."""
    for feature in disabled:
        paths = _paths(kind, feature)
        if old is not None and any(_places(old, path) for path in paths):
            continue
        for path in paths:
            for holder, name in _places(obj, path):
                del holder[name]


def refused(kind: Kind, obj: dict[str, Any], disabled: Collection[str]) -> list[Problem]:
    """Problems for fields that may not be set while their gate is off."""
    named = kind is RESOURCE_SLICE and "partitionTypeAttribute" in obj.get("spec", {})
    if not named or _PARTITION_TYPE not in disabled:
        return []
    text = f"may not be set when the {_PARTITION_TYPE} feature gate is disabled"
    return [forbidden("spec.partitionTypeAttribute", text)]


def _paths(kind: Kind, feature: str) -> tuple[str, ...]:
    fields = _FIELDS.get(feature, {})
    if kind is RESOURCE_CLAIM_TEMPLATE:
        claims = fields.get(RESOURCE_CLAIM, ())
        return tuple(f"spec.{path}" for path in claims if path.startswith("spec."))
    return fields.get(kind, ())


def _places(value: Any, path: str) -> list[tuple[dict[str, Any], str]]:
    """Where `path` ends in `value`: the objects that have its last name, with that name."""
    head, _, rest = path.partition(".")
    name = head.rstrip("[]{}")
    if not isinstance(value, dict) or name not in value:
        return []
    if not rest:
        return [(value, name)]
    below = value[name]
    if head.endswith("{}"):
        below = below.values()
    elif not head.endswith("[]"):
        below = [below]
    return [place for item in below for place in _places(item, rest)]

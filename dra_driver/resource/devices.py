"""One device of a ResourceSlice, and the counters that devices share."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from dra_driver.resource.limits import (
    MAX_ATTRIBUTE_LENGTH,
    MAX_ATTRIBUTE_VALUES,
    MAX_ATTRIBUTES_AND_CAPACITIES,
    MAX_BINDING_CONDITIONS,
    MAX_CONSUMED_COUNTER_SETS,
    MAX_COUNTERS,
    MAX_TAINTS,
)
from dra_driver.resource.names import check, label, label_key, qualified_name, size, subdomain
from dra_driver.resource.nodes import node_selector
from dra_driver.resource.policies import quantity, request_policy
from dra_driver.resource.problems import (
    Problem,
    child,
    duplicates,
    each,
    forbidden,
    index,
    invalid,
    key,
    not_found,
    required,
    too_long,
    too_many,
)
from dra_driver.resource.taints import taint
from dra_driver.versions import is_semver

# The server prints its internal struct when an attribute has several values.
_ATTRIBUTE_FIELDS = {
    "int": "IntValue",
    "bool": "BoolValue",
    "string": "StringValue",
    "version": "VersionValue",
    "ints": "IntValues",
    "bools": "BoolValues",
    "strings": "StringValues",
    "versions": "VersionValues",
}
_LISTS = ("ints", "bools", "strings", "versions")


def device(entry: Mapping[str, Any], path: str, *, node_selection: bool = False) -> Iterator[Problem]:
    """A device; `node_selection` tells that its slice leaves the choice of nodes to each device."""
    yield from check(child(path, "name"), entry.get("name") or "", label)
    attributes, capacity = entry.get("attributes") or {}, entry.get("capacity") or {}
    yield from _sizes(attributes, len(attributes) + len(capacity), path)
    where = child(path, "attributes")
    for name, value in attributes.items():
        yield from qualified_name(where, name)
        yield from _attribute(value or {}, key(where, name))
    where = child(path, "capacity")
    shared = bool(entry.get("allowMultipleAllocations"))
    for name, value in capacity.items():
        yield from qualified_name(where, name)
        yield from _capacity(value or {}, key(where, name), shared=shared)
    yield from each(entry.get("taints") or [], child(path, "taints"), MAX_TAINTS, taint)
    consumed, where = entry.get("consumesCounters") or [], child(path, "consumesCounters")
    take = partial(counter_set, "counterSet")
    yield from each(consumed, where, MAX_CONSUMED_COUNTER_SETS, take, unique="counterSet")
    yield from _nodes(entry, path, node_selection=node_selection)
    yield from binding_conditions(entry, path)
    yield from _node_allocatable(
        entry.get("nodeAllocatableResources") or {}, capacity, child(path, "nodeAllocatableResources")
    )


def counter_set(field: str, entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """A set of counters, or what a device takes of one, in any quantities; `field` has the name of the set."""
    if name := entry.get(field):
        yield from check(child(path, field), name, label)
    else:
        yield required(child(path, field))
    counters, where = entry.get("counters") or {}, child(path, "counters")
    if not counters:
        yield required(where)
    elif len(counters) > MAX_COUNTERS:
        yield too_many(where, len(counters), MAX_COUNTERS)
    else:
        for name in counters:
            yield from check(where, name, label)


def binding_conditions(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """What must hold before a Pod is bound: of a device in a slice, or of one in an allocation."""
    needed = entry.get("bindingConditions") or []
    failing = entry.get("bindingFailureConditions") or []
    lists = {"bindingConditions": needed, "bindingFailureConditions": failing}
    for field, names in lists.items():
        where = child(path, field)
        if len(names) > MAX_BINDING_CONDITIONS:
            yield too_many(where, len(names), MAX_BINDING_CONDITIONS)
            continue
        for position, name in enumerate(names):
            yield from check(index(where, position), name or "", label_key)
    for field, names in lists.items():
        yield from duplicates(child(path, field), names)
    for position, name in enumerate(failing):
        if name in needed:
            rule = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(index(child(path, "bindingFailureConditions"), position), name, rule)
    if failing and not needed:
        rule = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(child(path, "bindingConditions"), needed or None, rule)
    if needed and not failing:
        rule = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(child(path, "bindingFailureConditions"), failing or None, rule)


def without_lists(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """A slice whose attributes have single values only; the same object where that is so."""
    spec = obj.get("spec") or {}
    devices = spec.get("devices") or ()
    if not any(
        _has_list(value) for device in devices for value in ((device or {}).get("attributes") or {}).values()
    ):
        return obj
    stripped = [
        {**device, "attributes": {key: _stripped(value) for key, value in device["attributes"].items()}}
        if device and device.get("attributes")
        else device
        for device in devices
    ]
    return {**obj, "spec": {**spec, "devices": stripped}}


def _has_list(value: Mapping[str, Any] | None) -> bool:
    return any(name in _LISTS for name in value or ())


def _stripped(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {name: one for name, one in (value or {}).items() if name not in _LISTS}


def _sizes(attributes: Mapping[str, Any], total: int, path: str) -> Iterator[Problem]:
    if total > MAX_ATTRIBUTES_AND_CAPACITIES:
        rule = (
            f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        )
        yield invalid(path, total, rule)
    values = sum(
        sum(len((value or {}).get(name) or ()) for name in _LISTS) or 1 for value in attributes.values()
    )
    if values > MAX_ATTRIBUTE_VALUES:
        rule = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        yield invalid(path, values, rule)


def _attribute(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    present = {name: value for name, value in entry.items() if value is not None}
    for name, value in present.items():
        where = child(path, name)
        if name in _LISTS and not value:
            yield invalid(where, value, "must not be empty if specified")
        match name:
            case "string" | "version":
                yield from _text(value, where, version=name == "version")
            case "strings" | "versions":
                for position, item in enumerate(value):
                    yield from _text(item or "", index(where, position), version=name == "versions")
            case _:
                pass
    if not present:
        yield invalid(path, "", "exactly one value must be specified")
    elif len(present) > 1:
        dump = {field: present.get(name) for name, field in _ATTRIBUTE_FIELDS.items()}
        yield invalid(path, dump, "exactly one value must be specified")


def _text(value: str, path: str, *, version: bool) -> Iterator[Problem]:
    if version and not is_semver(value):
        yield invalid(path, value, "must be a string compatible with semver.org spec 2.0.0")
    if size(value) > MAX_ATTRIBUTE_LENGTH:
        yield too_long(path, MAX_ATTRIBUTE_LENGTH)


def _capacity(entry: Mapping[str, Any], path: str, *, shared: bool) -> Iterator[Problem]:
    policy = entry.get("requestPolicy")
    if policy is None:
        return
    where = child(path, "requestPolicy")
    if shared:
        yield from request_policy(policy, quantity(entry.get("value")), where)
    else:
        yield forbidden(where, "allowMultipleAllocations must be true")


def _nodes(entry: Mapping[str, Any], path: str, *, node_selection: bool) -> Iterator[Problem]:
    fields = [name for name in ("nodeName", "nodeSelector", "allNodes") if entry.get(name) is not None]
    if not node_selection:
        if fields:
            rule = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
                "is set to true in the ResourceSlice spec"
            )
            yield invalid(path, None, rule)
        return
    if entry.get("nodeName") == "":
        yield invalid(child(path, "nodeName"), "", "must not be empty")
    elif entry.get("nodeName"):
        yield from check(child(path, "nodeName"), entry["nodeName"], subdomain)
    if entry.get("nodeSelector") is not None:
        yield from node_selector(entry["nodeSelector"], child(path, "nodeSelector"))
    if entry.get("allNodes") is False:
        yield invalid(child(path, "allNodes"), value=False, detail="must be either unset or set to true")
    chosen = [f"`{name}`" for name in fields if entry[name] != "" and entry[name] is not False]
    rule = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
        "is set to true in the ResourceSlice spec"
    )
    if not chosen:
        yield required(path, rule)
    elif len(chosen) > 1:
        yield invalid(path, f"{{{', '.join(chosen)}}}", rule)


def _node_allocatable(
    entries: Mapping[str, Any], capacity: Mapping[str, Any], path: str
) -> Iterator[Problem]:
    for name, entry in entries.items():
        where = key(path, name)
        body = entry or {}
        if body.get("mapping") is None and body.get("overhead") is None:
            yield invalid(where, "", "at least one of mapping or overhead must be set")
        wanted = (body.get("mapping") or {}).get("capacityKey")
        if wanted is not None and wanted not in capacity:
            yield not_found(child(child(where, "mapping"), "capacityKey"), wanted)

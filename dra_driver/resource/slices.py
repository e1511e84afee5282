"""ResourceSlice: who offers what, and from which nodes it can be reached."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from dra_driver.resource.devices import counter_set, device
from dra_driver.resource.limits import MAX_COUNTER_SETS, MAX_DEVICES, MAX_DEVICES_WITH_EXTRAS
from dra_driver.resource.names import check, driver_name, pool_name, subdomain
from dra_driver.resource.nodes import node_selector
from dra_driver.resource.problems import (
    Problem,
    child,
    each,
    invalid,
    required,
)

_SELECTIONS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_LISTS = ("ints", "bools", "strings", "versions")


def resource_slice(obj: Mapping[str, Any]) -> Iterator[Problem]:
    path = "spec"
    spec = obj.get(path) or {}
    yield from driver_name(child(path, "driver"), spec.get("driver") or "")
    yield from _pool(spec.get("pool") or {}, child(path, "pool"))
    yield from _selection(spec, path)
    devices, sets = spec.get("devices"), spec.get("sharedCounters")
    # Presence counts, not length: `devices: []` beside counters is refused.
    if devices is not None and sets is not None:
        yield invalid(path, "", "only one of `sharedCounters` or `devices` is allowed")
    per_device = spec.get("perDeviceNodeSelection") is True
    yield from _devices(devices or [], child(path, "devices"), node_selection=per_device)
    where, named = child(path, "sharedCounters"), partial(counter_set, "name")
    yield from each(sets or [], where, MAX_COUNTER_SETS, named, unique="name")


def needs_small_slice(entry: Mapping[str, Any]) -> bool:
    """Whether a device halves the number of devices that its slice may hold."""
    if entry.get("taints") or entry.get("consumesCounters"):
        return True
    values = (entry.get("attributes") or {}).values()
    return any((value or {}).get(name) is not None for value in values for name in _LISTS)


def _pool(pool: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from pool_name(child(path, "name"), pool.get("name") or "")
    if (count := pool.get("resourceSliceCount") or 0) <= 0:
        yield invalid(child(path, "resourceSliceCount"), count, "must be greater than zero")
    if (generation := pool.get("generation") or 0) < 0:
        yield invalid(child(path, "generation"), generation, "must be greater than or equal to zero")


def _selection(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    chosen = [name for name in _SELECTIONS if not _unset(spec.get(name))]
    if spec.get("nodeName") == "":
        rule = "must be either unset or set to a non-empty string"
        yield invalid(child(path, "nodeName"), "", rule)
    elif spec.get("nodeName") is not None:
        yield from check(child(path, "nodeName"), spec["nodeName"], subdomain)
    if spec.get("nodeSelector") is not None:
        where = child(path, "nodeSelector")
        yield from node_selector(spec["nodeSelector"], where)
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        if len(terms) != 1:
            rule = "must have exactly one node selector term"
            yield invalid(child(where, "nodeSelectorTerms"), terms or None, rule)
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            yield invalid(child(path, name), value=False, detail="must be either unset or set to true")
    rule = f"exactly one of {', '.join(f'`{name}`' for name in _SELECTIONS)} is required"
    if not chosen:
        yield required(path, rule)
    elif len(chosen) > 1:
        listed = ", ".join(f"`{name}`" for name in chosen)
        yield invalid(path, f"{{{listed}}}", f"{rule}, but multiple fields are set")


def _unset(value: Any) -> bool:
    # An empty node selector is set, if wrongly.
    return value is None or value is False or value == ""


def _devices(entries: list[Any], path: str, *, node_selection: bool) -> Iterator[Problem]:
    entries = [entry or {} for entry in entries]
    limit = MAX_DEVICES_WITH_EXTRAS if any(map(needs_small_slice, entries)) else MAX_DEVICES
    yield from each(entries, path, limit, partial(device, node_selection=node_selection), unique="name")

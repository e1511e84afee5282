"""Who set which field: metadata.managedFields.

A field is a path of FieldsV1 elements ("f:spec", 'k:{"name":"x"}', 'v:"y"') along the schema; lists and maps
that the schema marks as atomic are one field. An update gives its manager what it added or changed, and takes
that from all others; what an apply does is in `applying`.

Simpler than the real thing in three ways: managers are not capped, fields are those of the storage version
whichever one was written, and the "." of structs follows sets of leaves rather than Go's types.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dra_driver.embedded.apiserver import schema, status
from dra_driver.embedded.apiserver.kinds import Kind
from dra_driver.embedded.apiserver.schema import Node

Path = tuple[str, ...]
Fields = frozenset[Path]

_KEY_DEFAULTS = {"protocol": "TCP"}  # of list keys that may be left out in what is applied
_SYSTEM = frozenset({"apiVersion", "kind"})
_SYSTEM_METADATA = frozenset(
    [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ]
)


@dataclass(frozen=True, slots=True)
class Manager:
    """Who writes, and how: entries of managedFields are kept per manager."""

    name: str
    operation: str  # Apply or Update
    api_version: str
    subresource: str = ""


Managed = dict[Manager, tuple[Fields, str]]  # with the time of the last change


def _leaves(value: Any, node: Node | None, path: Path, *, containers: bool) -> Iterator[tuple[Path, Any]]:
    known = schema.resolve(node)
    if isinstance(value, dict) and not schema.is_atomic(known):
        if not value and path:
            yield path, {}
        required = known.get("required", ())
        for key, item in value.items():
            below, inner = (*path, f"f:{key}"), schema.child(known, key)
            if "properties" not in known:
                if isinstance(item, (dict, list)):
                    yield below, None
            elif containers and item and key not in required and _is_container(schema.resolve(inner)):
                yield below, None
            yield from _leaves(item, inner, below, containers=containers)
    elif isinstance(value, list) and known.get("x-kubernetes-list-type") == "map":
        for item in value:
            below = (*path, key_element(item, known))
            yield below, None
            yield from _leaves(item, known.get("items"), below, containers=containers)
    elif isinstance(value, list) and known.get("x-kubernetes-list-type") == "set":
        for item in value:
            yield (*path, f"v:{json_text(item)}"), item
    else:
        yield path, value


def _is_container(node: Node) -> bool:
    """Whether `node` is a map or list whose entries are owned one by one."""
    return not schema.is_atomic(node) and "properties" not in node


def json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def key_element(item: dict[str, Any], node: Node) -> str:
    keys = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in node["x-kubernetes-list-map-keys"]}
    return f"k:{json_text({key: value for key, value in keys.items() if value is not None})}"


def leaves(
    kind: Kind, obj: dict[str, Any], *, subresource: str | None = None, containers: bool = False
) -> dict[Path, Any]:
    """The fields of `obj` that somebody may own through an endpoint, with their values; list items have None.

    `containers` adds the maps and lists themselves, which belong to whoever makes them by an update.
    """
    own = {key: value for key, value in obj.items() if key not in _SYSTEM}
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key not in _SYSTEM_METADATA}
    own["metadata"] = metadata
    for name in ("metadata", "spec", "status"):
        if not own.get(name):
            own.pop(name, None)  # to Go, an empty struct is not there
    if subresource == "status":
        own.pop("spec", None)
        own.pop("metadata", None)
    elif kind.has_status:
        own.pop("status", None)
    return dict(_leaves(own, {"$ref": kind.definition}, (), containers=containers))


def read(entries: list[dict[str, Any]] | None) -> Managed:
    """metadata.managedFields as sets of paths."""
    managed: Managed = {}
    for entry in entries or []:
        if entry.get("manager") is None:
            continue
        manager = Manager(
            entry["manager"],
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        managed[manager] = frozenset(_decode(entry.get("fieldsV1", {}), ())), entry.get("time", "")
    return managed


def _decode(node: dict[str, Any], path: Path) -> Iterator[Path]:
    if not isinstance(node, dict):
        raise status.bad_request("metadata.managedFields: fieldsV1 is no tree of fields")
    if not node and path:
        yield path
    for key, below in node.items():
        if key == ".":
            yield path
        else:
            yield from _decode(below, (*path, key))


def note(obj: dict[str, Any], managed: Managed) -> None:
    """Set metadata.managedFields, in the real server's order."""
    entries = []
    order = sorted(managed, key=lambda manager: (manager.operation, managed[manager][1], manager.name))
    for manager in order:
        fields, time = managed[manager]
        if not fields:
            continue
        entry = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
        entry |= {"time": time, "fieldsType": "FieldsV1", "fieldsV1": _encode(fields)}  # type: ignore[dict-item]
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    obj["metadata"].pop("managedFields", None)
    if entries:
        obj["metadata"]["managedFields"] = entries


def is_same(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether a write changes nothing; times of field managers alone are no change."""

    def timeless(obj: dict[str, Any]) -> dict[str, Any]:
        entries = [{**entry, "time": ""} for entry in obj["metadata"].get("managedFields") or ()]
        return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}

    return timeless(new) == timeless(old)


def _encode(fields: Fields) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in sorted(fields):
        node = root
        for element in path:
            node = node.setdefault(element, {})
    for path in fields:
        node = root
        for element in path:
            node = node[element]
        if node and "." not in node:
            node["."] = {}
    return root


def after_update(
    kind: Kind, old: dict[str, Any], new: dict[str, Any], managed: Managed, manager: Manager, now: str
) -> Managed:
    """Who owns what after `manager` has updated `old` (empty for a creation) to `new`."""
    place = manager.subresource or None
    before = leaves(kind, old, subresource=place, containers=True)
    after = leaves(kind, new, subresource=place, containers=True)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    if not changed and not gone:
        return managed
    result: Managed = {}
    for other, (fields, time) in managed.items():
        if other != manager:
            result[other] = fields - changed - gone, time
    own, time = managed.get(manager, (frozenset(), now))
    kept = (own | changed) - gone
    result[manager] = frozenset(kept), now if kept != own or changed else time
    return result

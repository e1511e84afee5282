"""Who set which field: metadata.managedFields, and server-side apply on top of it.

A field is a path of FieldsV1 elements ("f:spec", 'k:{"name":"x"}', 'v:"y"') along the schema; lists and maps
that the schema marks as atomic are one field. An update gives its manager what it added or changed, and takes
that from all others. An apply owns what it sends: a differing value that somebody else owns is a conflict
(unless forced), and what the same manager sent last time but not now goes, if nobody else owns it. What a
client-side `kubectl apply` set may be taken over by kubectl, as the real server allows.

Simpler than the real thing in three ways: managers are not capped, fields are not converted between versions
(ours have one shape), and the "." of structs follows sets of leaves rather than Go's types.
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
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
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
            below = (*path, _key(item, known))
            yield below, None
            yield from _leaves(item, known.get("items"), below, containers=containers)
    elif isinstance(value, list) and known.get("x-kubernetes-list-type") == "set":
        for item in value:
            yield (*path, f"v:{_json(item)}"), item
    else:
        yield path, value


def _is_container(node: Node) -> bool:
    """Whether `node` is a map or list whose entries are owned one by one."""
    return not schema.is_atomic(node) and "properties" not in node


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _key(item: dict[str, Any], node: Node) -> str:
    keys = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in node["x-kubernetes-list-map-keys"]}
    return f"k:{_json({key: value for key, value in keys.items() if value is not None})}"


def leaves(
    kind: Kind, obj: dict[str, Any], *, subresource: str | None = None, containers: bool = False
) -> dict[Path, Any]:
    """The fields of `obj` that somebody may own through an endpoint, with their values; list items have None.

    `containers` adds the maps and lists themselves, which belong to whoever makes them by an update.
    """
    own = {key: value for key, value in obj.items() if key not in _SYSTEM}
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key not in _SYSTEM_METADATA}
    own["metadata"] = metadata
    if not metadata:
        del own["metadata"]
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
    if not node and path:
        yield path
    for key, below in node.items():
        if key == ".":
            yield path
        else:
            yield from _decode(below, (*path, key))


def write(managed: Managed) -> list[dict[str, Any]]:
    """Sets of paths as metadata.managedFields, in the real server's order."""
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
    return entries


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


def apply(
    kind: Kind,
    live: dict[str, Any],
    config: dict[str, Any],
    managed: Managed,
    manager: Manager,
    *,
    force: bool,
) -> tuple[dict[str, Any], dict[Manager, Fields]]:
    """`config` applied to `live`: the merged object, and who owns what then; 409 on conflicts."""
    root = {"$ref": kind.definition}
    place = manager.subresource or None
    applied = frozenset(leaves(kind, config, subresource=place))
    merged = _merge(live, config, root)
    before, after = leaves(kind, live, subresource=place), leaves(kind, merged, subresource=place)
    changed = {path for path, value in after.items() if path in before and before[path] != value}
    if manager.name == "kubectl":
        changed -= _unchanged_since_last_applied(kind, live, before)
    taken = applied & {path for path, value in after.items() if path in before and before[path] != value}
    conflicts = [
        (other, path)
        for other, (fields, _) in managed.items()
        if other != manager
        for path in sorted(fields & applied & changed)
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    owned = {other: fields - taken for other, (fields, _) in managed.items() if other != manager}
    others = frozenset().union(*owned.values())
    previous, _ = managed.get(manager, (frozenset(), ""))
    for path in sorted(previous - applied - others, key=len, reverse=True):
        if not any(kept[: len(path)] == path for kept in applied | others):
            _prune(merged, path, root)
    owned[manager] = applied
    if manager.name == "kubectl":
        _remember_applied(merged, config)
    return merged, owned


def _unchanged_since_last_applied(kind: Kind, live: dict[str, Any], before: dict[Path, Any]) -> set[Path]:
    """The fields that are as an earlier client-side `kubectl apply` left them: kubectl may take those over."""
    last = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if last is None:
        return set()
    try:
        applied = leaves(kind, json.loads(last))
    except (ValueError, AttributeError):
        return set()  # somebody wrote something else there: nothing is known
    return {path for path, value in applied.items() if path in before and before[path] == value}


def _remember_applied(merged: dict[str, Any], config: dict[str, Any]) -> None:
    """Keep the annotation of client-side apply true, where there is one, so that one can go back to it."""
    annotations = merged["metadata"].get("annotations") or {}
    if _LAST_APPLIED in annotations:
        text = json.dumps(config, separators=(",", ":"), sort_keys=True) + "\n"
        merged["metadata"] = {**merged["metadata"], "annotations": {**annotations, _LAST_APPLIED: text}}


def _merge(live: Any, config: Any, node: Node | None) -> Any:
    known = schema.resolve(node)
    if isinstance(config, dict) and isinstance(live, dict) and not schema.is_atomic(known):
        result = dict(live)
        for key, value in config.items():
            result[key] = _merge(live.get(key), value, schema.child(known, key))
        return result
    kind = known.get("x-kubernetes-list-type")
    if isinstance(config, list) and isinstance(live, list) and kind == "map":
        items = {_key(item, known): item for item in live}
        for item in config:
            key = _key(item, known)
            items[key] = _merge(items.get(key), item, known.get("items"))
        return list(items.values())
    if isinstance(config, list) and isinstance(live, list) and kind == "set":
        return [*live, *(item for item in config if item not in live)]
    return config


def _prune(obj: Any, path: Path, node: Node | None) -> None:
    """Remove the field at `path` from `obj`, in containers of its own on the way down."""
    element, rest = path[0], path[1:]
    known = schema.resolve(node)
    if isinstance(obj, dict) and element.startswith("f:"):
        key = element[2:]
        if key not in obj:
            return
        if not rest:
            del obj[key]
            return
        obj[key] = obj[key].copy()
        _prune(obj[key], rest, schema.child(known, key))
        if not obj[key]:
            del obj[key]
    elif isinstance(obj, list):
        for index, item in enumerate(obj):
            if element == (f"v:{_json(item)}" if element.startswith("v:") else _key(item, known)):
                if not rest:
                    del obj[index]
                else:
                    obj[index] = item.copy()
                    _prune(obj[index], rest, known.get("items"))
                return


def _dotted(path: Path) -> str:
    text = ""
    for element in path:
        if element.startswith("f:"):
            text += f".{element[2:]}"
        elif element.startswith("k:"):
            keys = json.loads(element[2:])
            text += f"[{','.join(f'{key}={_json(value)}' for key, value in sorted(keys.items()))}]"
        else:
            text += f"[={element[2:]}]"
    return text


def _conflict(conflicts: list[tuple[Manager, Path]]) -> status.StatusError:
    def conflict_with(manager: Manager) -> str:
        using = "" if manager.operation == "Apply" else f" using {manager.api_version}"
        below = f" with subresource {_json(manager.subresource)}" if manager.subresource else ""
        return f"with {_json(manager.name)}{below}{using}"

    by_manager: dict[str, list[str]] = {}
    for manager, path in conflicts:
        by_manager.setdefault(conflict_with(manager), []).append(_dotted(path))
    count = len(conflicts)
    if count == 1:
        listed = f"conflict {next(iter(by_manager))}: {_dotted(conflicts[0][1])}"
    else:
        listed = "\n".join(
            "\n- ".join([f"conflicts {who}:", *paths]) for who, paths in sorted(by_manager.items())
        )
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict {conflict_with(manager)}",
            "field": _dotted(path),
        }
        for manager, path in conflicts
    ]
    text = f"Apply failed with {count} conflict{'s' if count > 1 else ''}: {listed}"
    return status.StatusError(409, "Conflict", text, {"causes": causes})

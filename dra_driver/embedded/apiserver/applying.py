"""Server-side apply: a part of an object, sent by a manager who owns what it sends.

A differing value that somebody else owns is a conflict, unless forced; what the same manager sent last time
but not now goes, if nobody else owns it. What a client-side `kubectl apply` set may be taken over by kubectl,
as the real server allows. Values are compared as they were sent, before they are made canonical: a quantity
in another notation than the stored one is a conflict here too.
"""

import json
from typing import Any

from dra_driver.embedded.apiserver import ownership, schema, status
from dra_driver.embedded.apiserver.kinds import Kind
from dra_driver.embedded.apiserver.ownership import Fields, Managed, Manager, Path
from dra_driver.embedded.apiserver.schema import Node

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


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
    applied = frozenset(ownership.leaves(kind, config, subresource=place))
    merged = _merge(live, config, root)
    before, after = (ownership.leaves(kind, obj, subresource=place) for obj in (live, merged))
    taken = {path for path in applied & before.keys() & after.keys() if before[path] != after[path]}
    contested = set(taken)
    if manager.name == "kubectl":
        contested -= _unchanged_since_last_applied(kind, live, before)
    conflicts = [
        (other, path)
        for other, (fields, _) in managed.items()
        if other != manager
        for path in sorted(fields & contested)
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
        applied = ownership.leaves(kind, json.loads(last))
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
        items = {ownership.key_element(item, known): item for item in live}
        for item in config:
            key = ownership.key_element(item, known)
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
            if element == (
                f"v:{ownership.json_text(item)}"
                if element.startswith("v:")
                else ownership.key_element(item, known)
            ):
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
            text += (
                f"[{','.join(f'{key}={ownership.json_text(value)}' for key, value in sorted(keys.items()))}]"
            )
        else:
            text += f"[={element[2:]}]"
    return text


def _conflict(conflicts: list[tuple[Manager, Path]]) -> status.StatusError:
    def conflict_with(manager: Manager) -> str:
        using = "" if manager.operation == "Apply" else f" using {manager.api_version}"
        below = f" with subresource {ownership.json_text(manager.subresource)}" if manager.subresource else ""
        return f"with {ownership.json_text(manager.name)}{below}{using}"

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

"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch.

All return a new object and leave their input alone. A strategic merge patch merges lists of objects by the
merge key that the schema names, knows the directives `$patch: delete|replace`, `$retainKeys`,
`$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`, and behaves as a merge patch where the
schema names no strategy. `kubectl apply`, `edit`, `label` and `patch` send it by default.
"""

import copy
from typing import Any

from dra_driver.embedded.apiserver import schema, status
from dra_driver.embedded.apiserver.options import decimal
from dra_driver.embedded.apiserver.schema import Node

_ORDER = "$setElementOrder/"
_FROM_PRIMITIVES = "$deleteFromPrimitiveList/"


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: maps merge, null deletes, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


class PatchError(Exception):
    """An operation cannot be done: a path does not exist, or a test failed."""


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902; PatchError where an operation does not apply, 400 where the patch is none."""
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise status.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    root = {"": copy.deepcopy(target)}
    for operation in operations:
        _operate(root, operation)
    return _get(root, "")


def _operate(root: dict[str, Any], operation: dict[str, Any]) -> None:
    name, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise PatchError("operation has no path")
    if name in {"move", "copy"}:
        source = operation.get("from")
        if not isinstance(source, str):
            raise PatchError(f"{name} has no from")
        parent, token = _locate(root, source)
        value = copy.deepcopy(_get(parent, token))
        if name == "move":
            _remove(parent, token)
        _add(*_locate(root, path), value)
    elif name == "remove":
        _remove(*_locate(root, path))
    elif name in {"add", "replace", "test"}:
        if "value" not in operation:
            raise PatchError(f"{name} has no value")
        parent, token = _locate(root, path)
        value = operation["value"]
        if name == "add":
            _add(parent, token, value)
        elif name == "test":
            if _get(parent, token) != value:
                raise PatchError(f"testing value {path} failed")
        else:
            _get(parent, token)
            parent[_index(parent, token) if isinstance(parent, list) else token] = value
    else:
        raise PatchError(f"Unexpected kind: {name}")


def _locate(root: dict[str, Any], path: str) -> tuple[Any, str]:
    """The container of what `path` points at, and the last token; `root` wraps the document."""
    if path and not path.startswith("/"):
        raise PatchError(f"path {path} does not start with /")
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")]
    parent: Any = root
    for token in tokens[:-1]:
        parent = _get(parent, token)
    return parent, tokens[-1]


def _index(parent: list[Any], token: str, *, end: bool = False) -> int:
    if end and token == "-":  # noqa: S105 - RFC 6902 calls the parts of a path tokens
        return len(parent)
    index = decimal(token)
    if index is None or index > len(parent) - (0 if end else 1):
        raise PatchError(f"index {token} is out of bounds")
    return index


def _get(parent: Any, token: str) -> Any:
    if isinstance(parent, list):
        return parent[_index(parent, token)]
    if not isinstance(parent, dict) or token not in parent:
        raise PatchError(f"path token {token} does not exist")
    return parent[token]


def _add(parent: Any, token: str, value: Any) -> None:
    if isinstance(parent, list):
        parent.insert(_index(parent, token, end=True), value)
    elif isinstance(parent, dict):
        parent[token] = value
    else:
        raise PatchError(f"path token {token} does not exist")


def _remove(parent: Any, token: str) -> None:
    _get(parent, token)
    del parent[_index(parent, token) if isinstance(parent, list) else token]


def strategic_merge(target: dict[str, Any], patch: dict[str, Any], node: Node | None) -> dict[str, Any]:
    """Kubernetes' own merge, with the merge keys of `node`, the schema of `target`."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    known = schema.resolve(node)
    result = dict(target)
    if "$retainKeys" in patch:
        kept = set(_listed(patch["$retainKeys"], "$retainKeys", str))
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key.startswith(_FROM_PRIMITIVES):
            name = key.removeprefix(_FROM_PRIMITIVES)
            gone = _listed(value, key)
            result[name] = [item for item in _listed(result.get(name) or [], name) if item not in gone]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _strategic_value(result.get(key), value, schema.child(known, key))
    for key, order in patch.items():
        name = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and name in result:
            result[name] = _ordered(
                _listed(result[name], name), _listed(order, key), schema.resolve(schema.child(known, name))
            )
    return result


def _strategic_value(current: Any, value: Any, node: Node | None) -> Any:
    if isinstance(value, dict):
        return strategic_merge(current if isinstance(current, dict) else {}, value, node)
    known = schema.resolve(node)
    # The strategy may stand beside a reference or in what it refers to.
    strategy = known.get("x-kubernetes-patch-strategy", "")
    if not isinstance(value, list) or "merge" not in strategy.split(","):
        return value
    current = current if isinstance(current, list) else []
    key = known.get("x-kubernetes-patch-merge-key")
    if key is None:
        return [*current, *(item for item in value if item not in current)]
    return _merged_list(_listed(current, "list", dict), _listed(value, "list", dict), key, known.get("items"))


def _listed(value: Any, name: str, of: type = object) -> list[Any]:
    """`value` as the list that a merge needs there; 400 if it is none."""
    if not isinstance(value, list) or not all(isinstance(item, of) for item in value):
        raise status.bad_request(f"cannot merge: {name} is no list of what belongs there")
    return value


def _merged_list(
    current: list[dict[str, Any]], patch: list[dict[str, Any]], key: str, items: Node | None
) -> list[dict[str, Any]]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    result = list(current)
    for item in patch:
        if key not in item:
            raise status.bad_request(f"map: {item} does not contain declared merge key: {key}")
        position = next((i for i, found in enumerate(result) if found.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if position is not None:
                del result[position]
        elif position is None:
            result.append(strategic_merge({}, item, items))
        else:
            result[position] = strategic_merge(result[position], item, items)
    return result


def _ordered(current: list[Any], order: list[Any], node: Node) -> list[Any]:
    """`current` with the items that `order` names in its order, and the others behind their predecessors."""
    key = node.get("x-kubernetes-patch-merge-key")

    def identity(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) else item

    wanted = [identity(item) for item in order]
    listed = [item for item in current if identity(item) in wanted]
    listed.sort(key=lambda item: wanted.index(identity(item)))
    return [listed.pop(0) if identity(item) in wanted else item for item in current]

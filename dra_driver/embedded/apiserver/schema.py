"""The schemas of the kinds we serve, and the server's typed decoding by them.

The real server decodes JSON into Go structs before it does anything else, and much of what clients see comes
from that: unknown fields are dropped (or refused, or warned of), null and empty optional lists vanish, a
number where a string belongs is a 400, quantities come back in canonical form. One walk along the OpenAPI
schema does all of it here. What a schema cannot tell is left alone: an empty optional string stays, since it
may be a pointer in Go, where it means something.
"""

import functools
import json
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from typing import Any

from dra_driver.embedded.apiserver import status
from dra_driver.quantity import Quantity

Node = dict[str, Any]

_REFERENCE = "#/components/schemas/"  # as OpenAPI documents refer to each other's definitions
_QUANTITY = f"{_REFERENCE}io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = f"{_REFERENCE}io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_GO_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_GO_TYPES = {"integer": "int64", "boolean": "bool", "number": "float64", "string": "string"}
_MAX_DEPTH = 100  # of what no schema describes: what comes in must be copied and written, by recursion
_MAX_INTEGER = 2**63
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


@functools.cache
def definitions() -> dict[str, Node]:
    """All definitions by name."""
    text = (resources.files(__package__) / "schemas.json").read_text()
    loaded: dict[str, Node] = json.loads(text)
    return loaded


def resolve(node: Node | None) -> Node:
    """The schema that `node` refers to, by name or as in a document; an empty one, which knows nothing, for None."""
    while node is not None and "$ref" in node:
        node = definitions()[node["$ref"].removeprefix(_REFERENCE)]
    return node or {}


def child(node: Node, key: str) -> Node | None:
    """The schema of `key` in an object of schema `node`, not resolved; None where nothing is known of it."""
    known: Node | None = node.get("properties", {}).get(key) or node.get("additionalProperties")
    return known


def is_atomic(node: Node) -> bool:
    """Whether lists or maps of `node` are replaced whole: by mark, or since nothing else is known of a list."""
    if node.get("type") == "array":
        return bool(node.get("x-kubernetes-list-type", "atomic") == "atomic")
    return node.get("x-kubernetes-map-type") == "atomic" or not (
        "properties" in node or "additionalProperties" in node
    )


@dataclass(slots=True)
class Decoded:
    """A decoded object, and the paths of what nothing is known of."""

    value: Any
    unknown: list[str] = field(default_factory=list)
    canonical: bool = True


class _TypeMismatchError(Exception):
    pass


def decode(obj: dict[str, Any], definition: str, version: str, *, canonical: bool = True) -> Decoded:
    """`obj` as the server would hold it, a copy; `version` only names it in the 400 for a wrong type.

    An apply is compared with the live object before quantities are made `canonical`.
    """
    decoded = Decoded(None, canonical=canonical)
    kind = definition.rsplit(".", 1)[-1]
    try:
        decoded.value = _value(obj, {"$ref": definition}, "", decoded)
    except _TypeMismatchError as error:
        raise status.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
        ) from error
    return decoded


def _value(value: Any, node: Node, path: str, into: Decoded) -> Any:
    reference = node.get("$ref")
    if reference == _QUANTITY:
        quantity = _quantity(value)
        return quantity if into.canonical else value
    if reference == _INT_OR_STRING:
        return value
    schema = resolve(node)
    kind = schema.get("type")
    if kind == "object":
        return _object(value, schema, path, into)
    if kind == "array":
        if not isinstance(value, list):
            raise _mismatch(value, path, "slice")
        items = schema["items"]
        return [
            _zero(items) if item is None else _value(item, items, f"{path}[{index}]", into)
            for index, item in enumerate(value)
        ]
    expected = _PYTHON_TYPES.get(kind) if kind else None
    if expected and (not isinstance(value, expected) or (isinstance(value, bool) and kind != "boolean")):
        raise _mismatch(value, path, _GO_TYPES[str(kind)])
    if kind == "integer" and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise _mismatch(value, path, "int64")
    if schema.get("format") == "date-time" and not _is_time(value):
        raise _TypeMismatchError(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse it')
    return value


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _check_depth(value: Any, path: str, left: int) -> None:
    if not left:
        raise _TypeMismatchError(f"json: {path}: exceeded max depth")
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, path, left - 1)


def _zero(node: Node) -> Any:
    """What Go makes of null in a list."""
    return {"object": {}, "array": [], "string": "", "boolean": False}.get(resolve(node).get("type", ""), 0)


def _object(value: Any, schema: Node, path: str, into: Decoded) -> Any:
    if not isinstance(value, dict):
        raise _mismatch(value, path, "struct")
    properties = schema.get("properties")
    values = schema.get("additionalProperties")
    if properties is None and values is None:
        _check_depth(value, path, _MAX_DEPTH)
        return value  # RawExtension, FieldsV1: free-form
    required = schema.get("required", ())
    result = {}
    for key, item in value.items():
        below = (properties or {}).get(key) or values
        where = f"{path}.{key}" if path else key
        if below is None:
            into.unknown.append(where)
            continue
        if item is None:
            if values is not None:
                result[key] = "" if resolve(values).get("type") == "string" else None
            continue
        decoded = _value(item, below, where, into)
        if values is None and key not in required and _vanishes(decoded, below):
            continue
        result[key] = decoded
    return result


def _vanishes(value: Any, node: Node) -> bool:
    """Whether Go's omitempty drops it: an empty list, or an empty map that is no struct behind a pointer."""
    if value == []:
        return True
    return value == {} and "additionalProperties" in resolve(node)


def _quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _TypeMismatchError("json: cannot unmarshal object into Go value of type string")
    try:
        return str(Quantity.parse(str(value)))
    except ValueError as error:
        raise _TypeMismatchError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from error


def _mismatch(value: Any, path: str, expected: str) -> _TypeMismatchError:
    found = _GO_NAMES.get(type(value), "null")
    plain = "".join(part.split("]")[-1] for part in path.split("["))
    return _TypeMismatchError(
        f"json: cannot unmarshal {found} into Go struct field {plain} of type {expected}"
    )

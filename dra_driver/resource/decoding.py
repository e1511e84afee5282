"""Strict decoding: whether JSON fits the types of an API object, before its meaning is looked at.

The API server decodes into Go structs: a value of the wrong type is an error that names the struct, and with
`fieldValidation=Strict` (kubectl's default) so is a field that no struct has. Unknown fields are how most
mistakes in claims show (a v1beta1 request without `exactly`, `expression` beside `cel`), so their paths matter.
A null counts as absent, as in Go. The types themselves are tables, in `shapes.py`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from dra_driver.quantity import Quantity
from dra_driver.resource.problems import Problem, child, index

_INT64 = range(-(2**63), 2**63)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
# The server's own text; it names no field.
_KEY = re.compile(r"\[(?!\d+\])([^\]]*)\]")
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class Scalar(Enum):
    """A value without parts; the text is its Go type."""

    STRING = "string"
    BOOL = "bool"
    INT64 = "int64"
    QUANTITY = "resource.Quantity"
    TIME = "v1.Time"
    RAW = "runtime.RawExtension"  # any JSON


@dataclass(frozen=True, slots=True)
class ListOf:
    item: "Shape"


@dataclass(frozen=True, slots=True)
class MapOf:
    value: "Shape"


@dataclass(frozen=True, slots=True)
class Struct:
    """A Go struct: its name, and its fields by their JSON names."""

    name: str
    fields: Mapping[str, "Shape"]


Shape = Scalar | ListOf | MapOf | Struct


def decode(value: Any, shape: Struct) -> list[Problem]:
    """What keeps `value` from being decoded as `shape`, with the path of each field."""
    return list(_decode(value, shape, "", shape))


def _decode(value: Any, shape: Shape, path: str, owner: Struct) -> Iterator[Problem]:
    if value is None:
        return
    match shape:
        case Scalar():
            yield from _scalar(value, shape, path, owner)
        case ListOf(item):
            if not isinstance(value, list):
                yield _mismatch(value, shape, path, owner)
                return
            for position, entry in enumerate(value):
                yield from _decode(entry, item, index(path, position), owner)
        case MapOf(item):
            if not isinstance(value, dict):
                yield _mismatch(value, shape, path, owner)
                return
            for name, entry in value.items():
                if isinstance(name, str):
                    yield from _decode(entry, item, f"{path}[{name}]", owner)
                else:  # YAML can say it, JSON cannot
                    yield Problem(path, f"the key {name!r} must be a string", "decode")
        case Struct(_, fields):
            if not isinstance(value, dict):
                yield _mismatch(value, shape, path, owner)
                return
            for name, entry in value.items():
                where = child(path, str(name))
                if name in fields:
                    yield from _decode(entry, fields[name], where, shape)
                else:
                    named = _KEY.sub(r".\1", where)  # decoders write keys of maps as they do fields
                    yield Problem(named, f'unknown field "{named}"', "strict")


def _scalar(value: Any, shape: Scalar, path: str, owner: Struct) -> Iterator[Problem]:
    match shape:
        case Scalar.RAW:
            return
        case Scalar.QUANTITY:
            # A bare number is a quantity too: Go parses the JSON text itself.
            text = value if isinstance(value, str) else str(value) if _is_number(value) else "?"
            try:
                Quantity.parse(text)
            except ValueError:
                yield Problem(path, _QUANTITY_RULE, "decode")
        case Scalar.TIME:
            if not isinstance(value, str):
                yield _mismatch(value, shape, path, owner)
            elif not _is_time(value):
                rule = f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse'
                yield Problem(path, rule, "decode")
        case Scalar.STRING:
            if not isinstance(value, str):
                yield _mismatch(value, shape, path, owner)
        case Scalar.BOOL:
            if not isinstance(value, bool):
                yield _mismatch(value, shape, path, owner)
        case Scalar.INT64:
            if isinstance(value, bool) or not isinstance(value, int) or value not in _INT64:
                yield _mismatch(value, shape, path, owner)


def _mismatch(value: Any, shape: Shape, path: str, owner: Struct) -> Problem:
    dotted = re.sub(r"\[[^\]]*\]", "", path)
    text = f"json: cannot unmarshal {_json_type(value)} into Go struct field {owner.name}.{dotted}"
    return Problem(path, f"{text} of type {_go_type(shape)}", "decode")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(text: str) -> bool:
    if not _RFC3339.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "number" if value in _INT64 else f"number {value}"
        case float():
            return f"number {value}"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _go_type(shape: Shape) -> str:
    match shape:
        case Scalar():
            return shape.value
        case ListOf(item):
            return f"[]{_go_type(item)}"
        case MapOf(item):
            return f"map[string]{_go_type(item)}"
        case Struct(name):
            return f"v1.{name}"

"""Values at run time.

int, double, string, bytes, bool, null, list and map are Python's own (a CEL int is exactly `int`, checked to stay
within 64 bits); uint, optional, duration, timestamp and types need classes. Opaque types (Quantity, Semver, IP)
are any Python class that is registered with its type name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dra_driver.cel.types import Kind, Type

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class UInt(int):
    """An unsigned 64-bit integer; arithmetic goes through `arithmetic`, which makes new ones."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """optional.of(value) or, with `present` false, optional.none()."""

    present: bool
    value: Any = None


NONE = Optional(present=False)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970 in UTC."""

    nanos: int


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What type(x) gives, and what `int`, `string`... name."""

    name: str


class Opaque:
    """Base of values that only functions understand; `type_name` is what messages and type() say."""

    __slots__ = ()
    type_name = "opaque"
    hashable = True  # in cel-go: what is not fails where it is looked for in a constant list or in a map

    def is_comparable(self, other: object) -> bool:
        """Whether `==` has an answer with this value on its left."""
        return type(self) is type(other)


class DefaultMap(dict[str, Any]):
    """A map that answers an unknown key with an empty map when asked for it; `in` and size() are not fooled."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Optional: "optional_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
}


def type_name(value: object) -> str:
    """The CEL name of a value's type."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, Opaque):
        return value.type_name
    return "map" if isinstance(value, dict) else type(value).__name__


def matcher(wanted: Type) -> Callable[[Any], bool] | None:
    """A test whether a value has the type, or None when every value has; looks at the first element only."""
    if wanted.is_dynamic or wanted.kind is Kind.PARAMETER:
        return None
    name = wanted.name
    if wanted.kind is Kind.LIST:
        element = matcher(wanted.params[0])
        return lambda value: type(value) is list and (element is None or not value or element(value[0]))
    if wanted.kind is Kind.MAP:
        return _map_matcher(*wanted.params)
    kinds = tuple(kind for kind, known in _NAMES.items() if known == name)
    if len(kinds) == 1:
        (kind,) = kinds
        return lambda value: type(value) is kind
    return lambda value: type_name(value) == name


def _map_matcher(key: Type, value: Type) -> Callable[[Any], bool]:
    of_key, of_value = matcher(key), matcher(value)

    def match(candidate: Any) -> bool:
        if not isinstance(candidate, dict):
            return False
        for first, item in candidate.items():
            return (of_key is None or of_key(first)) and (of_value is None or of_value(item))
        return True

    return match

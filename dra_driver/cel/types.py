"""Static types: what the checker computes with, and what a function declares.

Assignability follows cel-go's checker (the one Kubernetes uses): `dyn` and `any` fit everything, type parameters
are bound on first use and widened to the more general type, null fits what can be null.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kinds that behave differently in the checker."""

    PRIMITIVE = "primitive"
    NULL = "null"
    DYN = "dyn"
    ERROR = "error"
    LIST = "list"
    MAP = "map"
    TYPE = "type"
    OPAQUE = "opaque"
    OBJECT = "object"
    PARAMETER = "parameter"


@dataclass(frozen=True, slots=True)
class Type:
    """A type; `str()` writes it as messages do."""

    kind: Kind
    name: str
    params: tuple["Type", ...] = ()

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"

    @property
    def is_dynamic(self) -> bool:
        return self.kind in {Kind.DYN, Kind.ERROR}

    @property
    def open(self) -> bool:
        """Whether values of this type may be of several types, inside or outside."""
        return self.is_dynamic or self.kind is Kind.PARAMETER or any(inner.open for inner in self.params)


BOOL = Type(Kind.PRIMITIVE, "bool")
INT = Type(Kind.PRIMITIVE, "int")
UINT = Type(Kind.PRIMITIVE, "uint")
DOUBLE = Type(Kind.PRIMITIVE, "double")
STRING = Type(Kind.PRIMITIVE, "string")
BYTES = Type(Kind.PRIMITIVE, "bytes")
DURATION = Type(Kind.PRIMITIVE, "google.protobuf.Duration")
TIMESTAMP = Type(Kind.PRIMITIVE, "google.protobuf.Timestamp")
NULL = Type(Kind.NULL, "null_type")
DYN = Type(Kind.DYN, "dyn")
ANY = Type(Kind.DYN, "any")
ERROR = Type(Kind.ERROR, "!error!")


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type(Kind.TYPE, "type", (value,))


def opaque(name: str) -> Type:
    return Type(Kind.OPAQUE, name)


def parameter(name: str) -> Type:
    return Type(Kind.PARAMETER, name)


def is_optional(value: Type) -> bool:
    return value.kind is Kind.OPAQUE and value.name == "optional_type"


def equivalent(left: Type, right: Type) -> bool:
    """Same type, where the names of free parameters do not matter."""
    if left.kind is not right.kind or len(left.params) != len(right.params):
        return False
    if left.kind is not Kind.PARAMETER and left.name != right.name:
        return False
    return all(map(equivalent, left.params, right.params))


class Bindings:
    """What the type parameters of one expression stand for, so far."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._fresh = 0

    def fresh(self) -> Type:
        """A parameter that nothing else uses."""
        self._fresh += 1
        return parameter(f"_var{self._fresh}")

    def instantiate(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types with each parameter replaced by a fresh one; equal names stay equal."""
        names: dict[str, Type] = {}
        for name in (name for declared in types for name in _parameters(declared)):
            names.setdefault(name, self.fresh())
        return tuple(_replace(declared, names) for declared in types) if names else types

    def substitute(self, value: Type, *, free_as_dyn: bool) -> Type:
        """The type with bound parameters replaced; free ones stay, or become dyn."""
        if value.kind is Kind.PARAMETER:
            bound = self._bound.get(value.name)
            if bound is not None:
                return self.substitute(bound, free_as_dyn=free_as_dyn)
            return DYN if free_as_dyn else value
        if not value.params:
            return value
        params = tuple(self.substitute(param, free_as_dyn=free_as_dyn) for param in value.params)
        return Type(value.kind, value.name, params)

    def all_assignable(self, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> bool:
        """Whether each given type fits the wanted one; binds parameters only when all do."""
        if len(given) != len(wanted):
            return False
        before = dict(self._bound)
        if all(self._fits(wanted_, given_) for wanted_, given_ in zip(wanted, given, strict=True)):
            return True
        self._bound = before
        return False

    def assignable(self, given: Type, wanted: Type) -> bool:
        return self.all_assignable((given,), (wanted,))

    def join(self, previous: Type | None, current: Type) -> Type:
        """The type of a literal's elements: the more general of two that fit, else dyn."""
        if previous is None:
            return current
        if self.assignable(current, previous):
            return _most_general(previous, current)
        return DYN

    def _fits(self, left: Type, right: Type) -> bool:
        if right.kind is Kind.PARAMETER:
            fits, known = self._substitution(left, right)
            if fits or known:
                return fits
        if left.kind is Kind.PARAMETER:
            return self._substitution(right, left)[0]
        if left.is_dynamic or right.is_dynamic:
            return True
        if left.kind is Kind.NULL or right.kind is Kind.NULL:
            return _nullable(right if left.kind is Kind.NULL else left)
        if left.kind is not right.kind:
            return False
        if left.kind is Kind.TYPE:
            return True
        return (
            left.name == right.name
            and len(left.params) == len(right.params)
            and all(self._fits(a, b) for a, b in zip(left.params, right.params, strict=True))
        )

    def _substitution(self, value: Type, param: Type) -> tuple[bool, bool]:
        """Whether `value` may stand for `param`, and whether `param` was bound already."""
        if value == param:
            return True, True
        bound = self._bound.get(param.name)
        if bound is not None:
            if value == bound:
                return True, True
            if self._fits(value, bound):
                general = _most_general(value, bound)
                if self._free_of(param, general):
                    self._bound[param.name] = general
                return True, True
            return False, True
        if self._free_of(param, value):
            self._bound[param.name] = value
            return True, False
        return False, False

    def _free_of(self, param: Type, value: Type) -> bool:
        """Whether `value` does not mention `param`, so that binding makes no circle."""
        if value.kind is Kind.PARAMETER:
            if value == param:
                return False
            bound = self._bound.get(value.name)
            return bound is None or self._free_of(param, bound)
        return all(self._free_of(param, inner) for inner in value.params)


def _parameters(value: Type) -> Iterator[str]:
    if value.kind is Kind.PARAMETER:
        yield value.name
    for inner in value.params:
        yield from _parameters(inner)


def _replace(value: Type, names: Mapping[str, Type]) -> Type:
    if value.kind is Kind.PARAMETER:
        return names[value.name]
    if not value.params:
        return value
    return Type(value.kind, value.name, tuple(_replace(inner, names) for inner in value.params))


def _nullable(value: Type) -> bool:
    return value.kind in {Kind.NULL, Kind.OPAQUE, Kind.OBJECT} or value in {DURATION, TIMESTAMP}


def _most_general(left: Type, right: Type) -> Type:
    return left if _equal_or_less_specific(left, right) else right


def _equal_or_less_specific(left: Type, right: Type) -> bool:
    if left.is_dynamic or left.kind is Kind.PARAMETER:
        return True
    if right.is_dynamic or right.kind is Kind.PARAMETER or left.kind is not right.kind:
        return False
    if left.name != right.name or len(left.params) != len(right.params):
        return False
    if left.kind in {Kind.LIST, Kind.MAP, Kind.OPAQUE}:
        return all(map(_equal_or_less_specific, left.params, right.params))
    return left == right

"""Arithmetic, order and equality over values, with CEL's rules rather than Python's.

Integers overflow at 64 bits instead of growing, division truncates towards zero, numbers of different types
compare but do not add, bool is no number, and values of different types are unequal rather than an error, except
opaque ones, which refuse to be compared with others, unless inside a list or map.
"""

import math
from collections.abc import Callable
from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.errors import EvaluationError, LimitError
from dra_driver.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Opaque,
    Optional,
    Timestamp,
    UInt,
    type_name,
)

_NUMBERS = frozenset({int, UInt, float})
_FREE = 256  # comparing texts up to here costs nothing
_NOTHING = object()
_LIKE_BOOLS = frozenset({0, 1})
_FEW = 64  # entries of a map: larger ones do not have true beside 1
_ORDERED = frozenset({str, bytes, bool, Duration, Timestamp})


def no_overload(name: str, *args: Any) -> EvaluationError:
    """The error of a call whose arguments fit no overload."""
    shown = ", ".join(type_name(arg) for arg in args)
    return EvaluationError(f"no such overload: {name}({shown})", name=name)


def plain_no_overload() -> EvaluationError:
    """What an operator answers: cel-go names neither it nor the types."""
    return EvaluationError("no such overload")


def int_of(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def uint_of(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def add(frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return int_of(left + right)
        if kind is str or kind is bytes or kind is list:
            charge(frame, 1 + (len(left) + len(right)) // 10)
            return left + right
        if kind is float:
            return left + right
        if kind is UInt:
            return uint_of(int(left) + int(right))
        if kind is Duration:
            return duration_of(left.nanos + right.nanos)
    elif (kind is Timestamp and type(right) is Duration) or (kind is Duration and type(right) is Timestamp):
        return timestamp_of(left.nanos + right.nanos)
    raise plain_no_overload()


def subtract(_frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return int_of(left - right)
        if kind is float:
            return left - right
        if kind is UInt:
            return uint_of(int(left) - int(right))
        if kind is Duration or kind is Timestamp:
            return duration_of(left.nanos - right.nanos)
    elif kind is Timestamp and type(right) is Duration:
        return timestamp_of(left.nanos - right.nanos)
    raise plain_no_overload()


def multiply(_frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return int_of(left * right)
        if kind is float:
            return left * right
        if kind is UInt:
            return uint_of(int(left) * int(right))
    raise plain_no_overload()


def divide(_frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is float:
            if right:
                return left / right
            sign = math.copysign(1, left) * math.copysign(1, right)
            return math.nan if left == 0 or math.isnan(left) else sign * math.inf
        if kind is int or kind is UInt:
            if not right:
                raise EvaluationError("division by zero")
            quotient = abs(left) // abs(right)
            return (
                int_of(quotient if (left < 0) == (right < 0) else -quotient)
                if kind is int
                else UInt(quotient)
            )
    raise plain_no_overload()


def modulo(_frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right) and (kind is int or kind is UInt):
        if not right:
            raise EvaluationError("modulus by zero")
        if left == INT_MIN and right == -1:
            raise EvaluationError("integer overflow")
        rest = abs(left) % abs(right)
        return (-rest if left < 0 else rest) if kind is int else UInt(rest)
    raise plain_no_overload()


def negate(value: Any) -> Any:
    if type(value) is int:
        return int_of(-value)
    if type(value) is float:
        return -value
    raise plain_no_overload()


def compare(frame: Frame, left: Any, right: Any) -> int:
    """-1, 0 or 1; numbers compare across types."""
    kind, other = type(left), type(right)
    if kind is str and len(left) > _FREE:
        charge(frame, len(left) // 10)
    if (kind is other and kind in _ORDERED) or (kind in _NUMBERS and other in _NUMBERS):
        if left < right:
            return -1
        if left == right:
            return 0
        if left > right:
            return 1
        raise EvaluationError("NaN values cannot be ordered")
    raise plain_no_overload()


ORDER: dict[str, Callable[[int], bool]] = {
    "_<_": lambda order: order < 0,
    "_<=_": lambda order: order <= 0,
    "_>_": lambda order: order > 0,
    "_>=_": lambda order: order >= 0,
}


def equals(frame: Frame, left: Any, right: Any) -> bool:
    """Whether two values are equal; opaque values raise when compared with another type."""
    kind, other = type(left), type(right)
    if left is None or right is None:
        return left is right
    if kind is other:
        if kind is str or kind is bytes:
            if len(left) > _FREE:
                charge(frame, len(left) // 10)
            return bool(left == right)
        if kind is list:
            charge(frame, 2 + 2 * len(left))
            return len(left) == len(right) and all(
                _not_unequal(frame, a, b) for a, b in zip(left, right, strict=True)
            )
        if kind is Optional:
            return left.present == right.present and (
                not left.present or equals(frame, left.value, right.value)
            )
        if not isinstance(left, (dict, Opaque)):
            return bool(left == right)
    if isinstance(left, dict) and isinstance(right, dict):
        charge(frame, 2 + 2 * len(left))
        if len(left) != len(right):
            return False
        for key, value in left.items():
            found, there = find(right, key)
            if not found or not _not_unequal(frame, value, there):
                return False
        return True
    if kind in _NUMBERS and other in _NUMBERS:
        return bool(left == right)
    if isinstance(left, Opaque):
        if left.is_comparable(right):
            return bool(left == right)
        raise plain_no_overload()
    return False


def is_equal(frame: Frame, left: Any, right: Any) -> bool:
    """As `equals`, for functions that look for a value: what cannot be compared is something else."""
    try:
        return equals(frame, left, right)
    except LimitError:
        raise
    except EvaluationError:
        return False


def _not_unequal(frame: Frame, left: Any, right: Any) -> bool:
    """Whether parts of lists or maps leave these equal; to cel-go those that cannot be compared do."""
    try:
        return equals(frame, left, right)
    except LimitError:
        raise
    except EvaluationError:
        return True


def find(mapping: dict[Any, Any], key: Any) -> tuple[bool, Any]:
    """A key's value, where there is one: numbers find each other across types, true never finds 1."""
    if type(key) is str:
        # `[]` and not `get`, since a map may answer unknown keys with a default.
        try:
            return True, mapping[key]
        except KeyError:
            return False, None
    try:
        value = mapping.get(key, _NOTHING)
    except TypeError:
        return False, None
    if value is _NOTHING:
        return False, None
    if key not in _LIKE_BOOLS or len(mapping) > _FEW:
        return True, value
    wants_bool = type(key) is bool
    for candidate, value in mapping.items():
        if candidate == key and (type(candidate) is bool) == wants_bool:
            return True, value
    return False, None


def contains(frame: Frame, value: Any, container: Any) -> bool:
    """`value in container`; an element that cannot be compared is something else."""
    if type(container) is list:
        charge(frame, len(container))
        return any(is_equal(frame, value, item) for item in container)
    if isinstance(container, dict):
        return value in container if type(value) is str else find(container, hashable(value))[0]
    raise plain_no_overload()


def hashable(value: Any) -> Any:
    """The value, where cel-go can look it up in a set: versions and bytes it cannot."""
    if type(value) is bytes or (isinstance(value, Opaque) and not value.hashable):
        raise EvaluationError(f"internal error: hash of unhashable type {type_name(value)}")
    return value


def duration_of(nanos: int) -> Duration:
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise EvaluationError("integer overflow")


_YEAR_ONE, _YEAR_TEN_THOUSAND = -62135596800 * 10**9, 253402300800 * 10**9


def timestamp_of(nanos: int) -> Timestamp:
    if _YEAR_ONE <= nanos < _YEAR_TEN_THOUSAND:
        return Timestamp(nanos)
    raise EvaluationError("timestamp overflow")

"""Order, equality and membership of values, with CEL's rules rather than Python's.

Numbers of different types compare, bool is no number, and values of different types are unequal rather than an error,
except opaque ones, which refuse to be compared with others, unless inside a list or map.
"""

from collections.abc import Callable
from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.errors import EvaluationError, LimitError, plain_no_overload
from dra_driver.cel.values import Duration, Opaque, Optional, Timestamp, UInt, type_name

_NUMBERS = frozenset({int, UInt, float})
_FREE = 256  # comparing texts up to here costs nothing
_NOTHING = object()
_LIKE_BOOLS = frozenset({0, 1})
_FEW = 64  # entries of a map: larger ones do not have true beside 1
_ORDERED = frozenset({str, bytes, bool, Duration, Timestamp})


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

"""Arithmetic over values, with CEL's rules rather than Python's.

Integers overflow at 64 bits instead of growing, division truncates towards zero, numbers of different types do not
add, and bool is no number.
"""

import math
from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.errors import EvaluationError, plain_no_overload
from dra_driver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt

_YEAR_ONE, _YEAR_TEN_THOUSAND = -62135596800 * 10**9, 253402300800 * 10**9


def int_of(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def uint_of(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def duration_of(nanos: int) -> Duration:
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise EvaluationError("integer overflow")


def timestamp_of(nanos: int) -> Timestamp:
    if _YEAR_ONE <= nanos < _YEAR_TEN_THOUSAND:
        return Timestamp(nanos)
    raise EvaluationError("timestamp overflow")


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

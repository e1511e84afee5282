"""Kubernetes quantities: quantity("40Gi"), isQuantity(), compareTo() and arithmetic.

Go keeps a quantity as an integer and a power of ten while it fits, else as a big decimal, and calls it an integer
only in the first form with no negative power: "1000m", "0.5Gi" and "1Pi" are not. Selectors can see that
(isInteger, asInteger), so `scale` follows it; amounts are exact in any case.
"""

import math
import re
from typing import Any

from dra_driver.cel.declarations import Library, function, method
from dra_driver.cel.errors import EvaluationError, no_overload
from dra_driver.cel.types import BOOL, DOUBLE, INT, STRING, opaque
from dra_driver.cel.values import INT_MAX, INT_MIN, Opaque
from dra_driver.quantity import Format
from dra_driver.quantity import Quantity as Amount

QUANTITY = opaque("kubernetes.Quantity")
_NANO = 10**9
_PRICE = 20  # of reading one
_TEXT = re.compile(r"[+-]?0*(\d*)(?:\.(\d*))?(.*)", re.ASCII)
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BITS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class Quantity(Opaque):
    """An amount, with the power of ten that Go would keep it with; None for a big decimal."""

    __slots__ = ("nanos", "scale")
    type_name = QUANTITY.name

    def __init__(self, nanos: int, scale: int | None) -> None:
        self.nanos = nanos
        self.scale = scale

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """EvaluationError where `text` is no quantity."""
        try:
            amount = Amount.parse(text)
        except ValueError as error:
            raise EvaluationError(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                name="quantity",
            ) from error
        return cls(amount.nanos, _scale(text, amount))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def is_comparable(self, other: object) -> bool:
        return type(other) is Quantity

    @property
    def is_integer(self) -> bool:
        return self.scale is not None and self.scale >= 0 and abs(self.nanos) <= INT_MAX * _NANO


class Computed(Quantity):
    """What add() and sub() give: cel-go has a pointer there, which `==` takes on its left side only."""

    __slots__ = ()


def _scale(text: str, amount: Amount) -> int | None:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise AssertionError("a quantity that parsed has this shape")
    number, fraction, suffix = match[1] or "0", match[2] or "", match[3]
    if amount.format is Format.BINARY_SI or suffix in _BITS:
        precision = 15 - len(number) - int(_BITS[suffix] * 3 / 10) - 1
        return 0 if precision >= 0 and not fraction else None
    power = _POWERS[suffix] if suffix in _POWERS else int(suffix[1:])
    scale = power - len(fraction)
    fast = len(number) + len(fraction) <= 18 and scale >= -9
    return scale if fast else None


def _combined(one: Quantity, other: Quantity, sign: int) -> Computed:
    nanos = one.nanos + sign * other.nanos
    if one.scale is None or other.scale is None:
        return Computed(nanos, None)
    if not other.nanos:
        return Computed(nanos, one.scale)
    return Computed(nanos, min(one.scale, other.scale) if one.nanos else other.scale)


def _integer(value: int) -> Quantity:
    return Quantity(value * _NANO, 0)


def _without(one: Quantity, value: int) -> Quantity:
    # In Go the smallest integer is its own negative.
    return _combined(one, _integer(value), -1 if value > INT_MIN else 1)


def _compare(one: Quantity, other: Quantity) -> int:
    return (one.nanos > other.nanos) - (one.nanos < other.nanos)


def _as_integer(value: Quantity) -> int:
    if not value.is_integer:
        raise EvaluationError("cannot convert value to integer", name="asInteger")
    return value.nanos // _NANO


def _as_float(value: Quantity) -> float:
    try:
        return value.nanos / _NANO
    except OverflowError:
        return math.inf if value.nanos > 0 else -math.inf


def _is_quantity(text: Any) -> bool:
    if type(text) is not str:
        raise no_overload("isQuantity", text)
    try:
        Quantity.parse(text)
    except EvaluationError:
        return False
    return True


LIBRARY = Library(
    (
        function("quantity", (STRING,), QUANTITY, Quantity.parse, price=_PRICE),
        function("isQuantity", (STRING,), BOOL, _is_quantity, price=_PRICE),
        function("sign", (QUANTITY,), INT, lambda value: (value.nanos > 0) - (value.nanos < 0)),
        method("isInteger", (QUANTITY,), BOOL, lambda value: value.is_integer),
        method("asInteger", (QUANTITY,), INT, _as_integer),
        method("asApproximateFloat", (QUANTITY,), DOUBLE, _as_float),
        method("isGreaterThan", (QUANTITY, QUANTITY), BOOL, lambda one, other: one.nanos > other.nanos),
        method("isLessThan", (QUANTITY, QUANTITY), BOOL, lambda one, other: one.nanos < other.nanos),
        method("compareTo", (QUANTITY, QUANTITY), INT, _compare),
        method("add", (QUANTITY, QUANTITY), QUANTITY, lambda one, other: _combined(one, other, 1)),
        method("add", (QUANTITY, INT), QUANTITY, lambda one, other: _combined(one, _integer(other), 1)),
        method("sub", (QUANTITY, QUANTITY), QUANTITY, lambda one, other: _combined(one, other, -1)),
        method("sub", (QUANTITY, INT), QUANTITY, _without),
    )
)

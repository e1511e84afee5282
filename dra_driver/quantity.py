"""Kubernetes quantities, exact: "40Gi", "1500m", "1e3".

The API server canonicalises what it stores ("0.5Gi" comes back as "512Mi"), so slices are compared by value;
and selectors compare user quantities with bytes. Both need the rules of apimachinery's resource.Quantity:
its suffixes, its rounding up to nano, its cap of binary ones at 2^63-1, and its canonical text. Values are kept as an
integer number of nano-units, so nothing is ever lost to floating point.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import total_ordering
from typing import Self

_NANO = 10**9
_CAP = (2**63 - 1) * _NANO
_SYNTAX = re.compile(r"^(?=.)([+-]?)(\d*(?:\.\d*)?)((?:[eE][+-]?\d+)|[KMGTPE]i|[numkMGTPE]?)\Z", re.ASCII)
_BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
_DECIMAL_EXPONENT = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENT.items()}
_NEEDS_DIGITS = frozenset({"Pi", "Ei"})
_MAX_EXPONENT = 512  # larger ones are beyond the cap, or below nano, anyway; keeps integers small


class Format(StrEnum):
    """How a quantity was written, and so how it is printed."""

    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount in nano-units with its notation; equality, order and hash look at the amount alone."""

    nanos: int
    format: Format = field(default=Format.DECIMAL_SI)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a quantity as the API server does; ValueError names what is wrong with `text`.

        The server takes a text without digits ("Gi", ".m") for zero, unless its suffix is one of the largest.
        """
        match = _SYNTAX.match(text)
        if match is None:
            msg = f"{text!r} is no quantity: expected a number with a suffix such as Mi, Gi, k, M or m"
            raise ValueError(msg)
        sign, number, suffix = match.groups()
        whole, _, fraction = number.partition(".")
        if not whole and not fraction and suffix in _NEEDS_DIGITS:
            raise ValueError(f"{text!r} is no quantity: expected a number before {suffix}")
        digits, scale = int((whole + fraction) or "0"), -len(fraction)
        if suffix in _BINARY:
            form, factor = Format.BINARY_SI, _BINARY[suffix]
        else:
            factor = 1
            if suffix in _DECIMAL_EXPONENT:
                form, exponent = Format.DECIMAL_SI, _DECIMAL_EXPONENT[suffix]
            else:
                form, exponent = Format.DECIMAL_EXPONENT, int(suffix[1:])
            scale += max(-_MAX_EXPONENT, min(_MAX_EXPONENT, exponent))
        amount = digits * factor * _NANO
        # Non-zero amounts below one nano become one nano: rounding is away from zero.
        amount = amount * 10**scale if scale >= 0 else -(-amount // 10**-scale)
        if form is Format.BINARY_SI:
            amount = min(amount, _CAP)
        if form is Format.BINARY_SI and 0 < amount < _NANO:
            form = Format.DECIMAL_SI
        return cls(-amount if sign == "-" else amount, form)

    @classmethod
    def of(cls, value: int) -> Self:
        """A whole number in decimal notation, for counts."""
        return cls(value * _NANO, Format.DECIMAL_SI)

    @classmethod
    def of_bytes(cls, value: int) -> Self:
        """A number of bytes in binary notation: 42949672960 -> 40Gi."""
        return cls(value * _NANO, Format.BINARY_SI)

    @property
    def is_integer(self) -> bool:
        return self.nanos % _NANO == 0

    @property
    def value(self) -> int:
        """The amount as an integer, rounded away from zero as Quantity.Value() does."""
        return -(-self.nanos // _NANO) if self.nanos >= 0 else self.nanos // _NANO

    def __str__(self) -> str:
        """The canonical text, as the API server would store it."""
        if self.format is Format.BINARY_SI and abs(self.nanos) >= 1024 * _NANO and self.is_integer:
            number, power = self.nanos // _NANO, 0
            while number % 1024 == 0 and power < 6:
                number, power = number // 1024, power + 1
            return f"{number}{('', *_BINARY)[power]}"
        if self.nanos == 0:
            return "0"
        number, exponent = self.nanos, -9
        while number % 1000 == 0 and exponent < 18:
            number, exponent = number // 1000, exponent + 3
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_SUFFIX[exponent]}"

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

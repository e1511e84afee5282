"""The standard definitions: operators (their types; `arithmetic` and `relations` compute them), size(), conversions."""

import math
import re
from decimal import Decimal
from typing import Any

from dra_driver.cel.arithmetic import int_of, uint_of
from dra_driver.cel.declarations import Library, Overload, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    parameter,
    type_of,
)
from dra_driver.cel.values import INT_MAX, INT_MIN, TypeValue, UInt, type_name

_A, _B = parameter("A"), parameter("B")
_LIST, _MAP = list_of(_A), map_of(_A, _B)
_DECIMAL = re.compile(r"[+-]?\d+", re.ASCII)
_DIGITS = r"\d+(?:_\d+)*"
_FLOAT = re.compile(
    rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?|[+-]?(?:inf|infinity)|nan",
    re.ASCII | re.IGNORECASE,
)
_HEX_DIGITS = r"[0-9a-f]+(?:_[0-9a-f]+)*"
_HEX_FLOAT = re.compile(
    rf"[+-]?0x_?(?:{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})p[+-]?{_DIGITS}",
    re.ASCII | re.IGNORECASE,
)
_PLAIN_POWERS = 6  # decimal exponents up to here are written out
_TRUE, _FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}


def _compiled_away(*_: Any) -> Any:
    """Stands in the table for operators, which the compiler has closures of its own for."""
    raise AssertionError("an operator is no function call")


def _operators(name: str, *signatures: tuple[tuple[Type, ...], Type]) -> list[Overload]:
    return [function(name, args, result, _compiled_away) for args, result in signatures]


def _same(name: str, *types: Type) -> list[Overload]:
    return _operators(name, *(((kind, kind), kind) for kind in types))


def _order(name: str) -> list[Overload]:
    ordered = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
    numbers = (INT, UINT, DOUBLE)
    pairs = [(kind, kind) for kind in ordered]
    pairs += [(left, right) for left in numbers for right in numbers if left is not right]
    return _operators(name, *((pair, BOOL) for pair in pairs))


def text_of_double(value: float) -> str:
    """As Go's %g: the fewest digits that say which double it is, with an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    if value and not -4 <= power < _PLAIN_POWERS:
        first, *rest = map(str, digits)
        mantissa = f"{first}.{''.join(rest)}" if rest else first
        return f"{'-' if sign else ''}{mantissa}e{power:+03d}"
    return format(Decimal(repr(value)), "f").removesuffix(".0")


def _int_of_double(value: float) -> int:
    if math.isnan(value) or not INT_MIN < value < INT_MAX:
        raise EvaluationError("integer overflow")
    return int_of(int(value))


def _uint_of_double(value: float) -> UInt:
    if math.isnan(value) or math.isinf(value):
        raise EvaluationError("unsigned integer overflow")
    return uint_of(int(value)) if value >= 0 else uint_of(-1)


def _int_of_text(text: str) -> int:
    if not _DECIMAL.fullmatch(text) or len(text) > 40:
        raise EvaluationError(f"string to int: invalid syntax: {text!r}")
    return int_of(int(text))


def _uint_of_text(text: str) -> UInt:
    if not _DECIMAL.fullmatch(text) or len(text) > 40 or text[0] in "+-":
        raise EvaluationError(f"string to uint: invalid syntax: {text!r}")
    return uint_of(int(text))


def _double_of_text(text: str) -> float:
    try:
        if _HEX_FLOAT.fullmatch(text):
            return float.fromhex(text.replace("_", ""))
    except OverflowError as error:
        raise EvaluationError("string to double: value out of range") from error
    if not _FLOAT.fullmatch(text):
        raise EvaluationError(f"string to double: invalid syntax: {text!r}")
    value = float(text)
    if math.isinf(value) and "i" not in text.lower():
        raise EvaluationError("string to double: value out of range")
    return value


def _bool_of_text(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise EvaluationError(f"string to bool: invalid syntax: {text!r}")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from error


def _same_value(value: Any) -> Any:
    return value


def _type(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


LIBRARY = Library(
    (
        *_operators("_?_:_", ((BOOL, _A, _A), _A)),
        *_operators("!_", ((BOOL,), BOOL)),
        *_operators("-_", ((DOUBLE,), DOUBLE), ((INT,), INT)),
        *_operators("_==_", ((_A, _A), BOOL)),
        *_operators("_!=_", ((_A, _A), BOOL)),
        *(overload for name in ("_<_", "_<=_", "_>_", "_>=_") for overload in _order(name)),
        *_same("_+_", BYTES, DOUBLE, DURATION, INT, _LIST, STRING, UINT),
        *_operators("_+_", ((DURATION, TIMESTAMP), TIMESTAMP), ((TIMESTAMP, DURATION), TIMESTAMP)),
        *_same("_-_", DOUBLE, DURATION, INT, UINT),
        *_operators("_-_", ((TIMESTAMP, DURATION), TIMESTAMP), ((TIMESTAMP, TIMESTAMP), DURATION)),
        *_same("_*_", DOUBLE, INT, UINT),
        *_same("_/_", DOUBLE, INT, UINT),
        *_same("_%_", INT, UINT),
        *_operators("@in", ((_A, _LIST), BOOL), ((_A, _MAP), BOOL)),
        *_operators("_[_]", ((_LIST, INT), _A), ((_MAP, _A), _B)),
        *_operators(
            "_[_]", ((optional_of(_LIST), INT), optional_of(_A)), ((optional_of(_MAP), _A), optional_of(_B))
        ),
        *_operators("_[?_]", ((_LIST, INT), optional_of(_A)), ((_MAP, _A), optional_of(_B))),
        *_operators(
            "_[?_]", ((optional_of(_LIST), INT), optional_of(_A)), ((optional_of(_MAP), _A), optional_of(_B))
        ),
        *(
            make("size", (kind,), INT, len)
            for make in (function, method)
            for kind in (BYTES, _LIST, _MAP, STRING)
        ),
        function("int", (INT,), INT, _same_value),
        function("int", (DOUBLE,), INT, _int_of_double),
        function("int", (DURATION,), INT, lambda value: value.nanos),
        function("int", (STRING,), INT, _int_of_text),
        function("int", (TIMESTAMP,), INT, lambda value: value.nanos // 10**9),
        function("int", (UINT,), INT, lambda value: int_of(int(value))),
        function("uint", (UINT,), UINT, _same_value),
        function("uint", (DOUBLE,), UINT, _uint_of_double),
        function("uint", (INT,), UINT, uint_of),
        function("uint", (STRING,), UINT, _uint_of_text),
        function("double", (DOUBLE,), DOUBLE, _same_value),
        function("double", (INT,), DOUBLE, float),
        function("double", (STRING,), DOUBLE, _double_of_text),
        function("double", (UINT,), DOUBLE, float),
        function("bool", (BOOL,), BOOL, _same_value),
        function("bool", (STRING,), BOOL, _bool_of_text),
        function("string", (STRING,), STRING, _same_value),
        function("string", (BOOL,), STRING, lambda value: "true" if value else "false"),
        function("string", (BYTES,), STRING, _text_of_bytes),
        function("string", (DOUBLE,), STRING, text_of_double),
        function("string", (INT,), STRING, str),
        function("string", (UINT,), STRING, lambda value: str(int(value))),
        function("bytes", (BYTES,), BYTES, _same_value),
        function("bytes", (STRING,), BYTES, str.encode),
        function("dyn", (_A,), DYN, _same_value),
        function("type", (_A,), type_of(_A), _type),
        method("contains", (STRING, STRING), BOOL, str.__contains__),
        method("startsWith", (STRING, STRING), BOOL, str.startswith),
        method("endsWith", (STRING, STRING), BOOL, str.endswith),
    ),
    types=(BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, list_of(DYN), map_of(DYN, DYN), type_of(DYN)),
)

"""What string.format() makes of its verbs: %s %d %f %e %b %o %x %X and %%.

Version 2 of the strings extension writes numbers as its default locale, en_US, does: %f groups thousands, and %e
writes a mantissa, a multiplication sign and a power of ten. What stands in lists and maps is written as CEL literals. A
constant template whose arguments are a list literal is checked at compile time.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.library.standard import text_of_double
from dra_driver.cel.library.time import text_of_duration, text_of_timestamp
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
    Kind,
    Type,
)
from dra_driver.cel.values import Duration, Timestamp, TypeValue, UInt, type_name

_VERB = re.compile(r"%(?:\.(\d+))?(.?)", re.DOTALL)
_VERBS = frozenset("sdfebxXo")
_MAX_PRECISION = 1000
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TYPES: dict[str, tuple[Type, ...]] = {
    "d": (INT, UINT),
    "f": (DOUBLE, STRING),
    "e": (DOUBLE, STRING),
    "b": (INT, UINT, BOOL),
    "o": (INT, UINT),
    "x": (INT, UINT, STRING, BYTES),
    "X": (INT, UINT, STRING, BYTES),
}
_TEXTS = frozenset({INT, UINT, DOUBLE, BOOL, STRING, BYTES, DURATION, TIMESTAMP, NULL})  # for %s, and
_TEXT_KINDS = frozenset({Kind.LIST, Kind.MAP, Kind.TYPE})
_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def format_string(frame: Frame, template: str, args: list[Any]) -> str:
    """The template with each verb replaced by its argument, in order."""
    position = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal position
        precision, verb = match.groups()
        if verb == "%":
            return "%"
        if verb not in _VERBS:
            raise _error(f'unrecognized formatting clause "{verb}"')
        if position >= len(args):
            raise _error(f"index {position} out of range")
        text = _text(frame, verb, None if precision is None else int(precision[:5]), args[position])
        position += 1
        charge(frame, 1 + len(text) // 10)
        return text

    return _VERB.sub(replace, template)


def check_format(template: str, args: Sequence[ast.Node]) -> str | None:
    """What is wrong with a constant template for these arguments; None where nothing is."""
    position = 0
    for precision, verb in _VERB.findall(template):
        if verb == "%":
            continue
        if verb not in _VERBS:
            return f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
        if precision and int(precision[:5]) > _MAX_PRECISION:
            return "precision of a formatting clause is too large"
        if position >= len(args):
            return f"index {position} out of range"
        unfit = _unfit_for(verb, args[position])
        if unfit is not None:
            return f"error during formatting: %{verb} cannot be used on {unfit}"
        position += 1
    if position < len(args):
        return f"too many arguments supplied to string.format call (expected {position}, got {len(args)})"
    return None


def _unfit_for(verb: str, node: ast.Node) -> Type | None:
    """The type that the verb cannot write: the argument's, or of a part of a literal; dyn may turn out to fit."""
    kind = node.type
    fits = kind in _TYPES[verb] if verb in _TYPES else kind in _TEXTS or kind.kind in _TEXT_KINDS
    if kind != DYN and not fits:
        return kind
    parts: Iterable[ast.Node] = ()
    if verb == "s" and isinstance(node, ast.ListLiteral):
        parts = node.items
    elif verb == "s" and isinstance(node, ast.MapLiteral):
        parts = (part for entry in node.entries for part in (entry.key, entry.value))
    return next((unfit for part in parts if (unfit := _unfit_for(verb, part)) is not None), None)


def _error(message: str) -> EvaluationError:
    return EvaluationError(message, name="format")


def _unfit(verb: str, value: Any) -> EvaluationError:
    return _error(f"error during formatting: %{verb} cannot be used on {type_name(value)}")


def _text(frame: Frame, verb: str, precision: int | None, value: Any) -> str:
    if precision is not None and precision > _MAX_PRECISION:
        raise _error("precision of a formatting clause is too large")
    if verb == "s":
        return _string(frame, value)
    if verb in "fe":
        return _float(verb, 6 if precision is None else precision, value)
    kind = type(value)
    if verb in "xX" and kind in {str, bytes}:
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits.upper() if verb == "X" else digits
    if kind in {int, UInt} or (verb == "b" and kind is bool):
        return format(int(value), verb)
    raise _unfit(verb, value)


def _float(verb: str, precision: int, value: Any) -> str:
    if value in ("NaN", "Infinity", "-Infinity"):
        value = float(value)
    if type(value) is not float:
        raise _unfit(verb, value)
    if math.isnan(value) or math.isinf(value):
        return {"nan": "NaN", "inf": "∞", "-inf": "-∞"}[str(value)]
    if verb == "f":
        return format(value, f",.{precision}f")
    mantissa, _, exponent = format(value, f".{precision}e").partition("e")
    return f"{mantissa}\u00d710{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}"


def _string(frame: Frame, value: Any) -> str:
    charge(frame, 3)
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return text_of_double(value)
        case int():
            return str(int(value))
        case bytes():
            return _decoded(value)
        case Duration():
            return text_of_duration(value)
        case Timestamp():
            return text_of_timestamp(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(_element(frame, item) for item in value)}]"
        case dict():
            pairs = sorted((_key(frame, key), _element(frame, item)) for key, item in value.items())
            return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
        case _:
            raise _unfit("s", value)


def _element(frame: Frame, value: Any) -> str:
    """A part of a list or map, as it could be written in an expression."""
    match value:
        case str():
            return _quoted(value)
        case bytes():
            return f"b{_quoted(_decoded(value))}"
        case float() if math.isfinite(value):
            return f"{value:.6f}"
        case float():
            return _quoted(text_of_double(value))
        case Duration():
            return f'duration("{text_of_duration(value)}")'
        case Timestamp():
            return f'timestamp("{text_of_timestamp(value)}")'
        case _:
            return _string(frame, value)


def _key(frame: Frame, key: Any) -> str:
    if type(key) not in {str, bool, int, UInt}:
        raise _error(f"error during formatting: no formatting function for map key of type {type_name(key)}")
    return _element(frame, key)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise _error("error during formatting: bytes that are not UTF-8 cannot be text") from error


def _quoted(text: str) -> str:
    """As Go's %q."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

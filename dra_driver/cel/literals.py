"""The value of a literal token: numbers within 64 bits, strings and bytes with their escapes resolved."""

import re
from collections.abc import Callable
from typing import Any

from dra_driver.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, Type
from dra_driver.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\"'`?\\])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))",
    re.DOTALL,
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def integer(text: str) -> int:
    """ValueError where the number does not fit in 64 bits."""
    value = int(text, 16 if "0x" in text else 10)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def unsigned(text: str) -> UInt:
    """ValueError where the number does not fit in 64 bits."""
    value = int(text[:-1], 16 if "0x" in text else 10)
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return UInt(value)


def string(text: str) -> str:
    """ValueError names an escape that CEL does not know."""
    raw, body = _body(text)
    if raw:
        return body

    def replace(match: re.Match[str]) -> str:
        simple, *coded, octal, unknown = match.groups()
        if unknown is not None:
            raise ValueError(f"token recognition error: unknown escape sequence \\{unknown}")
        if simple is not None:
            return _SIMPLE.get(simple, simple)
        code = int(octal, 8) if octal else int(next(digits for digits in coded if digits), 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError(f"invalid unicode code point {code:#x}")
        return chr(code)

    return _ESCAPE.sub(replace, body)


def bytes_(text: str) -> bytes:
    """In bytes, \\x and octal escapes are single bytes, everything else is UTF-8; \\u is refused."""
    raw, body = _body(text[1:])
    if raw:
        return body.encode()
    parts, position = [], 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[position : match.start()].encode())
        position = match.end()
        simple, hexadecimal, short, long, octal, unknown = match.groups()
        if unknown is not None or short or long:
            raise ValueError(f"token recognition error: escape sequence {match[0]} in bytes")
        if simple is not None:
            parts.append(_SIMPLE.get(simple, simple).encode())
        else:
            parts.append(bytes([int(octal, 8) if octal else int(hexadecimal, 16)]))
    parts.append(body[position:].encode())
    return b"".join(parts)


def _body(text: str) -> tuple[bool, str]:
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quotes = 3 if text[:3] in {'"""', "'''"} else 1
    return raw, text[quotes:-quotes]


LITERALS: dict[str, tuple[Type, Callable[[str], Any]]] = {
    "INT_LIT": (INT, integer),
    "UINT_LIT": (UINT, unsigned),
    "FLOAT_LIT": (DOUBLE, float),
    "STRING_LIT": (STRING, string),
    "MLSTRING_LIT": (STRING, string),
    "BYTES_LIT": (BYTES, bytes_),
    "TRUE_LIT": (BOOL, lambda _: True),
    "FALSE_LIT": (BOOL, lambda _: False),
    "NULL_LIT": (NULL, lambda _: None),
}
"""Type and reader of each terminal of the grammar."""

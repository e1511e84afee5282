"""The strings extension, version 2; positions count code points."""

from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.declarations import Library, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.library.formatting import format_string
from dra_driver.cel.types import DYN, INT, STRING, list_of

_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
_TO_LOWER, _TO_UPPER = str.maketrans(_UPPER, _LOWER), str.maketrans(_LOWER, _UPPER)
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_QUOTED = str.maketrans(
    {
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
)


def _out_of_range(position: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {position}")


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part) if part else len(text)
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = len(text)
        if not 0 <= start <= end:
            raise _out_of_range(start)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def _replace(frame: Frame, text: str, old: str, new: str, limit: int = -1) -> str:
    found = text.count(old)
    times = found if limit < 0 else min(found, limit)
    charge(frame, 1 + (len(text) + times * len(new)) // 10)  # before the string is made
    return text.replace(old, new, times)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if 0 < limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return list(text)


def _join(frame: Frame, items: list[Any], separator: str = "") -> str:
    if not all(type(item) is str for item in items):
        raise EvaluationError("no such overload: join", name="join")
    charge(frame, 1 + (sum(map(len, items)) + len(separator) * len(items)) // 10)
    return separator.join(items)


LIBRARY = Library(
    (
        method("charAt", (STRING, INT), STRING, _char_at),
        method("indexOf", (STRING, STRING), INT, _index_of),
        method("indexOf", (STRING, STRING, INT), INT, _index_of),
        method("lastIndexOf", (STRING, STRING), INT, _last_index_of),
        method("lastIndexOf", (STRING, STRING, INT), INT, _last_index_of),
        method("lowerAscii", (STRING,), STRING, lambda text: text.translate(_TO_LOWER)),
        method("upperAscii", (STRING,), STRING, lambda text: text.translate(_TO_UPPER)),
        method("substring", (STRING, INT), STRING, _substring),
        method("substring", (STRING, INT, INT), STRING, _substring),
        method("replace", (STRING, STRING, STRING), STRING, _replace, metered=True),
        method("replace", (STRING, STRING, STRING, INT), STRING, _replace, metered=True),
        method("split", (STRING, STRING), list_of(STRING), _split),
        method("split", (STRING, STRING, INT), list_of(STRING), _split),
        method("join", (list_of(STRING),), STRING, _join, metered=True),
        method("join", (list_of(STRING), STRING), STRING, _join, metered=True),
        method("trim", (STRING,), STRING, lambda text: text.strip(_SPACE)),
        method("format", (STRING, list_of(DYN)), STRING, format_string, metered=True),
        function("strings.quote", (STRING,), STRING, lambda text: f'"{text.translate(_QUOTED)}"'),
    )
)

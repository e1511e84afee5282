"""Regular expressions in RE2, which cannot backtrack: matches(), find(), findAll()."""

import functools
import re
from typing import Any

import re2

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.declarations import Library, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.types import BOOL, INT, STRING, list_of

_REFUSED = 100_000  # what a pattern costs that turns out to be none, or too large
_MATCH = 15  # what one more match costs
_BYTE = re.compile(r"(?s)\\Q.*?(?:\\E|\Z)|\\(.)")  # quoted text, or one escape


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 writes to stderr otherwise
    options.max_mem = 8 << 20
    return options


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The compiled pattern; EvaluationError where it is no RE2 syntax as Go has it: without \\C, any one byte."""
    if "\\C" in pattern and any(match[1] == "C" for match in _BYTE.finditer(pattern)):
        raise EvaluationError(f"error parsing regexp: invalid escape sequence: `\\C`: `{pattern}`")
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        text = error.args[0] if error.args else "syntax error"
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        raise EvaluationError(f"error parsing regexp: {text}: `{pattern}`") from error


def _ready(frame: Frame, text: str, pattern: str) -> Any:
    """The compiled pattern, paid for: it is compiled in time with its program, and run in time with text and program."""
    try:
        expression = compiled(pattern)
    except EvaluationError:
        charge(frame, _REFUSED)
        raise
    charge(frame, 1 + expression.programsize // 2 + len(text) * expression.programsize // 30)
    return expression


def _matches(frame: Frame, text: str, pattern: str) -> bool:
    return _ready(frame, text, pattern).search(text) is not None


def _find(frame: Frame, text: str, pattern: str) -> str:
    match = _ready(frame, text, pattern).search(text)
    return "" if match is None else str(match.group())


def _find_all(frame: Frame, text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    end = -1
    for match in _ready(frame, text, pattern).finditer(text):
        charge(frame, _MATCH)
        if 0 <= limit <= len(found):
            break
        if match.end() > match.start() or match.start() != end:  # Go: nothing right after a match is no match
            found.append(match.group())
        end = match.end()
    return found


LIBRARY = Library(
    (
        function("matches", (STRING, STRING), BOOL, _matches, metered=True),
        method("matches", (STRING, STRING), BOOL, _matches, metered=True),
        method("find", (STRING, STRING), STRING, _find, metered=True),
        method("findAll", (STRING, STRING), list_of(STRING), _find_all, metered=True),
        method("findAll", (STRING, STRING, INT), list_of(STRING), _find_all, metered=True),
    )
)

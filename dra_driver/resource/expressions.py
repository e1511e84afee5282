"""Selectors: CEL expressions inside claims and classes.

This room is pure and knows no CEL, so whoever can compile hands a function in; without one, only the shape and
the length of a selector are judged.
"""

from collections.abc import Callable, Iterator
from typing import Any

from dra_driver.resource.limits import MAX_EXPRESSION_BYTES, MAX_SELECTORS
from dra_driver.resource.names import size
from dra_driver.resource.problems import (
    Problem,
    child,
    forbidden,
    index,
    invalid,
    required,
    too_long,
    too_many,
)

TOO_COMPLEX = "too complex, exceeds cost limit"

CompileSelector = Callable[[str], str | None]
"""What is wrong with an expression (one text, without the expression), None where it compiles to a bool.

`TOO_COMPLEX` is the answer for one whose estimated cost is over the limit.
"""


def no_compiler(_: str) -> str | None:
    """For callers without a CEL compiler: no expression is refused."""
    return None


def selectors(entries: list[Any], path: str, compile_selector: CompileSelector) -> Iterator[Problem]:
    if len(entries) > MAX_SELECTORS:
        yield too_many(path, len(entries), MAX_SELECTORS)
        return
    for position, entry in enumerate(entry or {} for entry in entries):
        where = child(index(path, position), "cel")
        cel = entry.get("cel")
        if cel is None:
            yield required(where)
        else:
            yield from _expression(cel.get("expression") or "", child(where, "expression"), compile_selector)


def _expression(text: str, path: str, compile_selector: CompileSelector) -> Iterator[Problem]:
    if size(text) > MAX_EXPRESSION_BYTES:
        yield too_long(path, MAX_EXPRESSION_BYTES)
        return
    match compile_selector(text):
        case None:
            return
        case str(reason) if reason == TOO_COMPLEX:
            yield forbidden(path, reason)
        case str(reason):
            yield invalid(path, text, reason)

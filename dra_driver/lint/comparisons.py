"""Comparisons in selectors, as people write them, and whether they hold for a device."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.library import regex
from dra_driver.cel.library.quantity import Quantity
from dra_driver.cel.library.semver import Semver
from dra_driver.lint.devices import KnownDevice
from dra_driver.lint.expressions import Expression
from dra_driver.selectors.comparisons import Comparison, Kind, Recognizer
from dra_driver.selectors.reads import Read

_SIGNS: dict[str, Callable[[int], bool]] = {
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
    "==": lambda sign: sign == 0,
    "!=": lambda sign: sign != 0,
}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, part: part in value,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "matches": lambda value, pattern: regex.compiled(pattern).search(value) is not None,
}
_WRAPPERS = {"lowerAscii": str.lower, "upperAscii": str.upper}


def comparisons(expression: Expression) -> Iterator[Comparison]:
    """The comparisons with a quantity, a version or texts that all have to hold: those that && connects at the top."""
    if expression.tree is not None:
        known = _recognizer(expression)
        for node in _conjuncts(expression.tree):
            found = known.comparison(node) or _membership(expression, node)
            if found is not None and constant(found) is not None and _is_pattern(found):
                yield found


def constant(comparison: Comparison) -> Quantity | Semver | str | tuple[str, ...] | None:
    """What the value is compared with; None where it is none of these, or malformed."""
    if comparison.kind != "plain":
        return _parsed(comparison.kind, comparison.wanted)
    return comparison.wanted if isinstance(comparison.wanted, str | tuple) else None


def constant_of(expression: Expression, node: ast.Node) -> Any:
    """A text, number, bool, quantity or version that is known without a device; None where none is, or it is malformed."""
    known = _recognizer(expression).constant(node)
    if known is None:
        return None
    kind, wanted, _ = known
    return wanted if kind == "plain" else _parsed(kind, wanted)


def holds(comparison: Comparison, device: KnownDevice) -> bool | None:
    """Whether it holds for a device; None where the device's value is unknown or something else."""
    if comparison.read in device.varying:
        return None
    value, other = device.values.get(comparison.read), constant(comparison)
    match value, other:
        case str(), str() | tuple():
            call = comparison.value
            if isinstance(call, ast.Call) and call.function in _WRAPPERS:
                value = _WRAPPERS[call.function](value)
            if isinstance(other, tuple):
                return value in other
            test = _TEXT_TESTS.get(comparison.relation)
            return _signed(comparison, value, other) if test is None else test(value, other)
        case Quantity(), Quantity():
            return _signed(comparison, value.nanos, other.nanos)
        case Semver(), Semver():
            return _signed(comparison, value, other)
        case _:
            return None


def _signed(comparison: Comparison, value: Any, other: Any) -> bool:
    return _SIGNS[comparison.relation]((value > other) - (value < other))


def _conjuncts(node: ast.Node) -> Iterator[ast.Node]:
    """The parts of a chain of &&; looks through cel.bind."""
    match node:
        case ast.Call(function="_&&_", args=args):
            for arg in args:
                yield from _conjuncts(arg)
        case ast.Bind(body=body):
            yield from _conjuncts(body)
        case _:
            yield node


def _recognizer(expression: Expression) -> Recognizer:
    return Recognizer(functools.partial(_read_of, expression), expression.constant)


def _read_of(expression: Expression, node: ast.Node) -> Read | None:
    if isinstance(node, ast.Call) and node.function in _WRAPPERS and node.target is not None:
        node = node.target
    return expression.read_of(node)


def _membership(expression: Expression, node: ast.Node) -> Comparison | None:
    """`x in ["a", "b"]`."""
    match node:
        case ast.Call(function="@in", args=[value, ast.ListLiteral(items=items) as listed]):
            read = _read_of(expression, value)
            texts = tuple(text for item in items if (text := expression.constant(item)) is not None)
            if read is not None and texts and len(texts) == len(items):
                return Comparison(read, "in", "plain", texts, node, value, listed)
    return None


def _is_pattern(comparison: Comparison) -> bool:
    """Whether a regular expression is one; the compiler has looked at literals only."""
    try:
        return comparison.relation != "matches" or bool(regex.compiled(comparison.wanted))
    except EvaluationError:
        return False


@functools.lru_cache(maxsize=1024)
def _parsed(kind: Kind, text: str) -> Quantity | Semver | None:
    try:
        return Quantity.parse(text) if kind == "quantity" else Semver.parse(text)
    except EvaluationError:
        return None

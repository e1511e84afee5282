"""What a selector demands of a device, part by part: which of its conditions fail, and by how much.

A selector is split at its outer `&&`; each condition is an expression of its own. One that compares a value of the
device with a constant (`memory.compareTo(quantity("80Gi")) >= 0`, `productName == "..."`) can be told in words and
has a distance; any other can only be shown with the values it read.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dra_driver.cel import CompileError, ast
from dra_driver.cel.parser import parse
from dra_driver.cel.text import literal, text
from dra_driver.selectors.reads import Read, is_read

Relation = Literal[
    "<", "<=", ">", ">=", "==", "!=", "contains", "startsWith", "endsWith", "matches", "present"
]
Kind = Literal["quantity", "semver", "plain"]

MIRRORED: Mapping[str, Relation] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
OPPOSITE: Mapping[str, Relation] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_METHODS: Mapping[str, Relation] = {
    "isGreaterThan": ">",
    "isLessThan": "<",
    "contains": "contains",
    "startsWith": "startsWith",
    "endsWith": "endsWith",
    "matches": "matches",
}
_LITERAL = re.compile(r"""[rR]?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|-?[\w.]+""")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition of the form `value relation constant`."""

    read: Read
    relation: Relation
    kind: Kind
    wanted: Any
    place: tuple[int, int]  # line and column of the constant

    @property
    def ordered(self) -> bool:
        return self.relation in {"<", "<=", ">", ">="}


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the expressions that a selector joins with `&&`."""

    text: str
    comparison: Comparison | None


@functools.lru_cache(maxsize=1024)
def conditions(expression: str) -> tuple[Condition, ...]:
    """The conditions of an expression that compiles; the whole of it where it cannot be split."""
    try:
        tree = parse(expression)
    except CompileError:
        return (Condition(expression, None),)
    parts = _split(tree)
    texts = [text(part) for part in parts]
    if len(parts) == 1 or None in texts:
        return (Condition(expression, _comparison(tree)),)
    return tuple(
        Condition(written or "", _comparison(part)) for part, written in zip(parts, texts, strict=True)
    )


def with_constant(expression: str, comparison: Comparison, value: Any) -> str:
    """The expression with another constant in one of its comparisons."""
    line, column = comparison.place
    lines = expression.split("\n")
    start = sum(len(one) + 1 for one in lines[: line - 1]) + column - 1
    found = _LITERAL.match(expression, start)
    if found is None:
        return expression
    written = literal(value)
    if found[0].startswith("'") and "'" not in written:
        written = f"'{written[1:-1]}'"
    return expression[:start] + written + expression[found.end() :]


def _split(node: ast.Node) -> list[ast.Node]:
    match node:
        case ast.Call(function="_&&_", args=args):
            return [part for arg in args for part in _split(arg)]
        case ast.Bind():
            inner = _split(node.body)
            if len(inner) == 1:
                return [node]
            return [
                ast.Bind(node.variable, node.value, one, line=node.line, column=node.column) for one in inner
            ]
        case _:
            return [node]


def _comparison(node: ast.Node) -> Comparison | None:
    match node:
        case ast.Call(function="!_", args=[ast.Call() as inner]):
            found = _comparison(inner)
            if found is None or found.relation not in OPPOSITE:
                return None
            return _related(found, OPPOSITE[found.relation])
        case ast.Call(function="!_", args=[operand]):
            return _bool(operand, wanted=False)
        case ast.Call(
            function=("_<_" | "_<=_" | "_>_" | "_>=_" | "_==_" | "_!=_") as name, args=[left, right]
        ):
            relation = name.strip("_")
            return _binary(left, relation, right) or _binary(right, MIRRORED[relation], left)
        case ast.Call(function=name, target=ast.Node() as target, args=[argument]) if name in _METHODS:
            return _of(target, _METHODS[name], argument)
        case ast.Select(test=True):
            read = is_read(_value_of(node))
            return (
                None if read is None else Comparison(read, "present", "plain", None, (node.line, node.column))
            )
        case ast.Select() | ast.Call():
            return _bool(node, wanted=True)
        case _:
            return None


def _related(comparison: Comparison, relation: Relation) -> Comparison:
    return Comparison(comparison.read, relation, comparison.kind, comparison.wanted, comparison.place)


def _bool(node: ast.Node, *, wanted: bool) -> Comparison | None:
    read = is_read(_peeled(node))
    return None if read is None else Comparison(read, "==", "plain", wanted, (node.line, node.column))


def _binary(left: ast.Node, relation: str, right: ast.Node) -> Comparison | None:
    match left, right:
        case ast.Call(function="compareTo", target=ast.Node() as target, args=[argument]), ast.Literal(
            value=0
        ):
            return _of(target, relation, argument)
        case _:
            return _of(left, relation, right)


def _of(target: ast.Node, relation: Any, argument: ast.Node) -> Comparison | None:
    read = is_read(_peeled(target))
    if read is None:
        return None
    match argument:
        case ast.Literal(value=str() | int() | float() as value):
            return Comparison(read, relation, "plain", value, (argument.line, argument.column))
        case ast.Call(
            function=("quantity" | "semver") as kind,
            target=None,
            args=[ast.Literal(value=str() as value) as inner],
        ):
            return Comparison(read, relation, kind, value, (inner.line, inner.column))
        case _:
            return None


def _peeled(node: ast.Node) -> ast.Node:
    """`x` of `x.orValue(...)`."""
    match node:
        case ast.Call(function="orValue" | "value", target=ast.Node() as target):
            return target
        case _:
            return node


def _value_of(node: ast.Select) -> ast.Node:
    """What has(...) asks for, as a read of it."""
    return ast.Select(node.operand, node.field, line=node.line, column=node.column)

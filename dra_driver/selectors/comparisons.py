"""What a selector demands of a device, part by part: which of its conditions fail, and by how much.

A selector is split at its outer `&&`; each condition is an expression of its own. One that compares a value of the
device with a constant (`memory.compareTo(quantity("80Gi")) >= 0`, `productName == "..."`) can be told in words and
has a distance; any other can only be shown with the values it read.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dra_driver.cel import CompileError, ast
from dra_driver.cel.parser import parse
from dra_driver.cel.text import literal, text
from dra_driver.selectors.reads import Read, is_read
from dra_driver.versions import driver_semver

Relation = Literal[
    "<", "<=", ">", ">=", "==", "!=", "contains", "startsWith", "endsWith", "matches", "present", "in"
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
    wanted: Any  # a quantity or version as its text, else the constant itself
    node: ast.Node = field(repr=False)  # all of it
    value: ast.Node = field(repr=False)  # what is compared
    constant: ast.Node = field(repr=False)  # what it is compared with; of a quantity or version its text

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
        return (Condition(expression, _LITERALLY.comparison(tree)),)
    return tuple(
        Condition(written or "", _LITERALLY.comparison(part))
        for part, written in zip(parts, texts, strict=True)
    )


def with_constant(expression: str, comparison: Comparison, value: Any) -> str:
    """The expression with another constant in one of its comparisons."""
    line, column = comparison.constant.line, comparison.constant.column
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


@dataclass(frozen=True, slots=True)
class Recognizer:
    """Tells whether a node is a comparison, by which of the nodes below it are values and which are known texts."""

    read_of: Callable[[ast.Node], Read | None]
    text_of: Callable[[ast.Node], str | None]

    def comparison(self, node: ast.Node) -> Comparison | None:
        """The comparison that the node is."""
        match node:
            case ast.Call(function="!_", args=[ast.Call() as inner]):
                found = self.comparison(inner)
                if found is None or found.relation not in OPPOSITE:
                    return None
                return replace(found, relation=OPPOSITE[found.relation], node=node)
            case ast.Call(function="!_", args=[operand]):
                return self._bool(operand, node, wanted=False)
            case ast.Call(
                function=("_<_" | "_<=_" | "_>_" | "_>=_" | "_==_" | "_!=_") as name, args=[left, right]
            ):
                relation = name.strip("_")
                return self._binary(left, relation, right, node) or self._binary(
                    right, MIRRORED[relation], left, node
                )
            case ast.Call(function=name, target=ast.Node() as target, args=[argument]) if name in _METHODS:
                return self._either(target, _METHODS[name], argument, node)
            case ast.Select(test=True):
                value = ast.Select(node.operand, node.field, line=node.line, column=node.column)
                read = self.read_of(value)
                return None if read is None else Comparison(read, "present", "plain", None, node, value, node)
            case ast.Select() | ast.Call():
                return self._bool(node, node, wanted=True)
            case _:
                return None

    def _bool(self, value: ast.Node, node: ast.Node, *, wanted: bool) -> Comparison | None:
        read = self.read_of(value)
        return None if read is None else Comparison(read, "==", "plain", wanted, node, value, value)

    def _binary(self, left: ast.Node, relation: str, right: ast.Node, node: ast.Node) -> Comparison | None:
        match left, right:
            case ast.Call(function="compareTo", target=ast.Node() as target, args=[argument]), ast.Literal(
                value=0
            ):
                return self._either(target, relation, argument, node)
            case _:
                return self._of(left, relation, right, node)

    def _either(self, left: ast.Node, relation: str, right: ast.Node, node: ast.Node) -> Comparison | None:
        found = self._of(left, relation, right, node)
        if found is None and relation in MIRRORED:
            return self._of(right, MIRRORED[relation], left, node)
        return found

    def _of(self, value: ast.Node, relation: Any, other: ast.Node, node: ast.Node) -> Comparison | None:
        read, known = self.read_of(value), self.constant(other)
        if read is None or known is None:
            return None
        kind, wanted, constant = known
        return Comparison(read, relation, kind, wanted, node, value, constant)

    def constant(self, node: ast.Node) -> tuple[Kind, Any, ast.Node] | None:
        """The kind and value of a constant, as a comparison has them, and where it stands."""
        text = self.text_of(node)
        if text is not None:
            return "plain", text, node
        match node:
            case ast.Literal(value=int() | float() as number):
                return "plain", number, node
            case ast.Call(function=("quantity" | "semver") as kind, target=None, args=[inner]):
                text = self.text_of(inner)
                return None if text is None else (kind, text, inner)
            case ast.Call(function="semver", target=None, args=[inner, ast.Literal(value=True)]):
                text = self.text_of(inner)
                strict = None if text is None or "-" in text else driver_semver(text)  # "v1.2" is 1.2.0
                return None if strict is None else ("semver", strict, inner)
            case _:
                return None


def _read_of(node: ast.Node) -> Read | None:
    """The value that a node is, also `x.orValue(...)`."""
    match node:
        case ast.Call(function="orValue" | "value", target=ast.Node() as target):
            return is_read(target)
        case _:
            return is_read(node)


def _text_of(node: ast.Node) -> str | None:
    return node.value if isinstance(node, ast.Literal) and isinstance(node.value, str) else None


_LITERALLY = Recognizer(_read_of, _text_of)

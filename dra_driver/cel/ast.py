"""The abstract syntax of an expression, macros expanded.

Nodes carry the place messages point at (the operator, dot or parenthesis, as cel-go does) and, once checked, their
type. Macros have nodes of their own instead of cel-go's folds: a closure for `exists` is then a plain loop.
"""

from dataclasses import dataclass, field
from typing import Any

from dra_driver.cel.declarations import Overload
from dra_driver.cel.types import DYN, Type


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    line: int
    column: int
    type: Type = DYN  # set by the checker


@dataclass(slots=True, eq=False)
class Literal(Node):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.field`, `operand.?field` (optional), or has(operand.field) (test)."""

    operand: Node
    field: str
    optional: bool = False
    test: bool = False
    qualified: str | None = None  # set by the checker where the whole chain names a type or variable


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function, method or operator (named as cel-go does: `_+_`, `_[_]`, `!_`)."""

    function: str
    target: Node | None
    args: list[Node]
    overloads: tuple[Overload, ...] = ()  # set by the checker: those with as many arguments


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    items: list[Node]
    optional: frozenset[int] = frozenset()  # indices of `?item`


@dataclass(slots=True, eq=False)
class Entry:
    key: Node
    value: Node
    optional: bool


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class StructLiteral(Node):
    name: str
    values: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A macro that loops: `over.kind(variables..., condition, result)`."""

    kind: str
    over: Node
    variables: tuple[str, ...]
    condition: Node | None
    result: Node | None


@dataclass(slots=True, eq=False)
class Bind(Node):
    """cel.bind(variable, value, body)."""

    variable: str
    value: Node
    body: Node

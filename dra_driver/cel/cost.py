"""What an expression may cost at worst, estimated without values.

Kubernetes refuses selectors whose estimate is over a budget. This follows cel-go's cost model in its shape: one
unit for each name, field and call, text by length (a tenth a character, a pattern a quarter), the body of a loop
as often as its range may be long. How long something may be is asked from `sizes`, by its path from a variable
("[]" for any element, "{}" for any key); for what no path leads to, it comes from what made it. Of many functions'
results cel-go knows no bound: reading such a text, as in `.?model.orValue("").contains("H100")`, is over any budget,
while comparing it with a known one is not. Counts of single functions may differ from cel-go's.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.types import BOOL, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT, Kind, list_of

Path = tuple[str, ...]
Sizes = Callable[[Path], int | None]

_UNKNOWN_SIZE = math.inf
_TEXT, _PATTERN = 0.1, 0.25
_LIST, _MAP = 10, 30  # what making one costs
_LOOP = 4  # what the loop itself costs, an iteration
_PATTERNS = frozenset({"matches", "find", "findAll"})
_COMPARISONS = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_SINGLE = frozenset(
    {
        "hasValue",
        "value",
        "orValue",
        "or",
        "optional.of",
        "optional.ofNonZeroValue",
        "optional.none",
        "size",
        "type",
    }
    | {"isInteger", "asInteger", "compareTo", "isGreaterThan", "isLessThan", "add", "sub", "first", "last"}
    | {"bool", "double", "duration", "int", "timestamp", "uint"}
    | {"_+_", "_-_", "_*_", "_/_", "_%_", "-_"}
)
_KEEP_SIZE = frozenset(
    {
        "lowerAscii",
        "upperAscii",
        "replace",
        "substring",
        "trim",
        "find",
        "charAt",
        "reverse",
        "string",
        "bytes",
    }
    | {"slice", "sort", "sortBy", "distinct", "flatten", "split", "findAll"}
)
_COMPARE_ELEMENTS = frozenset({"isSorted", "min", "max", "indexOf", "lastIndexOf", "join"})
_SCALARS = frozenset({BOOL, INT, UINT, DOUBLE, DURATION, TIMESTAMP, NULL})


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Units, how long the value and any element of it may be, and its path where it comes straight from a variable."""

    cost: float
    size: float = 1
    path: Path | None = None
    element: float = math.inf


def estimate(root: ast.Node, sizes: Sizes) -> float:
    """The worst cost of a checked expression; infinite where there is no bound."""
    return _Estimator(sizes).visit(root, {}).cost


class _Estimator:
    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes

    def visit(self, node: ast.Node, scope: Mapping[str, _Estimate]) -> _Estimate:
        visit: Callable[[Any, Any, Any], _Estimate] = _VISITORS[type(node)]
        return visit(self, node, scope)

    def _at(self, path: Path | None, cost: float) -> _Estimate:
        size = None if path is None else self._sizes(path)
        return _Estimate(cost, _UNKNOWN_SIZE if size is None else size, path)

    def literal(self, node: ast.Literal, _scope: Mapping[str, _Estimate]) -> _Estimate:
        return _Estimate(0, len(node.value) if isinstance(node.value, (str, bytes)) else 1)

    def ident(self, node: ast.Ident, scope: Mapping[str, _Estimate]) -> _Estimate:
        return scope[node.name] if node.name in scope else self._at((node.name,), 1)

    def select(self, node: ast.Select, scope: Mapping[str, _Estimate]) -> _Estimate:
        operand = self.visit(node.operand, scope)
        if node.test:
            return _Estimate(operand.cost)
        return self._at(operand.path and (*operand.path, node.field), operand.cost + 1)

    def call(self, node: ast.Call, scope: Mapping[str, _Estimate]) -> _Estimate:
        parts = [self.visit(arg, scope) for arg in ([node.target] if node.target else []) + node.args]
        cost, sizes, name = sum(part.cost for part in parts), [part.size for part in parts], node.function
        if name in {"_&&_", "_||_", "!_"}:
            return _Estimate(cost)
        if name == "_?_:_":
            condition, yes, no = parts
            return _Estimate(condition.cost + max(yes.cost, no.cost), max(yes.size, no.size))
        if name == "dyn":
            return replace(parts[0], cost=cost + 1)
        if name in {"_[_]", "_[?_]"}:
            return self._element(parts[0], cost + 1)
        if name in _COMPARISONS:
            if name == "_==_" and all(part.type.kind is not Kind.TYPE for part in node.args):
                sizes.append(1 if math.isinf(min(sizes)) else min(sizes))  # of the libraries' own types
            return _Estimate(cost + _share(min(sizes), _TEXT))
        if name == "@in":
            return _Estimate(cost + sizes[1])
        if name in _PATTERNS:
            return _Estimate(cost + _share(sizes[0], _TEXT) * _share(sizes[1], _PATTERN), sizes[0])
        if name == "contains":
            return _Estimate(cost + _share(sizes[0], _TEXT) * _share(sizes[1], _TEXT))
        if name.startswith("sets."):
            return _Estimate(cost + sizes[0] * sizes[1])
        if name == "_+_" and node.type not in _SCALARS:
            return _Estimate(cost + _share(sum(sizes), _TEXT), sum(sizes))
        if name == "lists.range":
            literal = node.args[0]
            size = literal.value if isinstance(literal, ast.Literal) else _UNKNOWN_SIZE
            return _Estimate(cost + 1, max(size, 0))
        if name in _COMPARE_ELEMENTS and node.target is not None and node.target.type == list_of(STRING):
            return _Estimate(math.inf)
        size = 1 if node.type in _SCALARS else _UNKNOWN_SIZE
        if name in _SINGLE or not sizes:
            return _Estimate(cost + 1, size)
        if name in {"startsWith", "endsWith"}:
            return _Estimate(cost + _share(sizes[1], _TEXT))
        args = [node.target, *node.args] if node.target else node.args
        longest = max(
            1 if arg.type.kind is Kind.OPAQUE else size for arg, size in zip(args, sizes, strict=True)
        )
        return _Estimate(cost + _share(longest, _TEXT), longest if name in _KEEP_SIZE else size)

    def _element(self, container: _Estimate, cost: float) -> _Estimate:
        found = self._at(container.path and (*container.path, "[]"), cost)
        return found if container.path else replace(found, size=container.element)

    def list_literal(self, node: ast.ListLiteral, scope: Mapping[str, _Estimate]) -> _Estimate:
        items = [self.visit(item, scope) for item in node.items]
        longest = max((item.size for item in items), default=1)
        return _Estimate(_LIST + sum(item.cost for item in items), len(items), element=longest)

    def map_literal(self, node: ast.MapLiteral, scope: Mapping[str, _Estimate]) -> _Estimate:
        keys = [self.visit(entry.key, scope) for entry in node.entries]
        values = [self.visit(entry.value, scope) for entry in node.entries]
        longest = max((value.size for value in values), default=1)
        return _Estimate(_MAP + sum(part.cost for part in keys + values), len(values), element=longest)

    def bind(self, node: ast.Bind, scope: Mapping[str, _Estimate]) -> _Estimate:
        value = self.visit(node.value, scope)
        body = self.visit(node.body, {**scope, node.variable: replace(value, cost=1)})
        return replace(body, cost=body.cost + value.cost + 1)

    def comprehension(self, node: ast.Comprehension, scope: Mapping[str, _Estimate]) -> _Estimate:
        over = self.visit(node.over, scope)
        value = self._element(over, 1)
        key = (
            self._at(over.path and (*over.path, "{}"), 1) if node.over.type.kind is Kind.MAP else _Estimate(1)
        )
        of_values = node.over.type.kind is Kind.LIST and len(node.variables) == 1
        inner = {**scope, **dict(zip(node.variables, (value,) if of_values else (key, value), strict=False))}
        parts = [self.visit(part, inner) for part in (node.condition, node.result) if part is not None]
        cost = over.cost + over.size * (_LOOP + sum(part.cost for part in parts)) + 1
        return _Estimate(cost, over.size, element=parts[-1].size if node.result is not None else value.size)


def _share(size: float, factor: float) -> float:
    return size if math.isinf(size) else max(1, int(size * factor + 0.999))


_VISITORS: dict[type[ast.Node], Callable[[Any, Any, Any], _Estimate]] = {
    ast.Literal: _Estimator.literal,
    ast.Ident: _Estimator.ident,
    ast.Select: _Estimator.select,
    ast.Call: _Estimator.call,
    ast.ListLiteral: _Estimator.list_literal,
    ast.MapLiteral: _Estimator.map_literal,
    ast.Bind: _Estimator.bind,
    ast.Comprehension: _Estimator.comprehension,
}

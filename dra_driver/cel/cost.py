"""What an expression may cost at worst, estimated without values.

Kubernetes refuses selectors whose estimate is over a budget. This follows cel-go's cost model in its shape: one
unit for each name, field and call, text by length (a tenth a character, a pattern a quarter), the body of a loop
as often as its range may be long. How long something may be is asked from `sizes`, by its path from a variable
("[]" for any element, "{}" for any key);
for what no path leads to, it comes from what made it. Counts of single functions may differ from cel-go's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.types import Kind

Path = tuple[str, ...]
Sizes = Callable[[Path], int | None]

_UNKNOWN_SIZE = 64
_TEXT, _PATTERN = 0.1, 0.25
_LIST, _MAP = 10, 30  # what making one costs
_LOOP = 4  # what the loop itself costs, an iteration
_PATTERNS = frozenset({"matches", "find", "findAll"})
_COMPARISONS = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_SINGLE = frozenset({"hasValue", "isInteger", "asInteger", "compareTo", "isGreaterThan", "isLessThan"})


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Units, how long the value may be, and its path where it comes straight from a variable."""

    cost: int
    size: int = 1
    path: Path | None = None


def estimate(root: ast.Node, sizes: Sizes) -> int:
    """The worst cost of a checked expression."""
    return _Estimator(sizes).visit(root, {}).cost


class _Estimator:
    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes

    def visit(self, node: ast.Node, scope: Mapping[str, _Estimate]) -> _Estimate:
        visit: Callable[[Any, Any, Any], _Estimate] = _VISITORS[type(node)]
        return visit(self, node, scope)

    def _at(self, path: Path | None, cost: int) -> _Estimate:
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
        if name in {"_[_]", "_[?_]"}:
            container = parts[0]
            return self._at(container.path and (*container.path, "[]"), cost + 1)
        if name in _COMPARISONS:
            return _Estimate(cost + _share(min(sizes), _TEXT))
        if name == "@in":
            return _Estimate(cost + sizes[1])
        if name in _PATTERNS:
            return _Estimate(cost + _share(sizes[0], _TEXT) * _share(sizes[1], _PATTERN), sizes[0])
        if name == "contains":
            return _Estimate(cost + _share(sizes[0], _TEXT) * _share(sizes[1], _TEXT))
        if name.startswith("sets."):
            return _Estimate(cost + sizes[0] * sizes[1])
        if name == "_+_":
            return _Estimate(cost + _share(sum(sizes), _TEXT), sum(sizes))
        if name == "lists.range":
            literal = node.args[0]
            size = literal.value if isinstance(literal, ast.Literal) else _UNKNOWN_SIZE
            return _Estimate(cost + 1, max(size, 0))
        if name in _SINGLE or not sizes:
            return _Estimate(cost + 1)
        longest = max(sizes)
        return _Estimate(cost + _share(longest, _TEXT), longest)

    def list_literal(self, node: ast.ListLiteral, scope: Mapping[str, _Estimate]) -> _Estimate:
        return _Estimate(_LIST + sum(self.visit(item, scope).cost for item in node.items), len(node.items))

    def map_literal(self, node: ast.MapLiteral, scope: Mapping[str, _Estimate]) -> _Estimate:
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
        return _Estimate(_MAP + sum(self.visit(part, scope).cost for part in parts), len(node.entries))

    def bind(self, node: ast.Bind, scope: Mapping[str, _Estimate]) -> _Estimate:
        value = self.visit(node.value, scope)
        body = self.visit(node.body, {**scope, node.variable: replace(value, cost=1)})
        return replace(body, cost=body.cost + value.cost + 1)

    def comprehension(self, node: ast.Comprehension, scope: Mapping[str, _Estimate]) -> _Estimate:
        over = self.visit(node.over, scope)
        value = self._at(over.path and (*over.path, "[]"), 1)
        key = (
            self._at(over.path and (*over.path, "{}"), 1) if node.over.type.kind is Kind.MAP else _Estimate(1)
        )
        of_values = node.over.type.kind is Kind.LIST and len(node.variables) == 1
        inner = {**scope, **dict(zip(node.variables, (value,) if of_values else (key, value), strict=False))}
        body = sum(self.visit(part, inner).cost for part in (node.condition, node.result) if part is not None)
        return _Estimate(over.cost + over.size * (_LOOP + body) + 1, over.size)


def _share(size: int, factor: float) -> int:
    return max(1, int(size * factor + 0.999))


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

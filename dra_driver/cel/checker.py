"""The static check: every name declared, every call has an overload that fits, every node has a type.

The rules and texts are cel-go's, so that what passes here passes the API server and the other way round. All
mistakes are collected; a node whose type is unknown because of one counts as dynamic, so one mistake is one issue.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.declarations import Overload
from dra_driver.cel.errors import Issue
from dra_driver.cel.parser import dotted
from dra_driver.cel.types import (
    ANY,
    BOOL,
    DYN,
    ERROR,
    INT,
    Bindings,
    Kind,
    Type,
    is_optional,
    list_of,
    map_of,
    optional_of,
    type_of,
)


class Checker:
    """One check of one expression; afterwards `issues` says what is wrong and the nodes have types."""

    def __init__(
        self,
        variables: Mapping[str, Type],
        fields: Mapping[str, Mapping[str, Type]],
        functions: Mapping[str, tuple[Overload, ...]],
        types: Mapping[str, Type],
    ) -> None:
        self._scope = dict(variables)
        self._fields = fields
        self._functions = functions
        self._types = types
        self._bindings = Bindings()
        self._nodes: list[ast.Node] = []
        self.issues: list[Issue] = []

    def check(self, root: ast.Node) -> None:
        self._visit(root)
        for node in self._nodes:
            node.type = self._bindings.substitute(node.type, free_as_dyn=True)

    @property
    def nodes(self) -> list[ast.Node]:
        """Every node, children before parents."""
        return self._nodes

    def _visit(self, node: ast.Node) -> Type:
        visit: Callable[[Any, Any], Type] = _VISITORS[type(node)]
        node.type = visit(self, node)
        self._nodes.append(node)
        return node.type

    def _fail(self, node: ast.Node, message: str, name: str | None = None) -> Type:
        self.issues.append(Issue(node.line, node.column, message, name))
        return ERROR

    def _known(self, value: Type) -> Type:
        return self._bindings.substitute(value, free_as_dyn=False)

    def _named(self, name: str) -> Type | None:
        if name in self._scope:
            return self._scope[name]
        named = self._types.get(name)
        return None if named is None else type_of(named)

    def _undeclared(self, node: ast.Node, name: str) -> Type:
        return self._fail(node, f"undeclared reference to '{name}' (in container '')", name)

    def literal(self, node: ast.Literal) -> Type:
        return node.type

    def ident(self, node: ast.Ident) -> Type:
        return self._named(node.name) or self._undeclared(node, node.name)

    def select(self, node: ast.Select) -> Type:
        qualified = dotted(node)
        if qualified is not None and (named := self._named(qualified)) is not None:
            node.qualified = qualified
            return named
        operand = self._known(self._visit(node.operand))
        inside = operand.params[0] if is_optional(operand) else operand
        field = self._field(node, inside)
        if node.test:
            return BOOL
        if field is not ERROR and (node.optional or is_optional(operand)) and not is_optional(field):
            return optional_of(field)
        return field

    def _field(self, node: ast.Select, operand: Type) -> Type:
        if operand.kind is Kind.MAP:
            return operand.params[1]
        if operand.kind is Kind.OBJECT:
            field = self._fields.get(operand.name, {}).get(node.field)
            return field or self._fail(node, f"undefined field '{node.field}'", node.field)
        if operand.kind is Kind.PARAMETER:
            self._bindings.assignable(DYN, operand)
            return DYN
        if operand.is_dynamic:
            return DYN
        return self._fail(node, f"type '{operand}' does not support field selection", node.field)

    def call(self, node: ast.Call) -> Type:
        for arg in node.args:
            self._visit(arg)
        if node.target is None:
            return self._resolve(node, node.function, None)
        prefix = dotted(node.target)
        if prefix is not None and f"{prefix}.{node.function}" in self._functions:
            # A function with a namespace, such as optional.of: what looks like a receiver is part of its name.
            node.function, node.target = f"{prefix}.{node.function}", None
            return self._resolve(node, node.function, None)
        self._visit(node.target)
        return self._resolve(node, node.function, node.target)

    def _resolve(self, node: ast.Call, name: str, target: ast.Node | None) -> Type:
        args = tuple(self._known(arg.type) for arg in ([target, *node.args] if target else node.args))
        if name in {"_&&_", "_||_"}:
            return self._logic(node, args)
        declared = self._functions.get(name)
        if declared is None:
            return self._undeclared(node, name)
        # At run time all of them are candidates: what is inferred here of a value that was `dyn` may be wrong.
        node.overloads = tuple(
            one for one in declared if one.member == (target is not None) and len(one.args) == len(args)
        )
        result: Type | None = None
        for overload in node.overloads:
            *wanted, returned = self._bindings.instantiate((*overload.args, overload.result))
            if not self._bindings.all_assignable(args, tuple(wanted)):
                continue
            returned = self._known(returned)
            if result is None:
                result = returned
            elif not result.is_dynamic and returned != result:
                result = DYN
        if result is None:
            return self._no_overload(node, name, args, member=target is not None)
        return result

    def _logic(self, node: ast.Call, args: tuple[Type, ...]) -> Type:
        if all([self._bindings.assignable(arg, BOOL) for arg in args]):  # noqa: C419 - each binding counts
            return BOOL
        return self._no_overload(node, node.function, args, member=False)

    def _no_overload(self, node: ast.Node, name: str, args: tuple[Type, ...], *, member: bool) -> Type:
        shown = [str(self._bindings.substitute(arg, free_as_dyn=True)) for arg in args]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        return self._fail(node, f"found no matching overload for '{name}' applied to '{signature}'", name)

    def list_literal(self, node: ast.ListLiteral) -> Type:
        element: Type | None = None
        for index, item in enumerate(node.items):
            found = self._known(self._visit(item))
            if index in node.optional:
                found = self._unwrapped(item, found)
            element = self._bindings.join(element, found)
        return list_of(element or self._bindings.fresh())

    def _unwrapped(self, node: ast.Node, found: Type) -> Type:
        if is_optional(found):
            return found.params[0]
        if found.is_dynamic:
            return DYN
        return self._fail(node, f"expected type 'optional_type' but found '{found}'")

    def map_literal(self, node: ast.MapLiteral) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._bindings.join(key, self._known(self._visit(entry.key)))
            found = self._known(self._visit(entry.value))
            if entry.optional:
                found = self._unwrapped(entry.value, found)
            value = self._bindings.join(value, found)
        return map_of(key or self._bindings.fresh(), value or self._bindings.fresh())

    def struct_literal(self, node: ast.StructLiteral) -> Type:
        return self._undeclared(node, node.name)

    def bind(self, node: ast.Bind) -> Type:
        value = self._visit(node.value)
        return self._inside({node.variable: value}, lambda: self._visit(node.body))

    def comprehension(self, node: ast.Comprehension) -> Type:
        over = self._known(self._visit(node.over))
        element, variables = self._range(node, over)
        return self._inside(
            dict(zip(node.variables, variables, strict=True)), lambda: self._loop_result(node, element)
        )

    def _range(self, node: ast.Comprehension, over: Type) -> tuple[Type, tuple[Type, ...]]:
        two = len(node.variables) == 2
        if over.kind is Kind.LIST:
            return over.params[0], (INT, over.params[0]) if two else (over.params[0],)
        if over.kind is Kind.MAP:
            return over.params[0], over.params if two else over.params[:1]
        if over.kind is Kind.PARAMETER:
            self._bindings.assignable(DYN, over)
        elif over == ANY or not over.is_dynamic:
            self._fail(
                node.over,
                f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
        return DYN, (DYN,) * len(node.variables)

    def _loop_result(self, node: ast.Comprehension, element: Type) -> Type:
        key = self._scope[node.variables[0]]
        if node.condition is not None:
            condition = self._known(self._visit(node.condition))
            if not self._bindings.assignable(condition, BOOL):
                operator = {"all": "_&&_", "exists": "_||_"}.get(node.kind, "_?_:_")
                self._no_overload(node, operator, (BOOL, condition), member=False)
        result = DYN if node.result is None else self._known(self._visit(node.result))
        match node.kind:
            case "all" | "exists" | "exists_one":
                return BOOL
            case "filter":
                return list_of(element)
            case "map" | "transformList":
                return list_of(result)
            case "transformMap":
                return map_of(key, result)
            case _:
                if result.kind is not Kind.MAP and not result.is_dynamic:
                    return self._no_overload(node, "cel.@mapInsert", (result,), member=False)
                return result if result.kind is Kind.MAP else map_of(DYN, DYN)

    def _inside(self, names: Mapping[str, Type], visit: Callable[[], Type]) -> Type:
        before = self._scope
        self._scope = {**before, **names}
        try:
            return visit()
        finally:
            self._scope = before


_VISITORS: dict[type[ast.Node], Callable[[Any, Any], Type]] = {
    ast.Literal: Checker.literal,
    ast.Ident: Checker.ident,
    ast.Select: Checker.select,
    ast.Call: Checker.call,
    ast.ListLiteral: Checker.list_literal,
    ast.MapLiteral: Checker.map_literal,
    ast.StructLiteral: Checker.struct_literal,
    ast.Bind: Checker.bind,
    ast.Comprehension: Checker.comprehension,
}

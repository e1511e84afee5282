"""From a checked tree to closures: one small function per node, which takes the frame and gives the value.

Everything that can be decided once is decided here: slots of variables, which overload a call means where the
static types say it, keys that are constant. `&&`, `||` and the quantifiers absorb errors as CEL wants: an
operand that decides the result wins over one that fails.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dra_driver.cel import arithmetic, ast, relations
from dra_driver.cel.access import index, index_optional, map_key, select, select_optional, select_present
from dra_driver.cel.budget import DEFAULT_BUDGET, Frame
from dra_driver.cel.control import (
    Failed,
    binary,
    conditional,
    equal,
    fallback,
    logic,
    member,
    negation,
    not_equal,
    ordered,
    read_bound,
)
from dra_driver.cel.dispatch import dispatch
from dra_driver.cel.errors import EvaluationError, LimitError
from dra_driver.cel.loops import LOOPS, Loop
from dra_driver.cel.types import Type
from dra_driver.cel.validators import children
from dra_driver.cel.values import Optional, TypeValue

Step = Callable[[Frame], Any]

_ITERATION = 5  # what the loop itself costs, an iteration

_ARITHMETIC: dict[str, Callable[[Frame, Any, Any], Any]] = {
    "_+_": arithmetic.add,
    "_-_": arithmetic.subtract,
    "_*_": arithmetic.multiply,
    "_/_": arithmetic.divide,
    "_%_": arithmetic.modulo,
    "@in": relations.contains,
}


class Compiler:
    """One compilation; `size` is the number of slots that a frame of the program needs."""

    def __init__(self, variables: tuple[str, ...], types: Mapping[str, Type]) -> None:
        self._scope = {name: (slot, False) for slot, name in enumerate(variables, start=1)}
        self._types = types
        self.size = len(variables) + 1

    def compile(self, node: ast.Node) -> Step:
        build: Callable[[Any, Any], Step] = _BUILDERS[type(node)]
        return build(self, node)

    def literal(self, node: ast.Literal) -> Step:
        value = node.value
        return lambda _: value

    def ident(self, node: ast.Ident) -> Step:
        return self._name(node.name)

    def _name(self, name: str) -> Step:
        if name in self._scope:
            slot, may_fail = self._scope[name]
            return read_bound(slot) if may_fail else lambda frame: frame[slot]
        value = TypeValue(self._types[name].name)
        return lambda _: value

    def select(self, node: ast.Select) -> Step:
        if node.qualified is not None:
            return self._name(node.qualified)
        make = select_present if node.test else select_optional if node.optional else select
        return make(self.compile(node.operand), node.field)

    def call(self, node: ast.Call) -> Step:
        name = node.function
        args = [self.compile(arg) for arg in node.args]
        if name == "_&&_":
            return logic(args, decides=False)
        if name == "_||_":
            return logic(args, decides=True)
        if name == "_?_:_":
            return conditional(*args)
        if name == "_[_]":
            return index(*args)
        if name == "_[?_]":
            return index_optional(*args)
        if name == "@in" and (constants := _constants(node.args[1])) is not None:
            return member(args[0], constants)
        if name in _ARITHMETIC:
            return binary(_ARITHMETIC[name], *args)
        if name in relations.ORDER:
            return ordered(relations.ORDER[name], *args)
        if name == "_==_":
            return equal(*args)
        if name == "_!=_":
            return not_equal(*args)
        if name == "!_":
            return negation(args[0])
        if name == "-_":
            operand = args[0]
            return lambda frame: arithmetic.negate(operand(frame))
        if node.target is not None:
            args.insert(0, self.compile(node.target))
            if name in {"or", "orValue"}:
                return fallback(name, *args)
        constant = all(
            isinstance(arg, ast.Literal) for arg in [*([node.target] if node.target else []), *node.args]
        )
        step = dispatch(name, node.overloads, args)
        return _constant(step) if constant and not any(one.metered for one in node.overloads) else step

    def list_literal(self, node: ast.ListLiteral) -> Step:
        items = [self.compile(item) for item in node.items]
        if not node.optional:
            values = [item.value for item in node.items if isinstance(item, ast.Literal)]
            if len(values) == len(items):
                return lambda _: values
            return lambda frame: [item(frame) for item in items]
        flagged = [(item, position in node.optional) for position, item in enumerate(items)]

        def build(frame: Frame) -> list[Any]:
            made = []
            for item, optional in flagged:
                value = item(frame)
                if not optional:
                    made.append(value)
                elif _present(value):
                    made.append(value.value)
            return made

        return build

    def map_literal(self, node: ast.MapLiteral) -> Step:
        entries = [(self.compile(e.key), self.compile(e.value), e.optional) for e in node.entries]

        def build(frame: Frame) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key, value, optional in entries:
                name, item = map_key(key(frame)), value(frame)
                if optional:
                    if not _present(item):
                        continue
                    item = item.value
                made[name] = item  # as cel-go: of equal keys the last counts
            return made

        return build

    def bind(self, node: ast.Bind) -> Step:
        value = self.compile(node.value)
        before = self._scope
        (slot,) = self._declare((node.variable,), may_fail=True)
        body = self.compile(node.body)
        self._scope = before

        def bound(frame: Frame) -> Any:
            # A value that fails is an error only where the variable is read.
            try:
                frame[slot] = value(frame)
            except LimitError:
                raise
            except EvaluationError as error:
                frame[slot] = Failed(error)
            return body(frame)

        return bound

    def comprehension(self, node: ast.Comprehension) -> Step:
        over = self.compile(node.over)
        before = self._scope
        slots = self._declare(node.variables, may_fail=False)
        condition = None if node.condition is None else self.compile(node.condition)
        result = None if node.result is None else self.compile(node.result)
        self._scope = before
        body = sum(_size(part) for part in (node.condition, node.result) if part is not None)
        return LOOPS[node.kind](Loop(over, slots, condition, result, _ITERATION + body))

    def _declare(self, names: tuple[str, ...], *, may_fail: bool) -> tuple[int, ...]:
        slots = tuple(range(self.size, self.size + len(names)))
        self.size += len(names)
        self._scope = {
            **self._scope,
            **{name: (slot, may_fail) for name, slot in zip(names, slots, strict=True)},
        }
        return slots


def _size(node: ast.Node) -> int:
    """How many closures run when the node is evaluated once; loops inside it charge for their own bodies."""
    match node:
        case ast.Literal():
            return 0
        case ast.Comprehension():
            return 1 + _size(node.over)
        case _:
            return 1 + sum(map(_size, children(node)))


def _constants(node: ast.Node) -> list[Any] | None:
    """The values of a list literal of bools, numbers and texts."""
    if not isinstance(node, ast.ListLiteral) or node.optional:
        return None
    values = [item.value for item in node.items if isinstance(item, ast.Literal)]
    plain = len(values) == len(node.items) and not any(
        value is None or type(value) is bytes for value in values
    )
    return values if plain else None


def _constant(step: Step) -> Step:
    """A call of constants, such as quantity("40Gi"): computed once, though it fails only when evaluated."""
    try:
        value = step([DEFAULT_BUDGET])
    except EvaluationError:
        return step
    return lambda _: value


def _present(value: Any) -> bool:
    if type(value) is not Optional:
        raise EvaluationError(f"cannot initialize optional list element from non-optional value {value}")
    return value.present


_BUILDERS: dict[type[ast.Node], Callable[[Any, Any], Step]] = {
    ast.Literal: Compiler.literal,
    ast.Ident: Compiler.ident,
    ast.Select: Compiler.select,
    ast.Call: Compiler.call,
    ast.ListLiteral: Compiler.list_literal,
    ast.MapLiteral: Compiler.map_literal,
    ast.Bind: Compiler.bind,
    ast.Comprehension: Compiler.comprehension,
}

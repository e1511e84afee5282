"""A selector as lint sees it: its tree, what the compiler says of it, and which names it reads.

The tree is there as soon as the syntax is right, also where the compiler refuses the expression: most mistakes are
easier to explain from the names in it than from the compiler's words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from dra_driver.cel import CompileError, ast
from dra_driver.cel.errors import Issue
from dra_driver.cel.parser import parse
from dra_driver.cel.validators import children
from dra_driver.resource.limits import MAX_EXPRESSION_BYTES
from dra_driver.selectors import Selector, selector
from dra_driver.selectors.reads import FAMILIES, Family, Read


@dataclass(frozen=True, slots=True)
class Reading:
    """A place where the expression asks the device for a value."""

    read: Read
    node: ast.Node = field(repr=False, compare=False)
    family_node: ast.Node = field(repr=False, compare=False)  # `device.attributes`
    guarded: bool = False  # has(), `in` or `.?`: its absence is no error


@dataclass(frozen=True, slots=True)
class Expression:
    """A selector's text, and what could be made of it."""

    text: str
    tree: ast.Node | None  # None: a syntax error
    issues: tuple[Issue, ...]
    selector: Selector | None  # None: the compiler refuses it
    readings: tuple[Reading, ...]
    constants: Mapping[int, str] = field(repr=False)  # by id() of a node that is a constant text
    values: Mapping[int, Read] = field(repr=False)  # by id() of a node that reads a value

    def read_of(self, node: ast.Node) -> Read | None:
        """The read that this node is, variables of cel.bind looked through."""
        return self.values.get(id(node))

    def constant(self, node: ast.Node) -> str | None:
        """The text that this node is, where that is known without a device."""
        return self.constants.get(id(node))

    def nodes(self) -> Iterator[ast.Node]:
        """All nodes, children before parents."""
        return iter(()) if self.tree is None else descend(self.tree)

    def offset(self, line: int, column: int) -> int:
        """The offset in the text of a place that the compiler names."""
        lines = self.text.split("\n")
        at = sum(len(text) + 1 for text in lines[: line - 1]) + column - 1
        return max(0, min(at, len(self.text)))


@lru_cache(maxsize=1024)
def analyse(text: str, *, lists: bool = False) -> Expression:
    """What the expression is made of; never an error. `lists`: whether attributes may be lists of values."""
    compiled: Selector | None = None
    issues: tuple[Issue, ...] = ()
    tree: ast.Node | None = None
    try:
        compiled = selector(text, lists=lists)
        tree = compiled.program.tree
    except CompileError as error:
        issues = error.issues
        tree = _syntax(text)
    names = _Names()
    if tree is not None:
        names.visit(tree, {})
    return Expression(text, tree, issues, compiled, tuple(names.readings), names.constants, names.values)


def _syntax(text: str) -> ast.Node | None:
    """The tree of an expression that does not compile, where its syntax is right."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_EXPRESSION_BYTES:
        return None
    try:
        return parse(text)
    except (CompileError, RecursionError):
        return None


def descend(node: ast.Node) -> Iterator[ast.Node]:
    """The node and all below it, children first."""
    for child in children(node):
        yield from descend(child)
    yield node


@dataclass(frozen=True, slots=True)
class _Device:
    """The node is `device`."""


@dataclass(frozen=True, slots=True)
class _Domains:
    """The node is `device.attributes` or `device.capacity`."""

    family: Family
    node: ast.Node


@dataclass(frozen=True, slots=True)
class _Domain:
    """The node is one domain of them."""

    family: Family
    name: str
    node: ast.Node


_Meaning = _Device | _Domains | _Domain | Read | str | None
_Scope = Mapping[str, _Meaning]


class _Names:
    """Finds out what each node of a tree stands for; bounded by the parser's limit of nesting."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.constants: dict[int, str] = {}
        self.values: dict[int, Read] = {}

    def visit(self, node: ast.Node, scope: _Scope) -> _Meaning:
        meaning = self._meaning(node, scope)
        if isinstance(meaning, str):
            self.constants[id(node)] = meaning
        elif isinstance(meaning, Read):
            self.values[id(node)] = meaning
        return meaning

    def _meaning(self, node: ast.Node, scope: _Scope) -> _Meaning:
        match node:
            case ast.Literal(value=str() as text):
                return text
            case ast.Ident(name=name):
                return scope.get(name, _Device() if name == "device" else None)
            case ast.Select():
                return self._part(
                    self.visit(node.operand, scope), node.field, node, node.test or node.optional
                )
            case ast.Bind():
                value = self.visit(node.value, scope)
                return self.visit(node.body, {**scope, node.variable: value})
            case ast.Comprehension():
                self.visit(node.over, scope)
                inner = {**scope, **dict.fromkeys(node.variables)}
                for part in (node.condition, node.result):
                    if part is not None:
                        self.visit(part, inner)
                return None
            case ast.Call():
                return self._call(node, scope)
            case _:
                for child in children(node):
                    self.visit(child, scope)
                return None

    def _call(self, node: ast.Call, scope: _Scope) -> _Meaning:
        target = None if node.target is None else self.visit(node.target, scope)
        args = [self.visit(arg, scope) for arg in node.args]
        match node.function, args:
            case ("_[_]" | "_[?_]") as function, [container, str() as name]:
                return self._part(container, name, node, function == "_[?_]")
            case "@in", [str() as name, _Domain() as domain]:
                self._part(domain, name, node, guarded=True)
                return None
            case "_+_", [str() as left, str() as right]:
                return left + right if len(left) + len(right) <= MAX_EXPRESSION_BYTES else None
            case (("orValue" | "value"), _) if isinstance(target, Read):
                return target
            case _:
                return None

    def _part(self, container: _Meaning, name: str, node: ast.Node, guarded: bool) -> _Meaning:
        match container:
            case _Device() if name in FAMILIES:
                return _Domains(FAMILIES[name], node)
            case _Domains(family, family_node):
                return _Domain(family, name, family_node)
            case _Domain(family, domain, family_node):
                read = Read(family, domain, name)
                self.readings.append(Reading(read, node, family_node, guarded))
                # has() gives a bool, not the value.
                return None if isinstance(node, ast.Select) and node.test else read
            case _:
                return None

"""Comparisons in selectors, as people write them: a value of the device, an operator, a constant."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.library import regex
from dra_driver.cel.library.quantity import Quantity
from dra_driver.cel.library.semver import Semver
from dra_driver.lint.devices import KnownDevice, Name
from dra_driver.lint.expressions import Expression, Read
from dra_driver.selectors.comparisons import MIRRORED, OPPOSITE

OPERATORS = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_==_": "==", "_!=_": "!="}
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """`value operator constant`; for texts the operator may also be contains, startsWith, endsWith, matches or in."""

    read: Read
    operator: str
    constant: Any  # Quantity, Semver, str or a tuple of str
    node: ast.Node
    fold: Callable[[str], str] | None = None  # lowerAscii or upperAscii around the value

    @property
    def name(self) -> Name:
        return self.read.family, self.read.domain, self.read.name

    @property
    def type(self) -> type:
        """The type of the values that it is made for."""
        return str if isinstance(self.constant, tuple) else type(self.constant)

    def holds(self, device: KnownDevice) -> bool | None:
        """Whether it holds for a device; None where the device's value is unknown or something else."""
        if self.name in device.varying:
            return None
        value = device.values.get(self.name)
        if isinstance(value, str):
            return self._holds_for_text(value if self.fold is None else self.fold(value))
        if type(value) is not type(self.constant):
            return None
        one: Any = value.nanos if isinstance(value, Quantity) else value
        other: Any = self.constant.nanos if isinstance(self.constant, Quantity) else self.constant
        return _SIGNS[self.operator]((one > other) - (one < other))

    def _holds_for_text(self, value: str) -> bool | None:
        if isinstance(self.constant, tuple):
            return value in self.constant
        if not isinstance(self.constant, str):
            return None
        test = _TEXT_TESTS.get(self.operator)
        if test is not None:
            return test(value, self.constant)
        return _SIGNS[self.operator]((value > self.constant) - (value < self.constant))


def comparisons(expression: Expression) -> Iterator[Comparison]:
    """The comparisons that all have to hold: those that && connects at the top."""
    if expression.tree is not None:
        for node in conjuncts(expression.tree):
            found = comparison(expression, node)
            if found is not None:
                yield found


def conjuncts(node: ast.Node) -> Iterator[ast.Node]:
    """The parts of a chain of &&; looks through cel.bind."""
    match node:
        case ast.Call(function="_&&_", args=args):
            for arg in args:
                yield from conjuncts(arg)
        case ast.Bind(body=body):
            yield from conjuncts(body)
        case _:
            yield node


def comparison(expression: Expression, node: ast.Node) -> Comparison | None:
    """The comparison that a node is."""
    if not isinstance(node, ast.Call):
        return None
    if node.function == "!_":
        inner = comparison(expression, node.args[0])
        if inner is None or inner.operator not in OPPOSITE:
            return None
        return Comparison(inner.read, OPPOSITE[inner.operator], inner.constant, node, inner.fold)
    return (
        _ordered(expression, node)
        or _method(expression, node)
        or _text_test(expression, node)
        or _membership(expression, node)
    )


def _ordered(expression: Expression, node: ast.Call) -> Comparison | None:
    """`x.compareTo(c) >= 0`, `x == c`."""
    operator = OPERATORS.get(node.function)
    if operator is None or len(node.args) != 2:
        return None
    left, right = node.args
    if isinstance(left, ast.Literal):
        left, right, operator = right, left, MIRRORED[operator]
    if isinstance(left, ast.Call) and left.function == "compareTo" and left.target is not None:
        if not (isinstance(right, ast.Literal) and right.value == 0):
            return None
        return _between(expression, left.target, left.args[0], operator, node)
    return _between(expression, left, right, operator, node)


def _method(expression: Expression, node: ast.Call) -> Comparison | None:
    """`x.isGreaterThan(c)`."""
    operator = {"isGreaterThan": ">", "isLessThan": "<"}.get(node.function)
    if operator is None or node.target is None or len(node.args) != 1:
        return None
    return _between(expression, node.target, node.args[0], operator, node)


def _between(
    expression: Expression, left: ast.Node, right: ast.Node, operator: str, node: ast.Node
) -> Comparison | None:
    read, fold = _value(expression, left)
    if read is None:
        (read, fold), right, operator = _value(expression, right), left, MIRRORED[operator]
    constant = constant_of(expression, right)
    return None if read is None or constant is None else Comparison(read, operator, constant, node, fold)


def _text_test(expression: Expression, node: ast.Call) -> Comparison | None:
    """`x.contains("H100")`, also `x.lowerAscii()...`, and `x.matches("...")`."""
    if node.target is None or len(node.args) != 1:
        return None
    read, fold = _value(expression, node.target)
    text = expression.constant(node.args[0])
    if read is None or text is None:
        return None
    if node.function in _TEXT_TESTS and not (node.function == "matches" and not _is_pattern(text)):
        return Comparison(read, node.function, text, node, fold)
    return None


def _is_pattern(text: str) -> bool:
    """Whether the text is a regular expression; the compiler has looked at literals only."""
    try:
        regex.compiled(text)
    except EvaluationError:
        return False
    return True


def _membership(expression: Expression, node: ast.Call) -> Comparison | None:
    """`x in ["a", "b"]`."""
    if node.function != "@in" or len(node.args) != 2 or not isinstance(node.args[1], ast.ListLiteral):
        return None
    read, fold = _value(expression, node.args[0])
    texts = [expression.constant(item) for item in node.args[1].items]
    if read is None or not texts or any(text is None for text in texts):
        return None
    return Comparison(read, "in", tuple(text for text in texts if text is not None), node, fold)


def _value(expression: Expression, node: ast.Node) -> tuple[Read | None, Callable[[str], str] | None]:
    if isinstance(node, ast.Call) and node.function in _WRAPPERS and node.target is not None:
        return expression.read_of(node.target), _WRAPPERS[node.function]
    return expression.read_of(node), None


def constant_of(expression: Expression, node: ast.Node) -> Any:
    """A text, quantity or version that is known without a device; None where it is none of these, or malformed."""
    text = expression.constant(node)
    if text is not None:
        return text
    if not isinstance(node, ast.Call) or node.target is not None or not node.args:
        return None
    argument = expression.constant(node.args[0])
    if argument is None or node.function not in {"quantity", "semver"}:
        return None
    lenient = any(isinstance(arg, ast.Literal) and arg.value is True for arg in node.args[1:])
    try:
        return Quantity.parse(argument) if node.function == "quantity" else Semver.parse(argument, lenient)
    except EvaluationError:
        return None

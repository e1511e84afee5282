"""What Kubernetes evaluates when it plans a program, before any device is seen.

Conversions of constants (`int("x")`), constant keys and constant patterns of find() and findAll() are computed once,
so one that fails refuses the expression; everything else that is constant, such as quantity("80GB"), fails only when
it is evaluated.
"""

from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.budget import DEFAULT_BUDGET
from dra_driver.cel.dispatch import dispatch
from dra_driver.cel.errors import EvaluationError, Issue
from dra_driver.cel.library import regex
from dra_driver.cel.validators import children
from dra_driver.cel.values import UInt, type_name

_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_INDICES = frozenset({"_[_]", "_[?_]"})
_KEYS = frozenset({str, int, UInt, bool, float})
_PATTERNS = frozenset({"find", "findAll"})
_UNKNOWN = object()


def failures(root: ast.Node) -> list[Issue]:
    """The constants that cannot be computed."""
    issues: list[Issue] = []
    _value(root, issues)
    return issues


def _value(node: ast.Node, issues: list[Issue]) -> Any:
    """The value of a constant node, or _UNKNOWN."""
    if isinstance(node, ast.Literal):
        return node.value
    inner = [_value(child, issues) for child in children(node)]
    if isinstance(node, ast.ListLiteral | ast.MapLiteral) and _UNKNOWN not in inner:
        return inner if isinstance(node, ast.ListLiteral) else {}  # what is in them makes no difference
    if not isinstance(node, ast.Call):
        return _UNKNOWN
    if node.function in _INDICES and inner[1] is not _UNKNOWN and type(inner[1]) not in _KEYS:
        issues.append(_issue(node, f"invalid qualifier type: {type_name(inner[1])}"))
    try:
        if (
            node.function in _CONVERSIONS
            and node.target is None
            and len(inner) == 1
            and inner[0] is not _UNKNOWN
        ):
            return dispatch(node.function, node.overloads, [lambda _: inner[0]])([DEFAULT_BUDGET])
        if node.function in _PATTERNS and len(inner) > 1 and isinstance(inner[1], str):
            regex.compiled(inner[1])
    except EvaluationError as error:
        issues.append(_issue(node, str(error), error.name))
    return _UNKNOWN


def _issue(node: ast.Node, message: str, name: str | None = None) -> Issue:
    return Issue(node.line, node.column, f"program instantiation failed: {message}", name)

"""Checks on the typed tree that Kubernetes adds to the type check: literals that can never work.

Constant durations, timestamps and regular expressions must parse, constant templates of string.format() must fit
their arguments, and the elements of a list or map literal must
be of one type (cel-go alone would make them dyn), except inside string.format().
"""

from collections.abc import Callable, Iterator
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.errors import EvaluationError, Issue
from dra_driver.cel.library import regex, time
from dra_driver.cel.library.formatting import check_format
from dra_driver.cel.types import Type, equivalent, is_optional

_CONSTANTS: dict[str, Callable[[Any], object]] = {
    "duration": time.parse_duration,
    "timestamp": time.parse_timestamp,
    "matches": regex.compiled,
}


def validate(root: ast.Node) -> list[Issue]:
    """The issues of a tree that passed the type check."""
    return list(_walk(root, exempt=False))


def _walk(node: ast.Node, *, exempt: bool) -> Iterator[Issue]:
    match node:
        case ast.Call():
            yield from _constant_argument(node)
            yield from _format_call(node)
            exempt = exempt or node.function == "format"
        case ast.ListLiteral() if not exempt:
            yield from _one_type(
                (
                    item,
                    item.type.params[0] if index in node.optional and is_optional(item.type) else item.type,
                )
                for index, item in enumerate(node.items)
            )
        case ast.MapLiteral() if not exempt:
            yield from _one_type((entry.key, entry.key.type) for entry in node.entries)
            yield from _one_type((entry.value, _value_type(entry)) for entry in node.entries)
        case _:
            pass
    for child in children(node):
        yield from _walk(child, exempt=exempt)


def _value_type(entry: ast.Entry) -> Type:
    value = entry.value.type
    return value.params[0] if entry.optional and is_optional(value) else value


def _one_type(items: Iterator[tuple[ast.Node, Type]]) -> Iterator[Issue]:
    expected: Type | None = None
    for node, found in items:
        expected = expected or found
        if not equivalent(expected, found):
            yield Issue(node.line, node.column, f"expected type '{expected}' but found '{found}'")
            return


def _constant_argument(node: ast.Call) -> Iterator[Issue]:
    parse = _CONSTANTS.get(node.function)
    if parse is None or not node.args or not isinstance(node.args[0], ast.Literal):
        return
    argument = node.args[0]
    if not isinstance(argument.value, str):
        return
    try:
        parse(argument.value)
    except EvaluationError:
        yield Issue(argument.line, argument.column, f"invalid {node.function} argument")


def _format_call(node: ast.Call) -> Iterator[Issue]:
    """string.format() of a constant template with a list literal."""
    if node.function != "format" or node.target is None or len(node.args) != 1:
        return
    template, args = node.target, node.args[0]
    if isinstance(template, ast.Literal) and isinstance(args, ast.ListLiteral) and not args.optional:
        wrong = check_format(template.value, args.items)
        if wrong is not None:
            yield Issue(node.line, node.column, wrong)


def children(node: ast.Node) -> Iterator[ast.Node]:
    """The nodes directly below."""
    match node:
        case ast.Select():
            yield node.operand
        case ast.Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case ast.ListLiteral():
            yield from node.items
        case ast.MapLiteral():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case ast.Bind():
            yield node.value
            yield node.body
        case ast.Comprehension():
            yield node.over
            yield from (part for part in (node.condition, node.result) if part is not None)
        case _:
            pass

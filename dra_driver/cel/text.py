"""From syntax tree back to text, for messages about a part of an expression and for expressions with a part changed.

What comes out means the same as what went in; spaces, quotes and superfluous parentheses are our own.
"""

import json
from collections.abc import Callable
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.types import BOOL
from dra_driver.cel.values import UInt

# How tightly operators bind; an operand that binds less gets parentheses.
_TERNARY, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)
_BINARY = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), _RELATION),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}


def text(node: ast.Node) -> str | None:
    """The text of the tree; None for macros that hide a variable (optMap, sortBy), which have lost theirs."""
    try:
        return _text(node, _TERNARY)
    except _HiddenError:
        return None


def literal(value: Any) -> str:
    """A constant as CEL writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case UInt():
            return f"{int(value)}u"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return 'b"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'
        case _:
            return str(value)


class _HiddenError(Exception):
    """The tree has a variable that no text can name; a signal within this module."""


def _text(node: ast.Node, around: int) -> str:
    """The node, in parentheses where it binds less than what is around it."""
    write: Callable[[Any], tuple[str, int]] = _WRITERS[type(node)]
    written, binds = write(node)
    return f"({written})" if binds < around else written


def _literal(node: ast.Literal) -> tuple[str, int]:
    written = literal(node.value)
    return written, _UNARY if written.startswith("-") else _MEMBER


def _ident(node: ast.Ident) -> tuple[str, int]:
    if node.name.startswith("#"):
        raise _HiddenError
    return node.name, _MEMBER


def _select(node: ast.Select) -> tuple[str, int]:
    written = f"{_text(node.operand, _MEMBER)}.{'?' if node.optional else ''}{node.field}"
    return (f"has({written})" if node.test else written), _MEMBER


def _call(node: ast.Call) -> tuple[str, int]:
    name, args = node.function, node.args
    operator = name.strip("@_")
    if name in {"_&&_", "_||_"}:
        binds = _AND if name == "_&&_" else _OR
        return f" {operator} ".join(_text(arg, binds + 1) for arg in args), binds
    if name == "_?_:_":
        condition, yes, no = (_text(arg, _OR) for arg in args)
        return f"{condition} ? {yes} : {no}", _TERNARY
    if name in {"_[_]", "_[?_]"}:
        mark = "?" if name == "_[?_]" else ""
        return f"{_text(args[0], _MEMBER)}[{mark}{_text(args[1], _TERNARY)}]", _MEMBER
    if name in {"!_", "-_"}:
        return f"{operator}{_text(args[0], _MEMBER)}", _UNARY
    if operator in _BINARY and len(args) == 2 and node.target is None:
        binds = _BINARY[operator]
        return f"{_text(args[0], binds)} {operator} {_text(args[1], binds + 1)}", binds
    target = "" if node.target is None else f"{_text(node.target, _MEMBER)}."
    return f"{target}{name}({_list(args)})", _MEMBER


def _list(nodes: list[ast.Node]) -> str:
    return ", ".join(_text(node, _TERNARY) for node in nodes)


def _list_literal(node: ast.ListLiteral) -> tuple[str, int]:
    items = (
        f"{'?' if index in node.optional else ''}{_text(item, _TERNARY)}"
        for index, item in enumerate(node.items)
    )
    return f"[{', '.join(items)}]", _MEMBER


def _map_literal(node: ast.MapLiteral) -> tuple[str, int]:
    entries = (
        f"{'?' if entry.optional else ''}{_text(entry.key, _TERNARY)}: {_text(entry.value, _TERNARY)}"
        for entry in node.entries
    )
    return f"{{{', '.join(entries)}}}", _MEMBER


def _bind(node: ast.Bind) -> tuple[str, int]:
    variable, _ = _ident(ast.Ident(node.variable, line=node.line, column=node.column, type=BOOL))
    return f"cel.bind({variable}, {_list([node.value, node.body])})", _MEMBER


def _comprehension(node: ast.Comprehension) -> tuple[str, int]:
    parts = [part for part in (node.condition, node.result) if part is not None]
    kind = "existsOne" if node.kind == "exists_one" and len(node.variables) == 2 else node.kind
    return f"{_text(node.over, _MEMBER)}.{kind}({', '.join(node.variables)}, {_list(parts)})", _MEMBER


_WRITERS: dict[type[ast.Node], Callable[[Any], tuple[str, int]]] = {
    ast.Literal: _literal,
    ast.Ident: _ident,
    ast.Select: _select,
    ast.Call: _call,
    ast.ListLiteral: _list_literal,
    ast.MapLiteral: _map_literal,
    ast.Bind: _bind,
    ast.Comprehension: _comprehension,
}

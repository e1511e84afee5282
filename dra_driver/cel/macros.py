"""Macros: calls that the parser turns into something else, because an argument is a name or is not evaluated.

A call whose name and number of arguments match no macro stays a call; the checker then says that nobody
declares it.
"""

from dra_driver.cel import ast
from dra_driver.cel.errors import CompileError, Issue

_QUANTIFIERS = {"all": "all", "exists": "exists", "exists_one": "exists_one", "existsOne": "exists_one"}
_TRANSFORMS = frozenset({"transformList", "transformMap", "transformMapEntry"})


def expand(call: ast.Call, source: str) -> ast.Node:
    """The node that the call stands for; the call itself where it is no macro."""
    name, target, args = call.function, call.target, call.args
    if target is None:
        return _has(call, source) if name == "has" and len(args) == 1 else call
    if name == "bind" and len(args) == 3 and isinstance(target, ast.Ident) and target.name == "cel":
        variable = _variable(args[0], source, "cel.bind() variable names must be simple identifiers")
        return ast.Bind(variable, args[1], args[2], line=call.line, column=call.column)
    if name in _QUANTIFIERS and len(args) in {2, 3} and not (name == "existsOne" and len(args) == 2):
        return _loop(call, source, _QUANTIFIERS[name], len(args) - 1, args[-1], None)
    if name == "map" and len(args) in {2, 3}:
        return _loop(call, source, "map", 1, args[1] if len(args) == 3 else None, args[-1])
    if name == "filter" and len(args) == 2:
        return _loop(call, source, "filter", 1, args[1], None)
    if name in _TRANSFORMS and len(args) in {3, 4}:
        return _loop(call, source, name, 2, args[2] if len(args) == 4 else None, args[-1])
    if name in {"optMap", "optFlatMap"} and len(args) == 2:
        return _optional_map(call, source)
    if name == "sortBy" and len(args) == 2:
        return _sort_by(call, source)
    return call


def _has(call: ast.Call, source: str) -> ast.Node:
    argument = call.args[0]
    if not isinstance(argument, ast.Select) or argument.test:
        raise _error(argument, source, "invalid argument to has() macro")
    if argument.optional:
        raise _error(argument, source, "invalid argument to has() macro")
    argument.test = True
    argument.line, argument.column = call.line, call.column
    return argument


def _loop(
    call: ast.Call,
    source: str,
    kind: str,
    variables: int,
    condition: ast.Node | None,
    result: ast.Node | None,
) -> ast.Node:
    names = tuple(_variable(node, source, "argument must be a simple name") for node in call.args[:variables])
    if len(set(names)) < len(names):
        raise _error(call.args[1], source, f"duplicate variable name: {names[0]}")
    if call.target is None:
        raise AssertionError("a loop has a range")
    return ast.Comprehension(kind, call.target, names, condition, result, line=call.line, column=call.column)


def _optional_map(call: ast.Call, source: str) -> ast.Node:
    """`x.optMap(v, e)` is `x.hasValue() ? optional.of(cel.bind(v, x.value(), e)) : optional.none()`, x once."""
    variable = _variable(call.args[0], source, "argument must be a simple name")
    if call.target is None:
        raise AssertionError("a macro's receiver")
    hidden = "#target"  # no identifier, so nothing can be shadowed
    has_value = _call(call, "hasValue", target=_ident(call, hidden))
    body: ast.Node = _bind(call, variable, _call(call, "value", target=_ident(call, hidden)), call.args[1])
    if call.function == "optMap":
        body = _call(call, "optional.of", body)
    return _bind(
        call, hidden, call.target, _call(call, "_?_:_", has_value, body, _call(call, "optional.none"))
    )


def _sort_by(call: ast.Call, source: str) -> ast.Node:
    """`x.sortBy(v, key)` sorts x by the keys of `x.map(v, key)`, x once."""
    if call.target is None:
        raise AssertionError("a macro's receiver")
    hidden = "#sorted"
    keys = _loop(
        _call(call, "map", *call.args, target=_ident(call, hidden)), source, "map", 1, None, call.args[1]
    )
    body = _call(call, "@sortByAssociatedKeys", keys, target=_ident(call, hidden))
    return _bind(call, hidden, call.target, body)


def _call(at: ast.Node, function: str, *args: ast.Node, target: ast.Node | None = None) -> ast.Call:
    return ast.Call(function, target, list(args), line=at.line, column=at.column)


def _ident(at: ast.Node, name: str) -> ast.Ident:
    return ast.Ident(name, line=at.line, column=at.column)


def _bind(at: ast.Node, variable: str, value: ast.Node, body: ast.Node) -> ast.Bind:
    return ast.Bind(variable, value, body, line=at.line, column=at.column)


def _variable(node: ast.Node, source: str, message: str) -> str:
    if not isinstance(node, ast.Ident):
        raise _error(node, source, message)
    return node.name


def _error(node: ast.Node, source: str, message: str) -> CompileError:
    return CompileError([Issue(node.line, node.column, message)], source)

"""From text to syntax tree, with macros expanded.

The parser is bounded before it starts (length) and while it builds (nesting), because expressions come from
strangers; chains of `&&` and `||` do not nest, so they may be as long as the text.
"""

from collections.abc import Callable
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

from dra_driver.cel import ast
from dra_driver.cel.errors import CompileError, Issue
from dra_driver.cel.grammar import parser
from dra_driver.cel.literals import LITERALS
from dra_driver.cel.macros import expand

MAX_NESTING = 250  # as cel-go; what needs more of Python's stack than there is, is refused as well

_RESERVED = frozenset(
    {
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    }
)
_KEYWORDS = frozenset({"in", "true", "false", "null"})  # tokens of their own, so no field names either


def parse(source: str) -> ast.Node:
    """The tree of an expression; CompileError where it is no CEL."""
    try:
        tree = parser().parse(source)
    except UnexpectedToken as error:
        raise CompileError([_unexpected_token(error, source)], source) from error
    except UnexpectedCharacters as error:
        text = (
            source[error.pos_in_stream : error.pos_in_stream + 1] if error.pos_in_stream is not None else ""
        )
        message = f"Syntax error: token recognition error at: {text!r}"
        raise CompileError([Issue(error.line, error.column, message)], source) from error
    except UnexpectedEOF as error:
        raise CompileError([Issue(*_end(source), "Syntax error: unexpected end")], source) from error
    return _Builder(source).node(tree, 0)


def _end(source: str) -> tuple[int, int]:
    lines = source.split("\n")
    return len(lines), len(lines[-1]) + 1


def _unexpected_token(error: UnexpectedToken, source: str) -> Issue:
    token = error.token
    if token.type == "$END":
        return Issue(*_end(source), "Syntax error: mismatched input '<EOF>': the expression ends too early")
    return Issue(token.line or 1, token.column or 1, f"Syntax error: mismatched input '{token}'")


class _Builder:
    """One pass over lark's tree; methods are named after the rules of the grammar."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, message: str, token: Token, name: str | None = None) -> CompileError:
        return CompileError([Issue(token.line or 1, token.column or 1, message, name)], self.source)

    def node(self, tree: Tree[Token] | Token, depth: int) -> ast.Node:
        if depth > MAX_NESTING:
            message = f"expression recursion limit exceeded: {MAX_NESTING}"
            raise CompileError([Issue(1, 1, message)], self.source)
        if isinstance(tree, Token):
            return self.literal(tree)
        build: Callable[[list[Any], int], ast.Node] = getattr(self, str(tree.data))
        return build(tree.children, depth + 1)

    def literal(self, token: Token) -> ast.Node:
        kind, read = LITERALS[token.type]
        try:
            value = read(str(token))
        except ValueError as error:
            raise self.fail(f"Syntax error: {error}", token) from error
        return ast.Literal(value, line=token.line or 1, column=token.column or 1, type=kind)

    def call(self, function: str, at: Token, *args: ast.Node) -> ast.Call:
        return ast.Call(function, None, list(args), line=at.line or 1, column=at.column or 1)

    def expr(self, children: list[Any], depth: int) -> ast.Node:
        condition, question, yes, _, no = children
        return self.call(
            "_?_:_", question, self.node(condition, depth), self.node(yes, depth), self.node(no, depth)
        )

    def conditionalor(self, children: list[Any], depth: int) -> ast.Node:
        return self.chain("conditionalor", "_||_", children, depth)

    def conditionaland(self, children: list[Any], depth: int) -> ast.Node:
        return self.chain("conditionaland", "_&&_", children, depth)

    def chain(self, rule: str, function: str, children: list[Any], depth: int) -> ast.Node:
        operands, operator, left = [children[2]], children[1], children[0]
        while isinstance(left, Tree) and left.data == rule:
            operands.append(left.children[2])
            operator, left = left.children[1], left.children[0]
        operands.append(left)
        return self.call(function, operator, *(self.node(operand, depth) for operand in reversed(operands)))

    def binary(self, children: list[Any], depth: int) -> ast.Node:
        (left, operator), right = children[0].children, children[1]
        function = "@in" if operator == "in" else f"_{operator}_"
        return self.call(function, operator, self.node(left, depth), self.node(right, depth))

    relation = addition = multiplication = binary

    def unary(self, children: list[Any], depth: int) -> ast.Node:
        operator, operand, times = children[0].children[0], children[1], 1
        while isinstance(operand, Tree) and operand.data == "unary":
            following = operand.children[0].children[0]
            if following != operator:
                raise self.fail(f"Syntax error: mismatched input '{following}'", following)
            operand, times = operand.children[1], times + 1
        if operator == "-" and isinstance(operand, Token) and operand[0] == "-":
            # The lexer gave the last of several signs to the number, which has to fit without it.
            operand, times = operand.update(value=operand[1:]), times + 1
        if times % 2 == 0:
            return self.node(operand, depth)  # !!x is x, whatever x is
        signed = operator == "-" and isinstance(operand, Token)
        if signed and times == 1 and operand.type in {"INT_LIT", "FLOAT_LIT"}:
            return self.literal(operator.update(type=operand.type, value=f"-{operand}"))  # so that -2^63 fits
        return self.call("!_" if operator == "!" else "-_", operator, self.node(operand, depth))

    def field_name(self, token: Token) -> str:
        if token in _KEYWORDS:
            raise self.fail(f"Syntax error: mismatched input '{token}'", token)
        return str(token)

    def member_dot(self, children: list[Any], depth: int) -> ast.Node:
        operand, dot, name = children
        field = self.field_name(name)
        return ast.Select(self.node(operand, depth), field, line=dot.line, column=dot.column)

    def member_opt_dot(self, children: list[Any], depth: int) -> ast.Node:
        operand, dot, _, name = children
        field = self.field_name(name)
        return ast.Select(self.node(operand, depth), field, optional=True, line=dot.line, column=dot.column)

    def member_dot_arg(self, children: list[Any], depth: int) -> ast.Node:
        target, _, name, paren, *rest = children
        args = self.expressions(rest[0], depth) if isinstance(rest[0], Tree) else []
        call = ast.Call(
            self.field_name(name), self.node(target, depth), args, line=paren.line, column=paren.column
        )
        return expand(call, self.source)

    def member_index(self, children: list[Any], depth: int) -> ast.Node:
        return self.call("_[_]", children[1], self.node(children[0], depth), self.node(children[2], depth))

    def member_opt_index(self, children: list[Any], depth: int) -> ast.Node:
        return self.call("_[?_]", children[1], self.node(children[0], depth), self.node(children[3], depth))

    def member_object(self, children: list[Any], depth: int) -> ast.Node:
        operand, brace, inits = self.node(children[0], depth), children[1], children[2]
        name = dotted(operand)
        if name is None:
            raise self.fail("Syntax error: mismatched input '{'", brace)
        values = (
            [self.node(child, depth) for child in inits.children[2::4]] if isinstance(inits, Tree) else []
        )
        return ast.StructLiteral(name, values, line=brace.line, column=brace.column)

    def dot_ident_arg(self, children: list[Any], depth: int) -> ast.Node:
        return self.ident_arg(children[1:], depth)

    def dot_ident(self, children: list[Any], depth: int) -> ast.Node:
        return self.ident(children[1:], depth)

    def ident_arg(self, children: list[Any], depth: int) -> ast.Node:
        name, paren, *rest = children
        args = self.expressions(rest[0], depth) if isinstance(rest[0], Tree) else []
        call = ast.Call(self.identifier(name), None, args, line=paren.line, column=paren.column)
        return expand(call, self.source)

    def ident(self, children: list[Any], _depth: int) -> ast.Node:
        token = children[0]
        return ast.Ident(self.identifier(token), line=token.line, column=token.column)

    def identifier(self, token: Token) -> str:
        if token in _RESERVED:
            raise self.fail(f"reserved identifier: {token}", token, str(token))
        return str(token)

    def paren_expr(self, children: list[Any], depth: int) -> ast.Node:
        return self.node(children[1], depth)

    def list_lit(self, children: list[Any], depth: int) -> ast.Node:
        items = children[1].children[::2] if isinstance(children[1], Tree) else []
        return ast.ListLiteral(
            [self.node(item.children[-1], depth) for item in items],
            frozenset(index for index, item in enumerate(items) if len(item.children) > 1),
            line=children[0].line,
            column=children[0].column,
        )

    def map_lit(self, children: list[Any], depth: int) -> ast.Node:
        inits = children[1].children[::2] if isinstance(children[1], Tree) else []
        entries = [
            ast.Entry(
                self.node(init.children[-3], depth),
                self.node(init.children[-1], depth),
                len(init.children) > 3,
            )
            for init in inits
        ]
        return ast.MapLiteral(entries, line=children[0].line, column=children[0].column)

    def expressions(self, tree: Tree[Token], depth: int) -> list[ast.Node]:
        return [self.node(child, depth) for child in tree.children[::2]]


def dotted(node: ast.Node) -> str | None:
    """'a.b.c' where the node is a chain of plain names, else None."""
    if isinstance(node, ast.Ident):
        return node.name
    if isinstance(node, ast.Select) and not node.optional and not node.test:
        prefix = dotted(node.operand)
        return prefix and f"{prefix}.{node.field}"
    return None

"""The parser: cel-python's grammar, extended to the syntax that Kubernetes accepts.

cel-python 0.5 knows no optional syntax (`.?`, `[?`, `{?k: v}`, `[?x]`), no trailing commas, and its string
terminals accept texts that cel-go refuses ("a\\" + "b"). So its rules are taken with a few replacements, and the
terminals are ours. Only the grammar file is read: importing celpy would cost half a second and change the
interpreter's recursion limit. A replacement that does not apply means that cel-python changed; it is pinned.
"""

import functools
import importlib.util
from pathlib import Path

from lark import Lark

_REPLACEMENTS = (
    (
        "member         : member_dot | member_dot_arg | member_index | member_object | primary",
        """?member        : member_dot | member_opt_dot | member_dot_arg | member_index | member_opt_index
                 | member_object | primary
member_opt_dot : member "." "?" IDENT
member_opt_index : member "[" "?" expr "]\"""",
    ),
    (
        'fieldinits     : IDENT ":" expr ("," IDENT ":" expr)*',
        'fieldinits     : IDENT ":" expr ("," IDENT ":" expr)* [","]',
    ),
    ('list_lit       : "[" [exprlist] "]"', 'list_lit       : "[" [listinits | ","] "]"'),
    ('map_lit        : "{" [mapinits] "}"', 'map_lit        : "{" [mapinits | ","] "}"'),
    (
        'mapinits       : expr ":" expr ("," expr ":" expr)*',
        """mapinits       : mapinit ("," mapinit)* [","]
mapinit        : ["?"] expr ":" expr
listinits      : listinit ("," listinit)* [","]
listinit       : ["?"] expr""",
    ),
    ("literal        : UINT_LIT", "?literal       : UINT_LIT"),
    ("| BOOL_LIT | NULL_LIT", "| TRUE_LIT | FALSE_LIT | NULL_LIT"),
    # Rules that only pass their one child on leave no node behind.
    *(
        (f"\n{rule} ", f"\n?{rule} ")
        for rule in (
            "expr",
            "conditionalor",
            "conditionaland",
            "relation",
            "addition",
            "multiplication",
            "unary",
            "primary",
        )
    ),
)

_TERMINALS = r"""
UINT_LIT.6     : /(?:0x[0-9a-fA-F]+|[0-9]+)[uU]/
FLOAT_LIT.5    : /-?(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)/
INT_LIT.4      : /-?(?:0x[0-9a-fA-F]+|[0-9]+)/
BYTES_LIT.8    : /[bB](?:[rR](?:\"\"\"(?s:.)*?\"\"\"|'''(?s:.)*?'''|"[^"\n\r]*"|'[^'\n\r]*')|\"\"\"(?s:[^\\]|\\.)*?\"\"\"|'''(?s:[^\\]|\\.)*?'''|"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')/
MLSTRING_LIT.8 : /[rR](?:\"\"\"(?s:.)*?\"\"\"|'''(?s:.)*?''')|\"\"\"(?s:[^\\]|\\.)*?\"\"\"|'''(?s:[^\\]|\\.)*?'''/
STRING_LIT.7   : /[rR](?:"[^"\n\r]*"|'[^'\n\r]*')|"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*'/
TRUE_LIT       : "true"
FALSE_LIT      : "false"
NULL_LIT       : "null"
IDENT          : /[_a-zA-Z][_a-zA-Z0-9]*/
WHITESPACE     : /[\t\n\f\r ]+/
COMMENT.9      : /\/\/[^\n]*/
%ignore WHITESPACE
%ignore COMMENT
"""


@functools.cache
def parser() -> Lark:
    """The LALR parser; it is stateless between parses, so threads may share it."""
    return Lark(_grammar(), parser="lalr", start="expr", keep_all_tokens=True, maybe_placeholders=False)


def _grammar() -> str:
    spec = importlib.util.find_spec("celpy")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("cel-python is not installed: pip install 'dra-driver[cli]'")
    text = (Path(spec.submodule_search_locations[0]) / "cel.lark").read_text(encoding="utf-8")
    rules, mark, _ = text.partition("// Terminals.")
    if not mark:
        raise ImportError("the grammar of cel-python has no section of terminals: another version than 0.5?")
    for old, new in _REPLACEMENTS:
        if rules.count(old) != 1:
            raise ImportError(
                f"the grammar of cel-python lacks the rule {old.strip()!r}: another version than 0.5?"
            )
        rules = rules.replace(old, new)
    return rules + _TERMINALS

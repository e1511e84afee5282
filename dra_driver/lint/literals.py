"""Constants that compile and can never be evaluated: quantity("80GB"), semver("550.127.08").

The API server accepts them, since it does not evaluate; the scheduler then gives up on every node.
"""

import re
from collections.abc import Iterator

from dra_driver.cel import ast
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.library.semver import Semver
from dra_driver.lint.context import Context, Selection
from dra_driver.lint.finding import Edit, Finding, Rule
from dra_driver.quantity import Quantity
from dra_driver.versions import driver_semver

BAD_QUANTITY = Rule(
    "bad-quantity",
    "error",
    "A quantity that is none",
    'The API server takes `quantity("80GB")`, and the scheduler fails on it: the suffixes are `k`, `M`, `G` and `Ki`, '
    "`Mi`, `Gi`, without a B and without a blank.",
)
BAD_SEMVER = Rule(
    "bad-semver",
    "error",
    "A version that is none",
    "A semantic version has three numbers without leading zeros and no `v`. NVIDIA writes 550.127.08; the attribute, and "
    "what it is compared with, is 550.127.8.",
)
RULES = (BAD_QUANTITY, BAD_SEMVER)

_LOOSE = re.compile(r"\s*([+-]?[\d.]+)\s*([kmgtpe]?)(i?)(?:b(?:ytes?)?)?\s*", re.IGNORECASE | re.ASCII)


def check(context: Context) -> Iterator[Finding]:
    for selection in context.selections:
        for node in selection.expression.nodes():
            if isinstance(node, ast.Call) and node.target is None and node.args:
                yield from _check_call(context, selection, node)


def _check_call(context: Context, selection: Selection, node: ast.Call) -> Iterator[Finding]:
    argument = node.args[0]
    text = selection.expression.constant(argument)
    if text is None:
        return
    if node.function == "quantity" and len(node.args) == 1 and not _is_quantity(text):
        yield _finding(context, selection, BAD_QUANTITY, argument, text, repaired_quantity(text))
    if node.function == "semver":
        lenient = any(isinstance(arg, ast.Literal) and arg.value is True for arg in node.args[1:])
        constant = all(isinstance(arg, ast.Literal) for arg in node.args[1:])
        if constant and (why := _why_no_semver(text, normalize=lenient)):
            yield _finding(context, selection, BAD_SEMVER, argument, text, _repaired_semver(text), why)


def _finding(
    context: Context,
    selection: Selection,
    rule: Rule,
    argument: ast.Node,
    text: str,
    repaired: str | None,
    why: str = "",
) -> Finding:
    start = selection.expression.offset(argument.line, argument.column)
    edits: tuple[Edit, ...] = ()
    if repaired is not None and isinstance(argument, ast.Literal):
        # Only where the literal is written plainly: one quote, the text, the same quote.
        written = selection.text.text[start : start + len(text) + 2]
        if written in {f'"{text}"', f"'{text}'"}:
            edit = context.rewrite(
                selection.manifest, selection.text.path, start + 1, start + 1 + len(text), repaired
            )
            edits = () if edit is None else (edit,)
    kind = "quantity" if rule is BAD_QUANTITY else "semantic version"
    message = f'"{text}" is no {kind}' + (f": {why}" if why else "")
    fix = None if repaired is None else f'write "{repaired}"'
    return context.finding_in(rule, selection, message, at=argument, fix=fix, edits=edits)


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def repaired_quantity(text: str) -> str | None:
    """The quantity that a text was meant as: "80 GB" is 80G, "80gib" is 80Gi; None where that is a guess.

    A single letter in the wrong case stays a question: 80m is a milli, 80g is nothing.
    """
    match = _LOOSE.fullmatch(text)
    if match is None:
        return None
    number, unit, binary = match.groups()
    unit = {"k": "k"}.get(unit.lower(), unit.upper()) if not binary else unit.upper()
    repaired = f"{number}{unit}{'i' if binary else ''}"
    return repaired if _is_quantity(repaired) else None


def _why_no_semver(text: str, *, normalize: bool) -> str | None:
    try:
        Semver.parse(text, normalize)
    except EvaluationError as error:
        return error.message
    return None


def _repaired_semver(text: str) -> str | None:
    """550.127.08 -> 550.127.8, v9.0 -> 9.0.0; only numbers, since a pre-release is no typing mistake."""
    return driver_semver(text) if re.fullmatch(r"\s*[vV]?\d+(\.\d+){0,2}\s*", text, re.ASCII) else None

"""Comparisons that never say what they seem to: quantities and versions that are compared as texts or numbers.

CEL has no `>=` for quantities and versions, and a text is never equal to either. Some of these the compiler refuses, in
words about overloads; the rest it accepts, and the scheduler fails on each device.
"""

from collections.abc import Iterator, Mapping

from dra_driver.cel import ast
from dra_driver.cel.library.quantity import Quantity
from dra_driver.cel.library.semver import Semver
from dra_driver.lint import catalogue
from dra_driver.lint.comparisons import constant_of
from dra_driver.lint.context import Context, Selection
from dra_driver.lint.finding import Finding, Rule
from dra_driver.selectors.comparisons import MIRRORED
from dra_driver.selectors.reads import Read
from dra_driver.versions import driver_semver

QUANTITY_COMPARISON = Rule(
    "quantity-comparison",
    "error",
    "A quantity is compared with an operator",
    "A capacity is a quantity, not a text and not a number: `<` and `>=` have no meaning for it, and it equals no text. "
    'Compare with `.compareTo(quantity("40Gi")) >= 0`, `.isGreaterThan(...)` or `.isLessThan(...)`.',
)
VERSION_COMPARISON = Rule(
    "version-comparison",
    "error",
    "A version is compared with an operator",
    "Versions are no texts: compare with `.compareTo(semver(...))`. As texts, 580 would come before 99.",
)
TYPE_MISMATCH = Rule(
    "type-mismatch",
    "error",
    "An attribute is compared with a value of another type",
    'Values of different types are never equal: `numaNode == "0"` is false for the number 0. Where the order is '
    "asked, the comparison is an error.",
)
RULES = (QUANTITY_COMPARISON, VERSION_COMPARISON, TYPE_MISMATCH)

Mistake = tuple[Rule, str, str | None]
"""What is said of it: the rule, the message and the fix."""

_LARGE = 1 << 20  # a plain number below it was hardly meant as bytes
_NUMBERS = (int, float)
_VERSION_TEXTS = frozenset({"driverVersionString"})  # texts whose order is that of no version


def check(context: Context) -> Iterator[Finding]:
    for selection in context.selections:
        for node, (rule, message, fix) in _mistakes(selection):
            if not _reads_attribute_as_capacity(selection, node):
                yield context.finding_in(rule, selection, message, at=node, fix=fix)


def explained(selection: Selection) -> set[tuple[int, int]]:
    """The places of comparisons that this module has a better word for than the compiler."""
    return {(node.line, node.column) for node, _ in _mistakes(selection)}


def _mistakes(selection: Selection) -> Iterator[tuple[ast.Call, Mistake]]:
    for node in selection.expression.nodes():
        if isinstance(node, ast.Call) and node.function.strip("_") in MIRRORED and len(node.args) == 2:
            mistake = _mistake(selection, node)
            if mistake is not None:
                yield node, mistake


def _reads_attribute_as_capacity(selection: Selection, node: ast.Call) -> bool:
    """Whether what is compared is no quantity but misplaced, which has a finding of its own."""
    found = (selection.expression.read_of(arg) for arg in node.args)
    known = catalogue.names(selection.of_class)
    return any(
        read is not None and read.family == "capacity" and read._replace(family="attributes") in known
        for read in found
    )


def _mistake(selection: Selection, node: ast.Call) -> Mistake | None:
    operator: str = node.function.strip("_")
    left, right = node.args
    read, other = selection.expression.read_of(left), right
    if read is None:
        read, other, operator = selection.expression.read_of(right), left, MIRRORED[operator]
    if read is None:
        return None
    kind, meant = _kind(selection, read)
    constant = other.value if isinstance(other, ast.Literal) else constant_of(selection.expression, other)
    if isinstance(constant, bool) and kind != "bool" and kind is not None:
        return TYPE_MISMATCH, f"{read.name} is {_A[kind]}, and is compared with a bool", None
    called = other.args[0] if isinstance(other, ast.Call) and other.args else other
    text = selection.expression.constant(called)
    match kind:
        case "quantity":
            return _quantity(meant, operator, constant, text)
        case "version":
            return _version(meant, operator, constant, text)
        case "string" if read.name in _VERSION_TEXTS and operator not in {"==", "!="}:
            return _version_text(read, operator, constant)
        case "string" | "int" | "bool":
            return _plain(read, kind, constant)
        case _:
            return None


_A = {
    "quantity": "a quantity",
    "version": "a version",
    "string": "a text",
    "int": "a number",
    "bool": "a bool",
}


_TYPES: Mapping[type, str] = {
    str: "string",
    int: "int",
    float: "int",
    bool: "bool",
    Quantity: "quantity",
    Semver: "version",
}


def _kind(selection: Selection, read: Read) -> tuple[str | None, Read]:
    """The type of what is read, and what it truly is: a capacity read as an attribute is a quantity all the same."""
    known = catalogue.names(selection.of_class)
    if read not in known and read.family == "attributes":
        domains = {one.domain for one in known if one.family == "capacity"}
        if read.domain in {one.domain for one in known}:
            domains &= {read.domain}
        meant = (Read("capacity", domain, read.name) for domain in sorted(domains))
        read = next((other for other in meant if other in known), read)
    return catalogue.value_type(read, selection.of_class), read


def _quantity(read: Read, operator: str, constant: object, text: str | None) -> Mistake | None:
    """`text` is what stands in the quotes, be it a text or the argument of quantity()."""
    if isinstance(constant, Quantity):
        if operator in {"==", "!="}:
            return None
        written, what = f'quantity("{text}")', f"with {operator}"
    elif isinstance(constant, str):
        written, what = f'quantity("{constant}")', "with a text"
    elif isinstance(constant, _NUMBERS):
        written, what = f'quantity("{constant}{"" if constant >= _LARGE else "Gi"}")', "with a number"
    else:
        return None
    message = f"{read.name} is a quantity, and is compared {what}"
    return QUANTITY_COMPARISON, message, f"write {read}.compareTo({written}) {operator} 0"


def _version(read: Read, operator: str, constant: object, text: str | None) -> Mistake | None:
    if isinstance(constant, Semver):
        if operator in {"==", "!="}:
            return None
        what = f"with {operator}"
    elif isinstance(constant, str):
        what = "with a text"
    elif isinstance(constant, _NUMBERS):
        text, what = str(constant), "with a number"
    else:
        return None
    version = driver_semver(text or "") or "1.2.3"
    message = f"{read.name} is a version, and is compared {what}"
    return (
        VERSION_COMPARISON,
        message,
        f'write {read}.compareTo(semver("{version}")) {operator} 0',
    )


def _version_text(read: Read, operator: str, constant: object) -> Mistake | None:
    if not isinstance(constant, str):
        return None
    version = Read("attributes", read.domain, read.name.removesuffix("String"))
    text = driver_semver(constant) or "1.2.3"
    message = f'{read.name} is compared letter by letter: "99" is greater than "580"'
    return VERSION_COMPARISON, message, f'write {version}.compareTo(semver("{text}")) {operator} 0'


def _plain(read: Read, kind: str, constant: object) -> Mistake | None:
    found = _TYPES.get(type(constant))
    if found is None or found == kind:
        return None
    fix = None
    if kind == "int" and isinstance(constant, str) and constant.lstrip("-").isdigit():
        fix = f"write {constant} without quotes"
    if kind == "bool":
        fix = f"write {read} or !{read}"
    return TYPE_MISMATCH, f"{read.name} is {_A[kind]}, and is compared with {_A[found]}", fix

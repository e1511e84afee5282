"""Linting: all rules over all files that are given together.

Rules are families, one module each, with a table `RULES` and a function `check(context)`; they do not know each other.
What several of them see of one mistake is sorted out here: a field with an error of its own is not reported once more as
refused by the API server. Whatever is in the files, the answer is findings, and comes soon.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from dra_driver.lint import (
    api,
    compiling,
    configuration,
    constraints,
    documents,
    guards,
    literals,
    matches,
    names,
    references,
    shapes,
    shares,
    sharing,
    types,
)
from dra_driver.lint.context import Context
from dra_driver.lint.finding import SEVERITIES, Finding, Rule
from dra_driver.lint.nodes import File, of_value, read
from dra_driver.lint.surroundings import Surroundings
from dra_driver.yamlevents import YamlError


class Family(Protocol):
    """A module of rules."""

    @property
    def RULES(self) -> tuple[Rule, ...]: ...  # noqa: N802 - the name of a module's constant

    @property
    def check(self) -> Callable[[Context], Iterator[Finding]]: ...


_FAMILIES: tuple[Family, ...] = (
    documents,
    api,
    shapes,
    compiling,
    names,
    types,
    literals,
    guards,
    matches,
    constraints,
    references,
    sharing,
    shares,
    configuration,
)  # the order of the documentation

RULES: tuple[Rule, ...] = tuple(rule for family in _FAMILIES for rule in family.RULES)
UNREADABLE = documents.UNREADABLE.code


def lint(
    sources: Iterable[tuple[str, bytes]],
    surroundings: Surroundings | None = None,
    *,
    beside: Iterable[tuple[str, Mapping[str, Any]]] = (),
    lists: bool = False,
) -> list[Finding]:
    """What there is to say about files, given as names with contents; in the order of files, lines and columns.

    `surroundings` is the cluster that they are for; without one, what the files do not have is not known. `beside`
    are objects that they meet there, such as the claims that Pods name: these are known and not judged. `lists`:
    whether attributes may be lists of values.
    """
    files: list[File] = []
    found: list[Finding] = []
    order: dict[str, int] = {}
    for name, data in sources:
        order.setdefault(name, len(order))
        try:
            files.append(read(data, name))
        except YamlError as error:
            found.append(documents.unreadable(name, error))
    files += [of_value(obj, name) for name, obj in beside]
    found += _findings(files, surroundings, lists=lists)
    return sorted(
        {finding for finding in found if finding.file in order},
        key=lambda f: (order[f.file], f.line, f.column, SEVERITIES.index(f.severity), f.code),
    )


def lint_objects(
    objects: Iterable[tuple[str, Mapping[str, Any]]],
    surroundings: Surroundings | None = None,
    *,
    beside: Iterable[tuple[str, Mapping[str, Any]]] = (),
    lists: bool = False,
) -> list[Finding]:
    """As `lint`, of objects that are no text; findings name the object, and have no line in it.

    YamlError where an object is larger than a file's may be.
    """
    files = [of_value(obj, name) for name, obj in objects]
    judged = {file.name for file in files}
    files += [of_value(obj, name) for name, obj in beside]
    found = {finding for finding in _findings(files, surroundings, lists=lists) if finding.file in judged}
    return sorted(found, key=lambda f: (SEVERITIES.index(f.severity), f.file, f.path, f.code))


def _findings(files: list[File], surroundings: Surroundings | None, *, lists: bool) -> list[Finding]:
    context = Context(files, surroundings, lists=lists)
    found: list[Finding] = []
    for family in _FAMILIES:
        found += family.check(context)
    found = _settled(found)
    failing = {(f.file, f.document, f.path) for f in found if f.severity == "error"}
    return [*found, *compiling.check_evaluation(context, failing)]


def _settled(found: list[Finding]) -> list[Finding]:
    """Without what the API server would say to a field that has a better explanation already."""
    invalid = api.INVALID_OBJECT.code
    explained = {_field(f) for f in found if f.severity == "error" and f.code != invalid}
    # All that is said of a selector whose parts stand at the wrong level is about that.
    selectors = {_field(f, f.path.rpartition(".")[0]) for f in found if f.code == shapes.SELECTOR_LEVEL.code}
    return [f for f in found if f.code != invalid or not ({_field(f)} & explained or _inside(f, selectors))]


def _field(finding: Finding, path: str | None = None) -> tuple[str, int, str]:
    path = finding.path if path is None else path
    # Whether a request's fields stand under `exactly` is one of the things that may be wrong.
    return finding.file, finding.document, path.replace(".exactly", "")


def _inside(finding: Finding, selectors: Collection[tuple[str, int, str]]) -> bool:
    file, document, path = _field(finding)
    return any(
        (file, document) == other[:2] and (path == other[2] or path.startswith(f"{other[2]}."))
        for other in selectors
    )

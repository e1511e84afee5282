"""`dra-driver lint`: what is wrong with manifests, before anything is applied, or with what was.

Files are judged by what they bring along, or (--live) by the devices and classes of a cluster. Without files, the
objects of a cluster are judged; these have no lines, so a finding's place is the object and the field's path.

Exit codes: 0 nothing, or only information; 1 errors or warnings; 2 a file cannot be read, or is no YAML; 3 the
cluster cannot be reached.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dra_driver.cli.output import STRUCTURED, format_of, printable, rendered
from dra_driver.cli.sources import STDIN, read_sources
from dra_driver.cli.table import table
from dra_driver.errors import UsageError
from dra_driver.files import write_atomic
from dra_driver.lint import SEVERITIES, UNREADABLE, Finding, Judge, fix, lint, lint_objects
from dra_driver.lint.documents import problem_of
from dra_driver.lint.manifests import manifests
from dra_driver.lint.nodes import MAX_BYTES, read
from dra_driver.resource.conversion import VERSIONS, convert, is_convertible
from dra_driver.yamlevents import YamlError


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be judged, and by what."""

    files: Sequence[str]
    with_cluster: bool = False
    namespace: str | None = "default"  # of a cluster's objects; None: all
    kubeconfig: Path | None = None
    lists: bool = False  # whether attributes may be lists of values


def run(question: Question, *, output: str | None, fixing: bool, version: str | None) -> int:
    """Lint, fix or convert; the exit code."""
    form = format_of(output)
    sources = dict(read_sources(question.files, MAX_BYTES))
    if (fixing or version is not None) and not sources:
        raise UsageError("--fix and --convert are for files: name them")
    if fixing and version is not None:
        raise UsageError("--fix changes files and --convert prints them: give one of the two")
    if version is not None:
        return _convert(sources, version, output)
    if fixing and STDIN in sources:
        raise UsageError("--fix changes files, and cannot change standard input")
    findings = _findings(question, sources, fixing=fixing)
    print(_rendered(findings, form), end="")
    if any(finding.code == UNREADABLE for finding in findings):
        return 2
    return int(any(finding.severity != "info" for finding in findings))


def _findings(question: Question, sources: dict[str, bytes], *, fixing: bool) -> list[Finding]:
    if sources and not question.with_cluster:
        judge: Judge = partial(lint, lists=question.lists)
        return _fix(sources, judge) if fixing else judge(sources.items())
    # A client for a cluster takes longer to load than most files to lint.
    from dra_driver.cli import live
    from dra_driver.cli.lint_cluster import read_cluster, without

    with live.connection(question.kubeconfig, instead="name files, without --live") as client:
        found = read_cluster(client, question.namespace, judged=not sources, lists=question.lists)
    if not sources:
        if all(obj["kind"] == "DeviceClass" for _, obj in (*found.objects, *found.known)):
            where = f"namespace {question.namespace} has" if question.namespace else "the cluster has"
            print(f"note: {where} no claims, templates or Pods", file=sys.stderr)
        return lint_objects(found.objects, found.surroundings, beside=found.known, lists=question.lists)
    known = tuple(without(found.known, _objects(sources)))
    judge = partial(lint, surroundings=found.surroundings, beside=known, lists=question.lists)
    return _fix(sources, judge) if fixing else judge(sources.items())


def _objects(sources: Mapping[str, bytes]) -> Iterator[Mapping[str, Any]]:
    """The objects of the files that can be read."""
    for name, data in sources.items():
        try:
            yield from (manifest.object for manifest in manifests([read(data, name)]))
        except YamlError:
            continue  # that it cannot be read is a finding


def _fix(sources: dict[str, bytes], judge: Judge) -> list[Finding]:
    """Write what can be fixed; what is left."""
    fixed, findings, settled = fix(sources, judge)
    changed = [name for name, data in fixed.items() if data != sources[name]]
    for name in changed:
        path = Path(name).resolve()  # a link stays a link
        try:
            write_atomic(path, fixed[name], mode=path.stat().st_mode & 0o777)
        except OSError as error:
            raise UsageError(f"{name} cannot be written: {error.strerror}") from error
    print(f"fixed {_number(settled, 'finding')} in {_number(len(changed), 'file')}", file=sys.stderr)
    return findings


def _convert(sources: dict[str, bytes], version: str, output: str | None) -> int:
    known = next((candidate for candidate in VERSIONS if candidate == version), None)
    if known is None:
        raise UsageError(
            f"there is no version {version} to convert to: expected one of {', '.join(VERSIONS)}"
        )
    files = [read(data, name) for name, data in sources.items()]
    for file in files:
        for node in file.documents:
            if (problem := problem_of(node)) is not None:
                raise YamlError(file.name, problem, node.line, node.column)
    objects = [
        convert(manifest.object, known) if is_convertible(manifest.object) else manifest.object
        for manifest in manifests(files)
    ]
    print(rendered(*objects, output=output if output == "json" else "yaml"), end="")
    return 0


def _rendered(findings: Sequence[Finding], output: str) -> str:
    if output in STRUCTURED:
        counts = Counter(finding.severity for finding in findings)
        body = {
            "findings": [finding.as_dict() for finding in findings],
            "counts": {severity: counts[severity] for severity in SEVERITIES},
        }
        return rendered(body, output=output)
    if not findings:
        return "" if output == "lines" else "nothing found\n"
    return printable("".join(map(_line, findings)) if output == "lines" else _table(findings))


def _line(finding: Finding) -> str:
    """As compilers write it, so that editors find the place; how to mend it stands below, indented."""
    fixes = "".join(f"    {line}\n" for line in (finding.fix or "").splitlines())
    return f"{_place(finding)}: {finding.severity}: {finding.message} [{finding.code}]\n{fixes}"


def _place(finding: Finding) -> str:
    """File, line and column; of an object of a cluster, its name and the path of the field."""
    if finding.line:
        return f"{finding.file}:{finding.line}:{finding.column}"
    return f"{finding.file} {finding.path}".rstrip()


def _table(findings: Sequence[Finding]) -> str:
    rows: list[tuple[str, str, str, str]] = []
    for finding in findings:
        first, *more = [finding.message, *(f"  {line}" for line in (finding.fix or "").splitlines())]
        rows.append((_place(finding), finding.severity, finding.code, first))
        rows += [(" ", " ", " ", line) for line in more]
    counts = Counter(finding.severity for finding in findings)
    summary = ", ".join(_number(counts[severity], severity) for severity in SEVERITIES if counts[severity])
    fixable = sum(bool(finding.edits) for finding in findings)
    hint = f"; --fix settles {fixable}" if fixable else ""
    return f"{table(('PLACE', 'SEVERITY', 'CODE', 'MESSAGE'), rows)}\n\n{summary}{hint}\n"


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 or word == 'info' else 's'}"

"""`dra-driver lint`: what is wrong with manifests, before anything is applied.

Exit codes: 0 nothing, or only information; 1 errors or warnings; 2 a file cannot be read, or is no YAML.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dra_driver.cli.sources import STDIN, read_sources
from dra_driver.cli.table import table
from dra_driver.errors import UsageError
from dra_driver.files import write_atomic
from dra_driver.lint import SEVERITIES, UNREADABLE, Finding, fix, lint
from dra_driver.lint.nodes import MAX_BYTES, read
from dra_driver.resource.conversion import VERSIONS, convert, is_convertible

FORMATS = ("table", "lines", "json", "yaml")


def run(files: Sequence[str], *, output: str | None, fixing: bool, version: str | None) -> int:
    """Lint, fix or convert; the exit code."""
    if output not in {None, *FORMATS}:
        raise UsageError(f"there is no output format {output}: expected one of {', '.join(FORMATS)}")
    sources = dict(read_sources(files, MAX_BYTES))
    if version is not None:
        return _convert(sources, version, output)
    if not fixing:
        findings = lint(sources.items())
    elif STDIN in sources:
        raise UsageError("--fix changes files, and cannot change standard input")
    else:
        findings = _fix(sources)
    print(_rendered(findings, output or ("table" if sys.stdout.isatty() else "lines")), end="")
    if any(finding.code == UNREADABLE for finding in findings):
        return 2
    return int(any(finding.severity != "info" for finding in findings))


def _fix(sources: dict[str, bytes]) -> list[Finding]:
    """Write what can be fixed; what is left."""
    fixed, findings, settled = fix(sources)
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
    objects = [
        convert(node.value, known) if node.entries and is_convertible(node.value) else node.value
        for name, data in sources.items()
        for node in read(data, name).documents
    ]
    if output == "json":
        print(json.dumps(objects if len(objects) != 1 else objects[0], indent=2))
    else:
        print(yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110), end="")
    return 0


class _Dumper(yaml.SafeDumper):
    """Writes out what aliases stood for: other tools read it as well."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the method of the library
        return True


def _rendered(findings: Sequence[Finding], output: str) -> str:
    if output in {"json", "yaml"}:
        counts = Counter(finding.severity for finding in findings)
        body = {
            "findings": [finding.as_dict() for finding in findings],
            "counts": {severity: counts[severity] for severity in SEVERITIES},
        }
        if output == "json":
            return json.dumps(body, indent=2) + "\n"
        return str(yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))
    if not findings:
        return "" if output == "lines" else "nothing found\n"
    text = "".join(map(_line, findings)) if output == "lines" else _table(findings)
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _line(finding: Finding) -> str:
    """As compilers write it, so that editors find the place; how to mend it stands below, indented."""
    place = f"{finding.file}:{finding.line}:{finding.column}"
    fixes = "".join(f"    {line}\n" for line in (finding.fix or "").splitlines())
    return f"{place}: {finding.severity}: {finding.message} [{finding.code}]\n{fixes}"


def _table(findings: Sequence[Finding]) -> str:
    rows: list[tuple[str, str, str, str]] = []
    for finding in findings:
        place = f"{finding.file}:{finding.line}:{finding.column}"
        first, *more = [finding.message, *(f"  {line}" for line in (finding.fix or "").splitlines())]
        rows.append((place, finding.severity, finding.code, first))
        rows += [(" ", " ", " ", line) for line in more]
    counts = Counter(finding.severity for finding in findings)
    summary = ", ".join(_number(counts[severity], severity) for severity in SEVERITIES if counts[severity])
    fixable = sum(bool(finding.edits) for finding in findings)
    hint = f"; --fix settles {fixable}" if fixable else ""
    return f"{table(('PLACE', 'SEVERITY', 'CODE', 'MESSAGE'), rows)}\n\n{summary}{hint}\n"


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 or word == 'info' else 's'}"

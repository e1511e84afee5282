"""Applying the edits of findings: text is changed where the mistake is, and stays as it was everywhere else.

Edits that overlap wait for the next round, in which they are found anew at their new places; the rounds end when nothing
is left to do, so fixing a fixed file changes nothing. A file that would no longer be the YAML it was is left alone.
"""

from collections.abc import Callable, Iterable, Mapping

from dra_driver.lint.engine import lint
from dra_driver.lint.finding import Edit, Finding
from dra_driver.lint.nodes import read
from dra_driver.yamlevents import YamlError

_ROUNDS = 8
_BOM = b"\xef\xbb\xbf"


Judge = Callable[[Iterable[tuple[str, bytes]]], list[Finding]]
"""`lint`, with what it knows beside the files."""


def fix(sources: Mapping[str, bytes], judge: Judge = lint) -> tuple[dict[str, bytes], list[Finding], int]:
    """The files with all safe fixes applied, what is left to say about them, and how many findings were settled."""
    fixed, settled = dict(sources), 0
    findings = judge(fixed.items())
    for _ in range(_ROUNDS):
        changed = False
        for name, before in tuple(fixed.items()):
            edits = [finding.edits for finding in findings if finding.file == name and finding.edits]
            data, applied = _apply(before, edits)
            if applied:
                fixed[name], changed, settled = data, True, settled + applied
        if not changed:
            break
        findings = judge(fixed.items())
    return fixed, findings, settled


def _apply(data: bytes, groups: Iterable[tuple[Edit, ...]]) -> tuple[bytes, int]:
    """The text after the edits of as many findings as can be made at once, and their number."""
    chosen: list[Edit] = []
    applied = 0
    for group in groups:
        if not any(_touch(edit, other) for edit in group for other in chosen):
            chosen += group
            applied += 1
    if not chosen:
        return data, 0
    text = data.decode("utf-8-sig")
    for edit in sorted(chosen, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    changed = (_BOM if data.startswith(_BOM) else b"") + text.encode()
    return (changed, applied) if _is_yaml(changed) else (data, 0)


def _touch(edit: Edit, other: Edit) -> bool:
    """Whether two edits are too close to be made at once."""
    return edit.start <= other.end and other.start <= edit.end


def _is_yaml(data: bytes) -> bool:
    try:
        read(data, "")
    except YamlError:
        return False
    return True

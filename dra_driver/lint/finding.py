"""What lint says: a finding, and the edits of its file that would settle it."""

from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the characters from `start` to `end` of a file's text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at.

    error: refused by the API server, or never does what it says; warning: likely not what was meant;
    info: worth knowing, and no reason to fail. `edits` are there only where they cannot change what a valid
    manifest means.
    """

    code: str
    severity: Severity
    file: str
    line: int  # 0, like the column, where the object is no text
    column: int
    path: str  # "spec.devices.requests[0].name"; empty where the whole object is meant
    message: str
    fix: str | None = None
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    document: int = field(default=0, repr=False)  # which object of the file, counted from 0

    def as_dict(self) -> dict[str, Any]:
        """For `-o json` and `-o yaml`; `fix`, `line` and `column` are left out where there is none."""
        place = {"line": self.line, "column": self.column} if self.line else {}
        body: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            **place,
            "path": self.path,
            "message": self.message,
        }
        if self.fix is not None:
            body["fix"] = self.fix
        return {**body, "fixable": bool(self.edits)}


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of finding: what it is called, how serious it is, and why it matters."""

    code: str
    severity: Severity
    title: str  # what the manifest does, as a heading
    why: str

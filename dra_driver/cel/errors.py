"""What can go wrong with an expression.

CelError
├── CompileError       refused before any value is seen; the author mends the expression
└── EvaluationError    fails for the values at hand; `&&` and `||` may absorb it
    └── LimitError     the budget is spent; nothing absorbs it
"""

from dataclasses import dataclass
from typing import Any

from dra_driver.cel.values import type_name
from dra_driver.errors import DriverError


class CelError(DriverError):
    """The root; `name` is the key, identifier, field or function in question, where there is one."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.name = name


@dataclass(frozen=True, slots=True, order=True)
class Issue:
    """One mistake in an expression; line and column count from 1."""

    line: int
    column: int
    message: str
    name: str | None = None


class CompileError(CelError):
    """The expression is refused; `issues` has every mistake found, in reading order, `str()` the first.

    `placed` is False where what is wrong concerns the expression as a whole.
    """

    def __init__(self, issues: list[Issue], source: str, *, placed: bool = True) -> None:
        self.issues = tuple(sorted(issues, key=lambda issue: (issue.line, issue.column)))
        first = self.issues[0]
        where = f"<input>:{first.line}:{first.column}: " if placed else ""
        super().__init__(f"{where}{first.message}", name=first.name)
        self.placed = placed
        self.line = first.line
        self.column = first.column
        self.source = source

    def server_text(self) -> str:
        """What the API server says of the expression: with carets, on several lines."""
        return f"compilation failed: {self.pretty()}" if self.placed else self.message

    def pretty(self) -> str:
        """Every issue with the line it is in and a caret under the place."""
        lines = self.source.splitlines() or [""]
        parts = []
        for issue in self.issues:
            text = lines[issue.line - 1] if issue.line <= len(lines) else ""
            text = text.replace("\t", " ")
            parts.append(
                f"ERROR: <input>:{issue.line}:{issue.column}: {issue.message}\n"
                f" | {text}\n"
                f" | {'.' * (issue.column - 1)}^"
            )
        return "\n".join(parts)


class EvaluationError(CelError):
    """Evaluating fails for these values: a missing key, no overload for the types, an overflow."""


class LimitError(EvaluationError):
    """The evaluation took more steps, or more nesting, than it may."""


def no_such_key(key: object) -> EvaluationError:
    return EvaluationError(f"no such key: {key}", name=str(key))


def no_overload(name: str, *args: Any) -> EvaluationError:
    """The error of a call whose arguments fit no overload."""
    shown = ", ".join(type_name(arg) for arg in args)
    return EvaluationError(f"no such overload: {name}({shown})", name=name)


def plain_no_overload() -> EvaluationError:
    """What an operator answers: cel-go names neither it nor the types."""
    return EvaluationError("no such overload")

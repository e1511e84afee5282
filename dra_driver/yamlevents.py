"""YAML as parser events with their places: what every strict reader of hand-written files starts from.

Bytes are refused before they are parsed where no text editor would have made them (no UTF-8, control characters,
undue size), and errors of syntax name file, line and column. What the events mean is the reader's: profiles of nodes
take less than YAML has to offer, lint takes what kubectl takes. No tree is built here, so nesting costs nothing.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from dra_driver.errors import UsageError

_UNPRINTABLE = re.compile(
    "[^\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]"
)  # by YAML 1.1
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster, and optional


class YamlError(UsageError):
    """A file is no YAML, or YAML that its reader does not take; the place is that of the problem."""

    def __init__(self, source: str, problem: str, line: int | None = None, column: int | None = None) -> None:
        place = source if line is None else f"{source}, line {line}"
        super().__init__(f"{place}: {problem}" if column is None else f"{place}, column {column}: {problem}")
        self.problem = problem
        self.line = line
        self.column = column


def text_of(data: bytes, source: str, max_bytes: int) -> str:
    """The text in `data`, without a byte order mark; `source` names it in messages."""
    if len(data) > max_bytes:
        raise YamlError(source, f"expected at most {max_bytes} bytes of YAML, found more")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # `error.object` lacks the mark, where there is one; no line is in it.
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise YamlError(source, f"expected YAML in UTF-8, found the byte {byte:#04x}", line) from error
    if unprintable := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, unprintable.start()) + 1
        raise YamlError(source, f"expected YAML, found the character {unprintable[0]!r}", line)
    return text


def events(text: str, source: str) -> Iterator[yaml.Event]:
    """The parser's events, with marks that count lines, columns and characters from 0."""
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        said = f"expected YAML: {' '.join(str(problem).split())}"
        place = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise YamlError(source, said, *place) from error

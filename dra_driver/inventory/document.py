"""A YAML document that knows where each of its values stands, read strictly.

People write profiles and fault files by hand, so what is wrong with one is said with file, line, key and
what was expected there; `yaml.safe_load` has forgotten all of that. Values are also read as they are written:
YAML 1.1 would make a number in base 60 of the PCI address 0000:07:00.0, and 8.1 of a compute capability 8.10.

What a hand-written file of this size never needs is refused: aliases (which can repeat a few bytes billions
of times, or contain themselves), tags, several documents, deep nesting, duplicate keys, files over 1 MiB.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import yaml

from dra_driver.errors import UsageError
from dra_driver.yamlevents import events, text_of

MAX_BYTES = 1 << 20
_MAX_DEPTH = 16
_MAX_KEY = 96
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(slots=True, eq=False)
class Value:
    """One value of a document: a scalar's text, a list or a mapping, with the place where it starts."""

    source: str
    line: int
    path: str = ""  # "gpus[3].numa"; empty for the whole document
    content: "str | list[Value] | dict[str, Value]" = ""
    plain: bool = field(default=False, repr=False)  # a scalar without quotes

    def fail(self, expected: str) -> NoReturn:
        """Raise the UsageError that says that this value is not what was expected."""
        raise UsageError(f"{self._place()}: expected {expected}, found {self._found()}")

    def reject(self, problem: str) -> NoReturn:
        """Raise the UsageError for a value that is well-formed, and still wrong."""
        raise UsageError(f"{self._place()}: {problem}")

    @property
    def is_null(self) -> bool:
        return self.plain and self.content in {"", "~", "null"}

    def mapping(self) -> "dict[str, Value]":
        if not isinstance(self.content, dict):
            self.fail("a mapping")
        return self.content

    def fields(self, required: Iterable[str], optional: Iterable[str] = ()) -> "dict[str, Value]":
        """The mapping, which has all `required` keys and no others than these and the `optional` ones."""
        known = [*required, *optional]
        mapping = self.mapping()
        for key, value in mapping.items():
            if key not in known:
                value.reject(f"unknown key {key!r}, expected one of {', '.join(known)}")
        for key in required:
            if key not in mapping:
                self.reject(f"the key {key!r} is missing")
        return mapping

    def items(self) -> "list[Value]":
        if not isinstance(self.content, list):
            self.fail("a list")
        return self.content

    def text(self, expected: str = "a text of 1 to 96 characters", pattern: str = r".{1,96}") -> str:
        """The scalar as written, without the quotes: printable, and all of it matches `pattern`."""
        if not isinstance(self.content, str) or self.is_null or not self.content.isprintable():
            self.fail(expected)
        if not re.fullmatch(pattern, self.content, re.ASCII):
            self.fail(expected)
        return self.content

    def choice(self, options: Iterable[str]) -> str:
        options = list(options)
        if not isinstance(self.content, str) or self.content not in options:
            self.fail(f"one of {', '.join(options)}")
        return self.content

    def integer(self, low: int, high: int, what: str = "a whole number") -> int:
        expected = f"{what} from {low} to {high}"
        if not isinstance(self.content, str) or not self.plain or not _INTEGER.fullmatch(self.content):
            self.fail(expected)
        number = int(self.content)
        if not low <= number <= high:
            self.fail(expected)
        return number

    def boolean(self) -> bool:
        if not self.plain or self.content not in {"true", "false"}:
            self.fail("true or false")
        return self.content == "true"

    def walk(self) -> "Iterator[Value]":
        """This value and all below it."""
        yield self
        if not isinstance(self.content, str):
            for child in self.content.values() if isinstance(self.content, dict) else self.content:
                yield from child.walk()

    def _place(self) -> str:
        return f"{self.source}, line {self.line}" + (f", {self.path}" if self.path else "")

    def _found(self) -> str:
        if not isinstance(self.content, str):
            return "a mapping" if isinstance(self.content, dict) else "a list"
        return "nothing" if self.is_null else repr(self.content[:40])


def read_file(path: Path) -> Value:
    """The document in `path`; UsageError where it cannot be read or is no YAML. FileNotFoundError passes."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return parse(data, str(path))


def parse(data: bytes, source: str) -> Value:
    """The one YAML document in `data`; `source` names it in messages."""
    return _build(text_of(data, source, MAX_BYTES), source)


def _build(text: str, source: str) -> Value:
    """Values from parser events: no recursion, so that no document exhausts the stack."""
    root: Value | None = None
    parents: list[Value] = []
    keys: list[str | None] = []  # beside `parents`: the key whose value comes next
    for event in events(text, source):
        if isinstance(event, yaml.CollectionEndEvent):
            parents.pop()
            keys.pop()
            continue
        if not isinstance(event, (yaml.AliasEvent, yaml.ScalarEvent, yaml.CollectionStartEvent)):
            continue
        value = Value(source, event.start_mark.line + 1 if event.start_mark else 1)
        if isinstance(event, yaml.AliasEvent):
            value.reject("aliases are not supported, write the value out")
        if event.tag is not None:
            value.reject(f"the tag {event.tag!r} is not supported")
        if isinstance(event, yaml.ScalarEvent):
            value.content, value.plain = event.value, not event.style
        else:
            value.content = {} if isinstance(event, yaml.MappingStartEvent) else []
        if not parents:
            if root is not None:
                value.reject("expected one document, found a second one")
            root = value
        elif not _attach(parents[-1], keys, value):
            continue
        if not isinstance(event, yaml.ScalarEvent):
            if len(parents) >= _MAX_DEPTH:
                value.reject(f"expected at most {_MAX_DEPTH} levels of nesting")
            parents.append(value)
            keys.append(None)
    if root is None or root.is_null:
        raise UsageError(f"{source}: expected a YAML mapping, found an empty file")
    return root


def _attach(parent: Value, keys: list[str | None], value: Value) -> bool:
    """Put `value` into its parent; False where it is a key, which waits for its value."""
    if isinstance(parent.content, list):
        value.path = f"{parent.path}[{len(parent.content)}]"
        parent.content.append(value)
        return True
    key = keys[-1]
    if key is None:
        value.path = parent.path
        if (
            not isinstance(value.content, str)
            or len(value.content) > _MAX_KEY
            or not value.content.isprintable()
        ):
            value.fail(f"a text of at most {_MAX_KEY} characters as key")
        keys[-1] = value.content
        return False
    keys[-1] = None
    value.path = f"{parent.path}.{key}" if parent.path else key
    assert isinstance(parent.content, dict)
    if key in parent.content:
        value.reject("the key is there twice")
    parent.content[key] = value
    return True

"""Checks of parsed JSON, put together to the form that a document must have.

A check takes any value and its JSON path, and yields what is wrong with it, so that one pass finds every mistake. As for
Go's decoder, null in an object means that the field is absent.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One reason why a spec is refused; `path` is a JSON path such as `devices[0].name`, "" for the whole."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


Problems = Iterator[SpecProblem]
Check = Callable[[Any, str], Problems]


def string(value: Any, path: str) -> Problems:
    if not isinstance(value, str):
        yield SpecProblem(path, f"expected a string, not {_kind(value)}")


def text(value: Any, path: str) -> Problems:
    if not isinstance(value, str) or not value:
        yield SpecProblem(path, "must be a non-empty string")


def boolean(value: Any, path: str) -> Problems:
    if not isinstance(value, bool):
        yield SpecProblem(path, f"expected true or false, not {_kind(value)}")


def integer(low: int, high: int) -> Check:
    def check(value: Any, path: str) -> Problems:
        if isinstance(value, bool) or not isinstance(value, int):
            yield SpecProblem(path, f"expected an integer, not {_kind(value)}")
        elif not low <= value <= high:
            yield SpecProblem(path, f"{value} is not between {low} and {high}")

    return check


def list_of(item: Check, *distinct: str) -> Check:
    """A list of such items, which are objects without common values of the fields in `distinct`."""

    def check(value: Any, path: str) -> Problems:
        if not isinstance(value, list):
            yield SpecProblem(path, f"expected a list, not {_kind(value)}")
            return
        for i, element in enumerate(value):
            yield from item(element, f"{path}[{i}]")
        for field in distinct:
            yield from _distinct(value, field, path)

    return check


def object_of(fields: Mapping[str, Check], *required: str) -> Check:
    """An object of these fields alone, of which some are required."""

    def check(value: Any, path: str) -> Problems:
        if not isinstance(value, Mapping):
            yield SpecProblem(path, f"expected an object, not {_kind(value)}")
            return
        for name, element in value.items():
            if name not in fields:
                yield SpecProblem(_join(path, str(name)), "unknown field")
            elif element is not None:
                yield from fields[name](element, _join(path, name))
        for name in required:
            if value.get(name) is None:
                yield SpecProblem(_join(path, name), "is required")

    return check


def matching(predicate: Callable[[str], bool], what: str) -> Check:
    """A string; `what` says what it is not otherwise."""

    def check(value: Any, path: str) -> Problems:
        if not isinstance(value, str) or not predicate(value):
            yield SpecProblem(path, f"{value!r} is no {what}")

    return check


def _distinct(items: list[Any], field: str, path: str) -> Problems:
    seen: dict[str, int] = {}
    for i, item in enumerate(items):
        value = item.get(field) if isinstance(item, Mapping) else None
        if isinstance(value, str) and seen.setdefault(value, i) != i:
            yield SpecProblem(f"{path}[{i}].{field}", f"{value!r} stands at [{seen[value]}] already")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"

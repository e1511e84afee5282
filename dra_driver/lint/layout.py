"""Edits of YAML text that change its nesting and nothing else: comments, quotes and blank lines stay as they are.

Every edit is made of insertions at places of parsed nodes. What cannot be moved so (keys that do not stand together, a
comment where the text would have to be joined) is left to the author: then there are no edits.
"""

from collections.abc import Iterable, Iterator

from dra_driver.lint.finding import Edit
from dra_driver.lint.nodes import File, Node

_STEP = 2  # columns

Edits = tuple[Edit, ...] | None
"""None where the change cannot be made by insertions."""


def gather(file: File, mapping: Node, names: Iterable[str], under: str) -> Edits:
    """Put entries of `mapping` that stand together under one new key."""
    run = _run(mapping, set(names))
    if run is None:
        return None
    first, last = mapping.keys[run[0]], mapping.entries[run[-1]]
    if not mapping.is_block:
        return (Edit(first.start, first.start, f"{under}: {{"), Edit(last.end, last.end, "}"))
    indent = " " * (first.column - 1 + _STEP)
    head = Edit(first.start, first.start, f"{under}:{file.newline}{indent}")
    return (head, *_indented(file, first.start, last))


def nest(file: File, mapping: Node, name: str, inside: str) -> Edits:
    """Indent the entry `name` of a block mapping, so that it belongs to the entry `inside` just before it, which is empty."""
    names = list(mapping.entries)
    if not mapping.is_block or mapping.merged or names.index(name) != names.index(inside) + 1:
        return None
    first, last = mapping.keys[name], mapping.entries[name]
    if mapping.entries[inside].value is not None:
        return None
    line = file.text.rfind("\n", 0, first.start) + 1
    return (Edit(line, line, " " * _STEP), *_indented(file, first.start, last))


def push_down(file: File, mapping: Node, name: str, under: str) -> Edits:
    """Turn `name: value` into `name: {under: value}`, on a line of its own."""
    key, value = mapping.keys[name], mapping.entries[name]
    between = file.text[key.end : value.start]
    if not mapping.is_block or between.strip(": ") or value.style == "-" or "\n" in between:
        return None
    colon = between.index(":")
    indent = " " * (key.column - 1 + _STEP)
    head = Edit(key.end + colon + 1, value.start, f"{file.newline}{indent}{under}: ")
    return (head, *_indented(file, value.start, value))


def lift(file: File, mapping: Node, name: str) -> Edits:
    """Replace the entry `name`, a mapping with one entry, by that entry."""
    outer, inner = mapping.keys[name], mapping.entries[name]
    if len(inner.entries) != 1 or inner.merged:
        return None
    ((inner_name, value),) = inner.entries.items()
    key = inner.keys[inner_name]
    removed = file.text[outer.start : key.start]
    if "#" in removed or value.last is not value:
        return None
    if inner.is_block:
        return (Edit(outer.start, key.start, ""),)
    if "#" in file.text[value.end : inner.end]:
        return None
    return (Edit(outer.start, key.start, ""), Edit(value.end, inner.end, ""))


def _run(mapping: Node, names: set[str]) -> list[str] | None:
    """The entries of these names, where nothing stands between them."""
    if mapping.merged:
        return None
    order = sorted(mapping.keys, key=lambda name: mapping.keys[name].start)
    places = [place for place, name in enumerate(order) if name in names]
    if not places or places[-1] - places[0] + 1 != len(places):
        return None
    return order[places[0] : places[-1] + 1]


def _indented(file: File, start: int, value: Node) -> Iterator[Edit]:
    """Indentation for every line after that of `start`, up to the last of `value`; empty lines stay empty."""
    end = value.last.end
    at = file.text.find("\n", start) + 1
    while 0 < at < end:
        if file.text[at : at + 1] not in {"\n", "\r", ""}:
            yield Edit(at, at, " " * _STEP)
        at = file.text.find("\n", at) + 1

"""Manifests as plain data in which every value knows its place in the file.

What kubectl takes is taken: several documents, anchors and aliases, merge keys, YAML 1.1's words for booleans; keys
that are no text are read as text. What could hurt whoever reads it is refused with its place: aliases that grow
without bound or contain themselves, deep nesting, undue size. Keys given twice are kept aside for a finding.

Offsets count characters of `File.text`, lines and columns count from 1.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.resolver import Resolver

from dra_driver.yamlevents import YamlError, events, text_of

MAX_BYTES = 2 << 20
MAX_NODES = 100_000  # of a document, aliases counted as often as they are used
MAX_DEPTH = 64
_FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_INTEGER = re.compile(r"[-+]?(0x[0-9a-fA-F]+|0o?[0-7]+|0b[01]+|[1-9]\d*|0)", re.ASCII)
_MAX_DIGITS = 40  # far beyond 64 bits; longer ones are only ever too large
_RESOLVER: Any = Resolver()  # untyped
_TAG = "tag:yaml.org,2002:"


@dataclass(slots=True, eq=False)
class Node:
    """A scalar, list or mapping of a file, as data and as text."""

    start: int
    end: int  # of scalars and flow collections; a block ends where what follows starts
    line: int
    column: int
    style: str  # of a scalar its quote, "|", ">" or "" (plain); of a collection "{" (flow) or "-" (block)
    value: Any = None
    size: int = 1
    keys: "dict[str, Node]" = field(default_factory=dict)
    entries: "dict[str, Node]" = field(default_factory=dict)
    items: "list[Node]" = field(default_factory=list)
    merged: "list[Node]" = field(default_factory=list)

    @property
    def is_block(self) -> bool:
        return self.style == "-"

    @property
    def last(self) -> "Node":
        """The scalar or flow collection that ends this value in the text."""
        node = self
        while node.is_block and (node.entries or node.items):
            node = max((*node.entries.values(), *node.items), key=lambda child: child.start)
        return node


@dataclass(slots=True, eq=False)
class File:
    """A file with its documents; `duplicates` are keys that their mapping already had."""

    name: str
    text: str
    documents: list[Node]
    duplicates: list[tuple[str, Node]]

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"


def read(data: bytes, name: str) -> File:
    """The documents in `data`; YamlError says what is wrong where."""
    text = text_of(data, name, MAX_BYTES)
    builder = _Builder(name, text)
    for event in events(text, name):
        builder.take(event)
    return File(name, text, builder.documents, builder.duplicates)


def of_value(value: Any, name: str) -> File:
    """Data that was no text, as a file: everything stands at its beginning. YamlError where it is too large for one.

    What is nested deeper than a file may be is left out: nothing that is known here is.
    """
    return File(name, "", [_placeless(value, MAX_DEPTH, [MAX_NODES], name)], [])


def _placeless(value: Any, depth: int, left: list[int], name: str) -> Node:
    """`left` is how many values there may still be."""
    node = Node(0, 0, 1, 1, "-" if isinstance(value, dict | list) else "", value)
    if not isinstance(value, dict | list):
        return node
    left[0] -= len(value)
    if left[0] < 0:
        raise YamlError(name, f"expected at most {MAX_NODES} values in an object")
    if depth == 0:
        node.value = None
    elif isinstance(value, dict):
        node.keys = {key: Node(0, 0, 1, 1, "", key) for key in value}
        node.entries = {key: _placeless(inner, depth - 1, left, name) for key, inner in value.items()}
        node.value = {key: inner.value for key, inner in node.entries.items()}
    else:
        node.items = [_placeless(inner, depth - 1, left, name) for inner in value]
        node.value = [inner.value for inner in node.items]
    return node


class _Builder:
    """Nodes from events, without recursion."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self.documents: list[Node] = []
        self.duplicates: list[tuple[str, Node]] = []
        self._anchors: dict[str, Node] = {}
        self._open: list[Node] = []
        self._waiting: list[Node | None] = []  # beside `_open`: the key whose value comes next

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._anchors = {}
            case yaml.AliasEvent():
                self._attach(self._aliased(event))
            case yaml.ScalarEvent():
                self._attach(self._scalar(event))
            case yaml.CollectionStartEvent():
                node = self._node(event, "{" if event.flow_style else "-")
                if event.tag not in {None, f"{_TAG}map", f"{_TAG}seq"}:
                    self._fail(f"the tag {event.tag!r} is not supported", node)
                if len(self._open) >= MAX_DEPTH:
                    self._fail(f"expected at most {MAX_DEPTH} levels of nesting", node)
                node.value = {} if isinstance(event, yaml.MappingStartEvent) else []
                self._open.append(node)
                self._waiting.append(None)
            case yaml.CollectionEndEvent():
                self._waiting.pop()
                node = self._open.pop()
                node.end = event.end_mark.index if event.end_mark else node.start
                _merge(node)
                self._attach(node)
            case _:
                pass

    def _attach(self, node: Node) -> None:
        if not self._open:
            self.documents.append(node)
            return
        parent = self._open[-1]
        parent.size += node.size
        if parent.size > MAX_NODES:
            self._fail(f"expected at most {MAX_NODES} values in a document, aliases written out", node)
        if isinstance(parent.value, list):
            parent.value.append(node.value)
            parent.items.append(node)
            return
        key = self._waiting[-1]
        if key is None:
            if node.entries or node.items or isinstance(node.value, (dict, list)):
                self._fail("expected a text as key", node)
            self._waiting[-1] = node
            return
        self._waiting[-1] = None
        self._put(parent, key, node)

    def _put(self, parent: Node, key: Node, node: Node) -> None:
        if key.value == "<<" and not key.style:
            parent.merged.append(node)
            return
        name = key.value if isinstance(key.value, str) else self._text[key.start : key.end]
        if name in parent.entries:
            self.duplicates.append((name, key))
        parent.keys[name], parent.entries[name], parent.value[name] = key, node, node.value

    def _node(self, event: Any, style: str) -> Node:
        mark, end = event.start_mark, event.end_mark
        node = Node(mark.index, end.index, mark.line + 1, mark.column + 1, style)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        node = self._node(event, event.style or "")
        if event.anchor is not None or event.tag is not None:
            # The mark is that of the anchor or tag; what counts is where the value itself starts.
            skipped = re.match(r"([&!]\S*\s+)+", self._text[node.start : node.end])
            if skipped:
                before = self._text[node.start : node.start + skipped.end()]
                node.start += skipped.end()
                node.line += before.count("\n")
                node.column += 0 if "\n" in before else len(before)
        node.value = self._value(event, node)
        return node

    def _value(self, event: yaml.ScalarEvent, node: Node) -> Any:
        match event.tag:
            case None if event.style:
                return event.value
            case None:
                return _resolved(event.value)
            case "!" | "tag:yaml.org,2002:str":
                return event.value
            case str(tag) if tag.removeprefix(_TAG) in {"int", "float", "bool", "null"}:
                return _resolved(event.value)
            case tag:
                return self._fail(f"the tag {tag!r} is not supported", node)

    def _aliased(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None or any(node is unfinished for unfinished in self._open):
            mark = event.start_mark
            problem = "is not known" if node is None else "contains itself"
            raise YamlError(
                self._name, f"the alias *{event.anchor} {problem}", mark.line + 1, mark.column + 1
            )
        return node

    def _fail(self, problem: str, node: Node) -> Any:
        raise YamlError(self._name, problem, node.line, node.column)


def _merge(node: Node) -> None:
    """`<<: *base`: what the mapping itself does not say."""
    for source in node.merged:
        for mapping in source.items or [source]:
            for name, value in mapping.entries.items():
                if name not in node.entries:
                    node.keys[name], node.entries[name] = mapping.keys[name], value
                    node.value[name] = value.value


def _resolved(text: str) -> Any:
    """A plain scalar's value, as kubectl reads it."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False)).removeprefix(_TAG)
    if tag == "null":
        return None
    if tag == "bool":
        return text in _TRUE
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits) and len(digits) <= _MAX_DIGITS:
        return int(re.sub(r"^([-+]?)0o?(?=[0-7])", r"\g<1>0o", digits), 0)
    if _FLOAT.fullmatch(digits):
        return float(digits)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text

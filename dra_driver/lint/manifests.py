"""Objects of files, with what lint asks of any of them: kind, name, and where a field stands.

A field is named as the API server names it. Shapes differ between versions (`exactly` in v1, `basic` in v1beta1), and
findings are made once for all, so a part of a path that the file does not have is passed over.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.lint.nodes import File, Node

GROUP = "resource.k8s.io"
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_SHAPES = (
    "exactly",
    "basic",
)  # fields that exist in some versions only, and hold what others have one level up


@dataclass(slots=True, eq=False)
class Manifest:
    """An object: a document of a file, or an item of a List in it."""

    file: File
    node: Node
    position: int  # among the objects of the file

    @property
    def object(self) -> Mapping[str, Any]:
        return as_map(self.node.value)

    @property
    def kind(self) -> str:
        return as_text(self.object.get("kind"))

    @property
    def api_version(self) -> str:
        return as_text(self.object.get("apiVersion"))

    @property
    def is_resource(self) -> bool:
        """Whether it is an object of resource.k8s.io."""
        return self.api_version.startswith(f"{GROUP}/")

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def name(self) -> str:
        metadata = as_map(self.object.get("metadata"))
        return as_text(metadata.get("name")) or as_text(metadata.get("generateName"))

    @property
    def namespace(self) -> str:
        return as_text(as_map(self.object.get("metadata")).get("namespace")) or "default"

    def find(self, path: str) -> Node:
        """The value at `path`, or the innermost one around it that the file has."""
        return self._walk(path)[-1][1]

    def key(self, path: str) -> Node:
        """As `find`, but the key of a mapping's entry rather than its value: where the eye looks for it."""
        trail = self._walk(path)
        name, node = trail[-1]
        parent = trail[-2][1] if len(trail) > 1 else None
        return node if parent is None or name not in parent.keys else parent.keys[name]

    def has(self, path: str) -> bool:
        """Whether the file has a value at exactly this path."""
        return self.node_at(path) is not None

    def node_at(self, path: str) -> Node | None:
        """The value at exactly this path, where the file has one."""
        node: Node | None = self.node
        rest = path
        while rest and node is not None:
            step, rest = _next(node, rest)
            node = None if step is None else _child(node, step)
        return node

    def _walk(self, path: str) -> list[tuple[str, Node]]:
        trail, node, rest = [("", self.node)], self.node, path
        while rest:
            step, rest = _next(node, rest)
            inner = None if step is None else _child(node, step)
            if inner is None:
                shape = next((name for name in _SHAPES if name in node.entries), None)
                if step in _SHAPES:
                    continue
                if shape is None or step is None or _child(node.entries[shape], step) is None:
                    break
                trail.append((shape, node.entries[shape]))
                inner = node.entries[shape].entries[step]
            trail.append((step or "", inner))
            node = inner
        return trail


def _next(node: Node, path: str) -> tuple[str | None, str]:
    """The first step of a path, and the rest; keys of maps may hold dots: attributes[example.com/x]."""
    if path.startswith("["):
        end = path.find("]")
        return (path[1:end], path[end + 1 :]) if end > 0 else (None, "")
    rest = path.removeprefix(".")
    for name in sorted(node.entries, key=len, reverse=True):
        if rest == name or rest.startswith((f"{name}.", f"{name}[")):
            return name, rest[len(name) :]
    match = _STEP.match(rest)
    return (match[1], rest[match.end() :]) if match else (None, "")


def _child(node: Node, step: str) -> Node | None:
    if node.items:
        return node.items[int(step)] if step.isdigit() and int(step) < len(node.items) else None
    if step in node.entries:
        return node.entries[step]
    if "..." in step:  # the API server's way to shorten a long key
        start, _, end = step.partition("...")
        names = [name for name in node.entries if name.startswith(start) and name.endswith(end)]
        return node.entries[names[0]] if len(names) == 1 else None
    return None


def manifests(files: Iterable[File]) -> Iterator[Manifest]:
    """Every object of the files, the items of Lists one by one. What is no object is left out."""
    for file in files:
        objects = (found for node in file.documents for found in _objects(node))
        for position, node in enumerate(objects):
            yield Manifest(file, node, position)


def _objects(node: Node) -> Iterator[Node]:
    items = node.entries.get("items")
    kind = as_text(as_map(node.value).get("kind"))
    if kind.endswith("List") and items is not None and items.items:
        version = as_text(as_map(node.value).get("apiVersion"))
        implied = {} if kind == "List" else {"apiVersion": version, "kind": kind.removesuffix("List")}
        for item in items.items:
            if item.entries:
                item.value = {**implied, **as_map(item.value)}  # as kubectl reads a ResourceClaimList
                yield item
    elif node.entries:
        yield node


def as_map(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one: shapes are judged by the API's rules, not here."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""

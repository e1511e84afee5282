"""What an expression reads of a device, so that devices which are equal in it are evaluated once.

A cluster of 5,000 nodes has some ten kinds of GPUs and 40,000 devices that differ in their UUIDs; a selector that
does not read the UUID has ten answers. The analysis is of the syntax and errs to one side: an expression that uses
a whole map (`device.attributes["d"].exists(...)`, a key that is computed) counts as reading everything.
"""

import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dra_driver.cel import ast
from dra_driver.cel.validators import children
from dra_driver.selectors.selector import selector

Family = Literal["attributes", "capacity"]
FAMILIES: Mapping[str, Family] = {"attributes": "attributes", "capacity": "capacity"}


class Read(NamedTuple):
    """An attribute or capacity that an expression may ask a device for; its absence is read, too."""

    family: Family
    domain: str
    name: str

    def __str__(self) -> str:
        return f'device.{self.family}["{self.domain}"].{self.name}'

    def find(self, driver: str, device: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The attribute's or capacity's entry of a device of a ResourceSlice; None where it has none."""
        entries = device.get(self.family) or {}
        found: Mapping[str, Any] | None = entries.get(f"{self.domain}/{self.name}")
        if found is None and self.domain == driver:
            return entries.get(self.name)
        return found

    def shown(self, driver: str, device: Mapping[str, Any]) -> str | None:
        """The value as a person would write it; None where the device has none."""
        entry = self.find(driver, device)
        if entry is None:
            return None
        value = entry.get("value") if self.family == "capacity" else next(iter(entry.values()), None)
        return str(value).lower() if isinstance(value, bool) else str(value)


@functools.lru_cache(maxsize=1024)
def reads(expression: str, *, lists: bool = False) -> frozenset[Read] | None:
    """All that the expression reads; None where that cannot be said. CompileError as `selector` raises it."""
    analysis = _Analysis()
    analysis.use(selector(expression, lists=lists).program.tree, {})
    return None if analysis.everything else frozenset(analysis.found)


def content(wanted: frozenset[Read], driver: str, device: Mapping[str, Any]) -> Hashable:
    """A key that is equal for devices which the reader of `wanted` cannot tell apart."""
    parts: list[Hashable] = [
        driver,
        bool(device.get("allowMultipleAllocations")),
    ]  # few values: always a part
    for read in wanted:  # the same object for all devices, so in the same order
        entry = read.find(driver, device)
        if entry is None:
            parts.append(None)
        elif read.family == "capacity":
            parts.append(str(entry["value"]))
        else:
            parts.extend(entry.items())
    return tuple(parts)


def projected(wanted: frozenset[Read], driver: str, device: Mapping[str, Any]) -> dict[str, Any]:
    """The device with nothing but `wanted`: to its reader it is the same, and it is made in a tenth of the time."""
    part: dict[str, Any] = {"allowMultipleAllocations": device.get("allowMultipleAllocations")}
    for read in wanted:
        entry = read.find(driver, device)
        if entry is not None:
            part.setdefault(read.family, {})[f"{read.domain}/{read.name}"] = entry
    return part


def is_read(node: ast.Node) -> Read | None:
    """The value of a device that this node is, where it is one."""
    analysis = _Analysis()
    found = analysis.visit(node, {})
    return found if isinstance(found, Read) else None


@dataclass(frozen=True, slots=True)
class _Part:
    """`device` itself, its map of domains, or one domain of it: not a value yet."""

    family: Family | None = None
    domain: str | None = None


_Scope = Mapping[str, _Part | None]


class _Analysis:
    """One walk over a tree; parts of the device that are used as a whole make it read everything."""

    def __init__(self) -> None:
        self.found: set[Read] = set()
        self.everything = False

    def use(self, node: ast.Node | None, scope: _Scope) -> None:
        """The node's value is used as it is."""
        if node is not None and isinstance(self.visit(node, scope), _Part):
            self.everything = True

    def visit(self, node: ast.Node, scope: _Scope) -> _Part | Read | None:
        match node:
            case ast.Ident(name=name):
                return scope.get(name, _Part() if name == "device" else None)
            case ast.Select():
                part = self._step(self.visit(node.operand, scope), node.field)
                return None if node.test else part
            case ast.Call(function="_[_]" | "_[?_]", args=[container, ast.Literal(value=str() as key)]):
                return self._step(self.visit(container, scope), key)
            case ast.Call(function="@in", args=[ast.Literal(value=str() as key), container]):
                inside = self.visit(container, scope)
                if isinstance(inside, _Part) and inside.domain is None:
                    self.everything = True  # whether a domain is there
                self._step(inside, key)
                return None
            case ast.Bind():
                value = self.visit(node.value, scope)
                return self.visit(
                    node.body, {**scope, node.variable: value if isinstance(value, _Part) else None}
                )
            case ast.Comprehension():
                self.use(node.over, scope)
                inner = {**scope, **dict.fromkeys(node.variables)}
                self.use(node.condition, inner)
                self.use(node.result, inner)
                return None
            case _:
                for child in children(node):
                    self.use(child, scope)
                return None

    def _step(self, container: _Part | Read | None, key: str) -> _Part | Read | None:
        match container:
            case _Part(family=None):
                return _Part(FAMILIES[key]) if key in FAMILIES else None
            case _Part(family=str() as family, domain=None):
                return _Part(family, key)
            case _Part(family=str() as family, domain=str() as domain):
                read = Read(family, domain, key)
                self.found.add(read)
                return read
            case _:
                return None

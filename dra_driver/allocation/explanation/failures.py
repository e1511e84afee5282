"""Selectors that fail on a device: what was asked for, what the device has instead, and the form that does not fail."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dra_driver.cel import CompileError, EvaluationError, ast
from dra_driver.cel.parser import parse
from dra_driver.devices.catalogue import ATTRIBUTES, CAPACITIES, Attribute, Capacity
from dra_driver.quantity import Quantity
from dra_driver.selectors.comparisons import Comparison, conditions, with_constant
from dra_driver.selectors.reads import Family, Read, reads
from dra_driver.versions import driver_semver, is_semver

_OTHER: Mapping[str, Family] = {"attributes": "capacity", "capacity": "attributes"}
_ONE = {"attributes": "an attribute", "capacity": "a capacity"}
_MAX_GUARDS = 8
_BYTES = re.compile(r"([0-9.]+)\s*([KMGTPE])(i?)[bB]")

Evaluate = Callable[[str], bool | EvaluationError]


def failure(
    expression: str, error: EvaluationError, driver: str, device: Mapping[str, Any], evaluate: Evaluate
) -> tuple[str, str | None]:
    """What is wrong with the expression for the device, and what to write instead, where that is known.

    `evaluate` says what another expression gives for the same device.
    """
    if (malformed := _malformed(expression)) is not None:
        return malformed
    absent = next((read for read in _absent(expression, driver, device) if read.name == error.name), None)
    if absent is None:
        example = next(
            (entry.guard for read in sorted(reads(expression, lists=True) or ()) if (entry := _known(read))),
            None,
        )
        return str(error), f"write, for example, {example}" if example else None
    text, instead = _instead(absent, driver, device)
    if instead is not None:
        return f"{error}: {text}", instead
    guarded = guard(expression, driver, device, evaluate)
    return f"{error}: {text}", f"write {guarded}" if guarded else None


def _malformed(expression: str) -> tuple[str, str | None] | None:
    """A constant that is no version or quantity: the API server takes it, and the scheduler fails over it."""
    for condition in conditions(expression):
        comparison = condition.comparison
        if comparison is None or comparison.kind == "plain" or _is_sound(comparison):
            continue
        wanted = str(comparison.wanted)
        text = f'"{wanted}" is no {"quantity" if comparison.kind == "quantity" else "semantic version"}'
        better = _unit(wanted) if comparison.kind == "quantity" else driver_semver(wanted)
        return text, f"write {with_constant(expression, comparison, better)}" if better else None
    return None


def _is_sound(comparison: Comparison) -> bool:
    if comparison.kind == "semver":
        return is_semver(str(comparison.wanted))
    try:
        Quantity.parse(str(comparison.wanted))
    except ValueError:
        return False
    return True


def _unit(wanted: str) -> str | None:
    """'80GB' -> '80G', '80 GiB' -> '80Gi'"""
    match = _BYTES.fullmatch(wanted)
    return None if match is None else f"{match[1]}{match[2]}{match[3] or ''}"


def guard(expression: str, driver: str, device: Mapping[str, Any], evaluate: Evaluate) -> str | None:
    """The expression behind has() for what the device lacks; None where that does not make it answer."""
    missing = _absent(expression, driver, device)[:_MAX_GUARDS]
    guarded = _parenthesised(expression)
    for read in reversed(missing):
        guarded = f"has({read}) && {guarded}"
        try:
            answer = evaluate(guarded)
        except CompileError:
            return None
        if not isinstance(answer, EvaluationError):
            return guarded
    return None


def _absent(expression: str, driver: str, device: Mapping[str, Any]) -> list[Read]:
    return [read for read in sorted(reads(expression, lists=True) or ()) if read.find(driver, device) is None]


def _parenthesised(expression: str) -> str:
    tree = parse(expression)
    loose = isinstance(tree, ast.Call) and tree.function in {"_||_", "_?_:_"}
    return f"({expression.strip()})" if loose else expression.strip()


def _known(read: Read) -> Attribute | Capacity | None:
    entries: Iterable[Attribute | Capacity] = ATTRIBUTES if read.family == "attributes" else CAPACITIES
    return next((e for e in entries if (e.domain, e.identifier) == (read.domain, read.name)), None)


def _instead(read: Read, driver: str, device: Mapping[str, Any]) -> tuple[str, str | None]:
    """What the device has in the place of what it lacks, and what to write where something else was meant."""
    other = Read(_OTHER[read.family], read.domain, read.name)
    domains = _domains(driver, device)
    if read.domain not in domains:
        meant = difflib.get_close_matches(read.domain, domains, n=1, cutoff=0.5) or [driver]
        here = [Read(family, meant[0], read.name) for family in (read.family, other.family)]
        found = next((one for one in here if one.find(driver, device) is not None), None)
        text = f'nothing has the domain "{read.domain}"; did you mean "{meant[0]}"?'
        if found is not None and found.family != read.family:
            text += f" {read.name} is {_ONE[found.family]} there"
        return text, f"write, for example, {_example(found)}" if found else None
    if other.find(driver, device) is not None:
        return f"{read.name} is {_ONE[other.family]}", f"write, for example, {_example(other)}"
    near = difflib.get_close_matches(read.name, _names(read, driver, device), n=1)
    if near:
        return f"did you mean {near[0]}?", f"write {Read(read.family, read.domain, near[0])}"
    return f"this device has no {read.name}", None


def _example(read: Read) -> str:
    entry = _known(read)
    if entry is not None:
        return entry.guard
    compared = '.compareTo(quantity("1")) >= 0' if read.family == "capacity" else ""
    return f"has({read}) && {read}{compared}"


def _domains(driver: str, device: Mapping[str, Any]) -> list[str]:
    names = [name for family in _OTHER for name in device.get(family) or {}]
    return list(dict.fromkeys(name.rpartition("/")[0] or driver for name in names))


def _names(read: Read, driver: str, device: Mapping[str, Any]) -> list[str]:
    split = [name.rpartition("/") for name in device.get(read.family) or {}]
    return [name for domain, _, name in split if (domain or driver) == read.domain]

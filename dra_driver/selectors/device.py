"""The `device` of an expression: a device of a ResourceSlice as CEL sees it.

Built once per device and shared by all expressions and threads, so nothing in it may be changed. Attributes that are
lists are behind the gate DRAListTypeAttributes, which is off up to 1.37: such a device then fails every expression.
With `lists`, what an attribute is counts as known at run time only.
"""

import functools
from collections.abc import Mapping
from typing import Any

from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.library.quantity import QUANTITY, Quantity
from dra_driver.cel.library.semver import Semver
from dra_driver.cel.types import ANY, BOOL, DYN, STRING, Kind, Type, map_of
from dra_driver.cel.values import DefaultMap

DEVICE = Type(Kind.OBJECT, "kubernetes.DRADevice")
FIELDS = {
    "driver": STRING,
    "attributes": map_of(STRING, map_of(STRING, ANY)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    "allowMultipleAllocations": BOOL,
}
FIELDS_WITH_LISTS = {**FIELDS, "attributes": map_of(STRING, map_of(STRING, DYN))}

_TYPES = {"string": str, "bool": bool, "int": int, "version": str}


class Device(dict[str, Any]):
    """A `kubernetes.DRADevice`: an object to the checker, a map of its fields at run time."""

    __slots__ = ()


def device_value(driver: str, device: Mapping[str, Any], *, lists: bool = False) -> Device:
    """The value for a device as a ResourceSlice has it; EvaluationError where an attribute has no known type."""
    attributes = {
        name: _attribute(name, value, lists=lists) for name, value in (device.get("attributes") or {}).items()
    }
    capacity = {
        name: Quantity.parse(str(value["value"])) for name, value in (device.get("capacity") or {}).items()
    }
    return Device(
        {
            "driver": driver,
            "attributes": _by_domain(driver, attributes),
            "capacity": _by_domain(driver, capacity),
            "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
        }
    )


def is_readable(device: Mapping[str, Any]) -> bool:
    """Whether every attribute of a device of a ResourceSlice has one value of a known type; else any expression may
    fail on it.
    """
    for value in (device.get("attributes") or {}).values():
        if len(value) != 1:
            return False
        for kind, held in value.items():  # loops as plain as this, since a cluster has a million attributes
            if type(held) is not _TYPES.get(kind) or (kind == "version" and not _is_version(held)):
                return False
    return True


@functools.lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    try:
        Semver.parse(text)
    except EvaluationError:
        return False
    return True


def _attribute(name: str, value: Mapping[str, Any], *, lists: bool) -> Any:
    match value:
        case {"string": str() as text}:
            return text
        case {"version": str() as text}:
            return _version(name, text)
        case {"bool": bool() as flag}:
            return flag
        case {"int": int() as number}:
            return number
        case {"strings": [*held]} | {"bools": [*held]} | {"ints": [*held]} if lists:
            return held
        case {"versions": [*texts]} if lists:
            return [_version(name, text) for text in texts]
        case _:
            raise EvaluationError(f"attribute {name}: unsupported attribute value", name=name)


def _version(name: str, text: str) -> Semver:
    try:
        return Semver.parse(text)
    except EvaluationError as error:
        raise EvaluationError(f"attribute {name}: parse semantic version: {error}", name=name) from error


def _by_domain(driver: str, values: Mapping[str, Any]) -> DefaultMap:
    """Names without a domain are in the driver's; a name given both ways keeps the qualified value."""
    domains = DefaultMap()
    for qualified, value in sorted(values.items(), key=lambda item: "/" in item[0]):
        domain, slash, name = qualified.partition("/")
        if not slash:
            domain, name = driver, qualified
        domains.setdefault(domain, {})[name] = value
    return domains

"""Opaque configuration of claims, classes and allocations, and other raw JSON."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dra_driver.resource.limits import MAX_OPAQUE_BYTES
from dra_driver.resource.names import driver_name, size
from dra_driver.resource.problems import Problem, child, invalid, required, too_long


def configuration(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """A configuration: for now opaque ones only."""
    where = child(path, "opaque")
    opaque = entry.get("opaque")
    if opaque is None:
        yield required(where)
        return
    yield from driver_name(child(where, "driver"), opaque.get("driver") or "")
    yield from raw_object(opaque.get("parameters"), child(where, "parameters"))


def raw_object(value: Any, path: str) -> Iterator[Problem]:
    """A JSON object of at most 10 KiB. The size is that of compact JSON, as kubectl sends YAML."""
    if value is None:
        yield required(path)
        return
    if size(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) > MAX_OPAQUE_BYTES:
        yield too_long(path, MAX_OPAQUE_BYTES)
    elif not isinstance(value, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")

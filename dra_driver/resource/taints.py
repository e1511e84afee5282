"""Device taints, and the tolerations of requests."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_driver.resource.names import check, label_key, label_value
from dra_driver.resource.problems import Problem, child, index, invalid, not_supported, required

EFFECTS: Final = ("NoExecute", "NoSchedule", "None")


def taint(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from check(child(path, "key"), entry.get("key") or "", label_key)
    if value := entry.get("value"):
        yield from check(child(path, "value"), value, label_value)
    if not (effect := entry.get("effect") or ""):
        yield required(child(path, "effect"))
    elif effect not in EFFECTS:
        yield not_supported(child(path, "effect"), effect, EFFECTS)


def tolerations(entries: list[Any], path: str) -> Iterator[Problem]:
    # The API's text promises at most 16; no server checks it.
    for position, entry in enumerate(entry or {} for entry in entries):
        yield from _toleration(entry, index(path, position))


def _toleration(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if name := entry.get("key"):
        yield from check(child(path, "key"), name, label_key)
    value = entry.get("value") or ""
    match entry.get("operator") or "Equal":
        case "Exists":
            if value:
                yield invalid(child(path, "value"), value, "must be empty for operator `Exists`")
        case "Equal":
            yield from check(child(path, "value"), value, label_value)
        case operator:
            yield not_supported(child(path, "operator"), operator, ("Equal", "Exists"))
    effect = entry.get("effect") or ""
    if effect and effect not in EFFECTS:
        yield not_supported(child(path, "effect"), effect, EFFECTS)

"""Other constants for a comparison that fails, from the values that devices have: those nearest to the wish first."""

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from dra_driver.allocation.model import Device
from dra_driver.cel import EvaluationError
from dra_driver.cel.library.semver import Semver
from dra_driver.quantity import Quantity
from dra_driver.selectors.comparisons import Comparison

_MAX_PROPOSALS = 6
_GIGA = 1 << 30


def proposals(comparison: Comparison, devices: Iterable[Device]) -> Iterator[Any]:
    """Constants with which the comparison may hold for some of the devices."""
    seen = (comparison.read.shown(device.id.driver, device.raw) for device in devices)
    values = list(dict.fromkeys(value for value in seen if value is not None))
    ordered_or_equal = comparison.ordered or comparison.relation == "=="
    match comparison.kind, comparison.wanted:
        case "quantity", _ if ordered_or_equal:
            yield from _quantities(comparison, values)
        case "semver", _ if ordered_or_equal:
            yield from _versions(comparison, values)
        case "plain", bool():
            return  # it is read as it stands, so there is no constant in the text
        case "plain", int() as bound if ordered_or_equal:
            numbers = sorted(
                {int(value) for value in values if _is_int(value)}, key=lambda one: abs(one - bound)
            )
            past = {">": -1, "<": 1}.get(comparison.relation, 0)
            yield from (number + past for number in numbers[:_MAX_PROPOSALS])
        case "plain", str() as wanted if comparison.relation == "==":
            alike = sorted(values, key=lambda one: -_likeness(one, wanted))
            yield from alike[:_MAX_PROPOSALS]
        case _:
            return


def _quantities(comparison: Comparison, values: Iterable[str]) -> Iterator[str]:
    try:
        wanted = Quantity.parse(str(comparison.wanted)).nanos
        amounts = sorted(
            {Quantity.parse(value).value for value in values}, key=lambda one: abs(one * 10**9 - wanted)
        )
    except ValueError:
        return
    for amount in amounts[:_MAX_PROPOSALS]:
        if comparison.relation == "==":
            yield str(Quantity.of_bytes(amount))
            continue
        # A round number reads better, and leaves room for the next model's few megabytes less.
        down = comparison.relation in {">", ">="}
        rounded = amount // _GIGA * _GIGA if down else -(-amount // _GIGA) * _GIGA
        past = -1 if comparison.relation == ">" else 1 if comparison.relation == "<" else 0
        yield from (str(Quantity.of_bytes(one)) for one in (rounded, amount + past) if one > 0)


def _versions(comparison: Comparison, values: Iterable[str]) -> Iterator[str]:
    try:
        keyed = sorted({Semver.parse(value).core: value for value in values}.items())
    except EvaluationError:
        return
    down = comparison.relation in {">", ">="}
    for _, value in reversed(keyed) if down else keyed:
        yield value


def _is_int(value: str) -> bool:
    return value.lstrip("-").isdigit()


def _likeness(value: str, wanted: str) -> float:
    contained = wanted.lower() in value.lower() or value.lower() in wanted.lower()
    return contained + difflib.SequenceMatcher(None, value.lower(), wanted.lower()).ratio()

"""Request policies: how a shared device's capacity may be asked for."""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_driver.quantity import Quantity
from dra_driver.resource.limits import MAX_VALID_VALUES
from dra_driver.resource.problems import (
    Problem,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    required,
    too_many,
)


def request_policy(policy: Mapping[str, Any], capacity: Quantity, path: str) -> Iterator[Problem]:
    """The policy of a capacity of this total. A default above the total passes, as it does on 1.36."""
    values, bounds = policy.get("validValues") or [], policy.get("validRange")
    if values and bounds is not None:
        rule = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield forbidden(path, rule)
        return
    kind = "validValues" if values else "validRange"
    if not values and bounds is None:
        return
    if policy.get("default") is None:
        yield required(child(path, "default"), f"required when {kind} is defined")
        return
    default, where = quantity(policy["default"]), child(path, kind)
    if bounds is not None:
        yield from _valid_range(bounds, default, capacity, where)
    else:
        yield from _valid_values([quantity(value) for value in values], default, capacity, where)


def quantity(value: Any) -> Quantity:
    """A decoded quantity; null is zero, and bare numbers are quantities too."""
    return Quantity.parse(value if isinstance(value, str) else str(value or 0))


def _valid_values(
    values: list[Quantity], default: Quantity, capacity: Quantity, path: str
) -> Iterator[Problem]:
    for position in range(1, len(values)):
        if values[position - 1] > values[position]:
            rule = "values must be sorted in ascending order"
            yield invalid(index(path, position), str(values[position]), rule)
    if len(values) > MAX_VALID_VALUES:
        yield too_many(path, len(values), MAX_VALID_VALUES)
        # The server stops before it has seen the default.
        yield _no_default(default, path)
        return
    for position, value in enumerate(values):
        if value > capacity:
            rule = f"option is larger than capacity value: {capacity}"
            yield invalid(index(path, position), str(value), rule)
    seen: set[int] = set()
    for position, value in enumerate(values):
        if value.value in seen:
            yield duplicate(index(path, position), str(value.value))
        seen.add(value.value)
    if default not in values:
        yield _no_default(default, path)


def _no_default(default: Quantity, path: str) -> Problem:
    return invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _valid_range(
    bounds: Mapping[str, Any], default: Quantity, capacity: Quantity, path: str
) -> Iterator[Problem]:
    if bounds.get("min") is None:
        yield required(child(path, "min"), "required when validRange is defined")
        return
    low = quantity(bounds["min"])
    high = quantity(bounds["max"]) if bounds.get("max") is not None else None
    step = quantity(bounds["step"]) if bounds.get("step") is not None else None
    if low > capacity:
        yield invalid(child(path, "min"), str(low), f"min is larger than capacity value: {capacity}")
    if default < low:
        yield invalid(child(path, "min"), str(default), f"default is less than min: {low}")
    if high is not None:
        where = child(path, "max")
        if low > high:
            yield invalid(where, str(low), f"min is larger than max: {high}")
        if high > capacity:
            yield invalid(where, str(high), f"max is larger than capacity value: {capacity}")
        if default > high:
            yield invalid(where, str(default), f"default is more than max: {high}")
    if step is not None:
        yield from _step(low, high, step, default, capacity, child(path, "step"))


def _step(
    low: Quantity, high: Quantity | None, step: Quantity, default: Quantity, capacity: Quantity, path: str
) -> Iterator[Problem]:
    first = Quantity(low.nanos + step.nanos, low.format)
    if first > capacity:
        yield invalid(path, str(step), f"one step {first} is larger than capacity value: {capacity}")
    for value in (default, high):
        if value is not None and not _divides(step, value.nanos - low.nanos):
            rule = f"value is not a multiple of a given step ({step}) from ({low})"
            yield invalid(path, str(value), rule)


def _divides(step: Quantity, distance: int) -> bool:
    # Exact, as 1.37 computes; 1.36 rounds to whole units first. A step of zero, on which 1.36 panics, divides nothing.
    return step.nanos != 0 and distance % step.nanos == 0

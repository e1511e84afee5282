"""Consumable capacity: how much of each capacity a request takes from a device, and whether that is left.

Applies to every device: on one that cannot be shared, what a request asks for is a minimum. Amounts asked for are
rounded up by the device's request policy, in whole units as the allocator does it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dra_driver.allocation.model import Device
from dra_driver.quantity import Format, Quantity

Amounts = dict[str, int]  # capacity -> nano-units
_NANO = 10**9


def consumption(device: Device, requests: Mapping[str, Any]) -> dict[str, Quantity] | None:
    """What a request with these `capacity.requests` takes; None where the device cannot give it at all."""
    if any(name not in device.capacity for name in requests):
        return None
    taken = {}
    for name, capacity in device.capacity.items():
        policy = capacity.get("requestPolicy") or {}
        amount = _consumed(capacity, policy, requests.get(name))
        if _violates(policy, amount):
            return None
        taken[name] = amount
    return taken


def suffices(device: Device, requests: Mapping[str, Any]) -> bool:
    """Whether the device could serve the request if nobody else used it."""
    taken = consumption(device, requests)
    return taken is not None and fits(device, taken, {})


def fits(device: Device, taken: Mapping[str, Quantity], used: Mapping[str, int]) -> bool:
    """Whether the amounts are left beside what is used already."""
    return all(
        used.get(name, 0) + amount.nanos <= _quantity(device.capacity[name]["value"]).nanos
        for name, amount in taken.items()
    )


@lru_cache(maxsize=1024, typed=True)
def _quantity(value: Any) -> Quantity:
    """A search compares the same few amounts again and again."""
    return Quantity.parse(str(value))


def _consumed(capacity: Mapping[str, Any], policy: Mapping[str, Any], request: Any) -> Quantity:
    if request is None:
        default = policy.get("default")
        return _quantity(capacity["value"] if default is None else default)
    asked = _quantity(request)
    bounds = policy.get("validRange") or {}
    if bounds.get("min") is not None:
        return _rounded(asked, bounds)
    values = [_quantity(value) for value in policy.get("validValues") or ()]
    return next((value for value in values if value >= asked), asked)


def _rounded(asked: Quantity, bounds: Mapping[str, Any]) -> Quantity:
    least = _quantity(bounds["min"])
    if asked < least:
        return least
    if bounds.get("step") is None:
        return asked
    step = _quantity(bounds["step"]).value
    steps = -(-(asked.value - least.value) // step)
    return Quantity((least.value + step * steps) * _NANO, Format.BINARY_SI)


def _violates(policy: Mapping[str, Any], amount: Quantity) -> bool:
    if policy.get("default") is not None and amount == _quantity(policy["default"]):
        return False
    bounds = policy.get("validRange")
    if bounds:
        if bounds.get("max") is not None and amount > _quantity(bounds["max"]):
            return True
        if bounds.get("step") is not None:
            least = _quantity(bounds["min"]).value
            return (amount.value - least) % _quantity(bounds["step"]).value != 0
        return False
    values = policy.get("validValues")
    return bool(values) and all(_quantity(value) != amount for value in values or ())

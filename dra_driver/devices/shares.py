"""Devices that several claims have at the same time: what each of them takes of a device's capacities.

* `unlimited`: nothing unless it asks; memory that is asked for is counted.
* `memory`: all of the memory unless it asks for less, so that a claim that does not think of sharing has it alone.
* a number N: as unlimited, and one of the N of the capacity `shares` besides.

Each capacity has a policy. One without would be taken whole by the first claim, and the device with it. Counted is not
enforced: see docs/sharing.md.
"""

from collections.abc import Mapping

from dra_driver.config.node import Shares
from dra_driver.devices.model import Limits, RequestPolicy
from dra_driver.quantity import Quantity

SHARES = "shares"
_MIB = 1 << 20
_NONE, _ONE, _STEP = Quantity.of(0), Quantity.of(1), Quantity.of_bytes(_MIB)


def obstacle_to(capacity: Mapping[str, Quantity], shares: Shares) -> str | None:
    """Why a device with these capacities cannot be shared so; None where it can."""
    if shares == "memory" and _most(capacity) <= _STEP:
        return "its memory is not known, so that it cannot be shared by memory"
    return None


def request_policies(capacity: Mapping[str, Quantity], shares: Shares) -> dict[str, RequestPolicy]:
    """The policies of a shared device, by capacity."""
    policies = dict.fromkeys(capacity, RequestPolicy(_NONE))
    most = _most(capacity)
    if shares == "memory":
        policies["memory"] = RequestPolicy(most, Limits(_STEP, most, _STEP))
    elif most > _NONE:
        policies["memory"] = RequestPolicy(_NONE, Limits(_NONE, most, _STEP))
    if isinstance(shares, int):
        # A single share leaves no room for a step, which the API server then refuses.
        policies[SHARES] = RequestPolicy(
            _ONE, Limits(_ONE, Quantity.of(shares), _ONE if shares > 1 else None)
        )
    return policies


def _most(capacity: Mapping[str, Quantity]) -> Quantity:
    """The memory in whole MiB, which is the step of requests."""
    memory = capacity.get("memory", _NONE)
    return Quantity.of_bytes(memory.value // _MIB * _MIB)

"""What one attempt has taken so far: devices, shares of their capacity, counters, places in constraints.

Everything is taken in one step and given back in one, so a candidate that is rejected half-way leaves nothing
behind; Kubernetes up to 1.36 kept its counters (kubernetes/kubernetes#140436).
"""

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dra_driver.allocation import capacity, taints
from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.model import Device, DeviceId
from dra_driver.allocation.needs import Candidate
from dra_driver.allocation.requests import Claim, Request
from dra_driver.allocation.state import Allocated, CounterLedger
from dra_driver.quantity import Quantity

_Undo = list[Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Choice:
    """A device given to a request; `consumed` where it is shared."""

    request: Request
    candidate: Candidate
    consumed: Mapping[str, Quantity]


class Attempt:
    """The state of a search; `choices[i]` are the devices of the i-th claim."""

    def __init__(self, claims: Sequence[Claim], allocated: Allocated, *, lists: bool) -> None:
        self.choices: list[list[Choice]] = [[] for _ in claims]
        self._claims = claims
        self._allocated = allocated
        self._counters = CounterLedger(allocated)
        self._constraints = [claim.constraints(lists=lists) for claim in claims]
        self._chosen: dict[DeviceId, set[int]] = {}  # by which claims
        self._shares: dict[DeviceId, int] = {}  # of devices that are shared
        self._used: dict[DeviceId, dict[str, int]] = {}  # of their capacity
        self._consumptions: dict[tuple[int, int], Mapping[str, Quantity] | None] = {}  # of request and device

    def in_use(self, claim: int, request: Request, device: Device) -> bool:
        """Whether the device is out of the question; for admin access only the same claim's devices are."""
        chosen = self._chosen.get(device.id, ())
        if request.admin_access:
            return claim in chosen
        return bool(chosen) or device.id in self._allocated.devices

    def _consumption(self, request: Request, device: Device) -> Mapping[str, Quantity] | None:
        """What the request takes of the device's capacity; None where that is not left."""
        if not device.capacity and not request.capacity:
            return {}
        key = id(request), id(device)
        if key not in self._consumptions:
            self._consumptions[key] = capacity.consumption(device, request.capacity)
        taken = self._consumptions[key]
        if taken is None:
            return None
        used = self._allocated.capacity.get(device.id) or {}
        chosen = self._used.get(device.id)
        if chosen:
            used = {name: used.get(name, 0) + chosen.get(name, 0) for name in taken}
        return taken if capacity.fits(device, taken, used) else None

    def take(self, claim: int, request: Request, candidate: Candidate) -> Callable[[], None] | None:
        """Give the device to the request: how to take it back, or None where that is not possible.

        AllocationError where the request wants all devices and a constraint of its claim is against this one.
        """
        undo: _Undo = []
        give_back = partial(_give_back, undo)
        consumed = self._reserve(claim, request, candidate, undo)
        if consumed is None:
            give_back()
            return None
        self._record(claim, Choice(request, candidate, consumed if candidate.device.shareable else {}), undo)
        return give_back

    def could_take(self, claim: int, request: Request, candidate: Candidate) -> bool:
        """Whether `take` would give the device to the request."""
        undo: _Undo = []
        consumed = self._reserve(claim, request, candidate, undo)
        _give_back(undo)
        return consumed is not None

    def state(self, claim: int, devices: Container[DeviceId]) -> Hashable:
        """What decides which of the devices can be added for the rest of the claim and for later claims.

        One whose counters would not suffice once more is out of the question, whether it is in use or not.
        """
        in_use = frozenset(
            (user, choice.candidate.device.id)
            for user, choices in enumerate(self.choices)
            for choice in choices
            if choice.candidate.device.id in devices
            and not choice.candidate.device.shareable
            and self._counters.suffice(choice.candidate.pool, choice.candidate.device)
        )
        shared = frozenset(
            (device, *sorted(self._used[device].items())) for device, shares in self._shares.items() if shares
        )
        rules = tuple(constraint.state() for constraint in self._constraints[claim])
        return len(self.choices[claim]), in_use, shared, self._counters.amounts(), rules

    def _reserve(
        self, claim: int, request: Request, candidate: Candidate, undo: _Undo
    ) -> Mapping[str, Quantity] | None:
        device = candidate.device
        if self.in_use(claim, request, device):
            return None
        if not taints.tolerated(device.raw.get("taints") or (), request.tolerations):
            return None
        # Of a device that is shared, the first share pays for its counters.
        paid = device.shareable and (device.id in self._allocated.shared or self._shares.get(device.id))
        if device.consumes and not paid:
            if not self._counters.take(candidate.pool, device):
                return None
            undo.append(partial(self._counters.give_back, candidate.pool, device))
        return self._consumption(request, device) if self._constrain(claim, request, device, undo) else None

    def _constrain(self, claim: int, request: Request, device: Device, undo: _Undo) -> bool:
        for constraint in self._constraints[claim]:
            remove = constraint.add(request.name, request.subrequest, device)
            if remove is None:
                if request.wants_all:
                    # Kubernetes: such a claim makes no sense, so it is an error rather than a bad fit.
                    raise AllocationError(
                        f"claim {self._claims[claim].name}, request {request.short_name}: cannot add device"
                        f" {device.id} because a claim constraint would not be satisfied"
                    )
                return False
            undo.append(remove)
        return True

    def _record(self, claim: int, choice: Choice, undo: _Undo) -> None:
        device = choice.candidate.device
        if device.shareable:
            self._shares[device.id] = self._shares.get(device.id, 0) + 1
            used = self._used.setdefault(device.id, {})
            for name, amount in choice.consumed.items():
                used[name] = used.get(name, 0) + amount.nanos
            undo.append(partial(self._unshare, device.id, choice.consumed))
        else:
            chosen = self._chosen.setdefault(device.id, set())
            chosen.add(claim)
            undo.append(partial(chosen.discard, claim))
        self.choices[claim].append(choice)
        undo.append(self.choices[claim].pop)

    def _unshare(self, device: DeviceId, consumed: Mapping[str, Quantity]) -> None:
        self._shares[device] -= 1
        for name, amount in consumed.items():
            self._used[device][name] -= amount.nanos


def _give_back(undo: _Undo) -> None:
    while undo:
        undo.pop()()

"""The search: depth first, first fit, over claims, requests, subrequests and devices.

Each position of the search is a generator of the choices there: it applies a choice, yields the position after it,
and takes the choice back when it is resumed or closed. So backtracking is closing generators, and the depth is no
matter of Python's stack.

A device found for a request is followed only by later devices for the same request: combinations, not
permutations. More than 32 devices in a claim cannot be mended by other devices, only by another subrequest, so the
search falls back to the last choice of one at once.
"""

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dra_driver.allocation import capacity, taints
from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.matching import Matcher
from dra_driver.allocation.model import Device, DeviceId, Pool, Slice
from dra_driver.allocation.requests import MAX_RESULTS, Claim, Request
from dra_driver.allocation.state import Allocated, CounterLedger
from dra_driver.quantity import Quantity

_CLOCK_EVERY = 256  # steps between looks at the clock


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device with where it comes from."""

    pool: Pool
    part: Slice
    device: Device


@dataclass(frozen=True, slots=True)
class Choice:
    """A device given to a request; `consumed` for devices that are shared."""

    request: Request
    candidate: Candidate
    consumed: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class Position:
    """Where the search is; `alternative` is None while a subrequest is still to be chosen."""

    claim: int
    request: int = 0
    alternative: int | None = None
    taken: int = 0  # devices the request has
    start: int = 0  # first candidate to look at


@dataclass(frozen=True, slots=True)
class Need:
    """What a request may get: `candidates` in order, `count` of them."""

    request: Request
    device_class: Mapping[str, Any]
    candidates: tuple[Candidate, ...] | None  # None: all usable devices, looked at one by one
    count: int


class _TooMany(Exception):  # noqa: N818 - a signal within the search, not an error
    """The claim would have more devices than a claim may have."""


class Search:
    """One attempt for one node; use once."""

    def __init__(
        self,
        claims: list[Claim],
        classes: Mapping[str, Mapping[str, Any]],
        node: Mapping[str, Any],
        pools: list[Pool],
        allocated: Allocated,
        matcher: Matcher,
        deadline: float,
    ) -> None:
        self._claims = claims
        self._classes = classes
        self._node = node
        self._pools = pools
        self._allocated = allocated
        self._matcher = matcher
        self._deadline = deadline
        self._steps = 0
        self._usable = tuple(
            Candidate(pool, part, device)
            for pool in pools
            if pool.usable
            for part in pool.slices
            for device in part.devices
        )
        self._counters = CounterLedger(allocated)
        self._chosen: dict[DeviceId, set[int]] = {}  # by which claims
        self._shares: dict[DeviceId, int] = {}  # of devices that are shared, in this attempt
        self._used: dict[DeviceId, dict[str, int]] = {}
        self.choices: list[list[Choice]] = [[] for _ in claims]
        self._constraints = [claim.constraints() for claim in claims]
        self._needs = [
            [self._alternatives(claim, index) for index in range(len(claim.requests))] for claim in claims
        ]

    def run(self) -> list[list[Choice]] | None:
        """The devices of each claim, or None where they do not fit."""
        for claim, needs in zip(self._claims, self._needs, strict=True):
            least = sum(min(need.count for need in alternatives) for alternatives in needs)
            if least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {claim.name}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
                )
        stack = [(Position(0), self._choices(Position(0)))]
        while stack:
            self._tick()
            _, choices = stack[-1]
            try:
                following = next(choices, None)
            except _TooMany:
                self._drop_to_alternative(stack)
                continue
            if following is None:
                stack.pop()
            elif following.claim == len(self._claims):
                return [list(of_claim) for of_claim in self.choices]  # a copy: dropping the stack undoes them
            else:
                stack.append((following, self._choices(following)))
        return None

    def _drop_to_alternative(self, stack: list[tuple[Position, Generator[Position]]]) -> None:
        """Give up everything since the claim's last choice between subrequests, or the whole claim."""
        claim = stack.pop()[0].claim
        while stack:
            position, choices = stack[-1]
            if position.claim != claim or self._is_choice(position):
                return
            stack.pop()
            choices.close()

    def _is_choice(self, at: Position) -> bool:
        requests = self._claims[at.claim].requests
        return (
            at.alternative is None
            and at.request < len(requests)
            and requests[at.request][0].subrequest is not None
        )

    def _tick(self) -> None:
        self._steps += 1
        if self._steps % _CLOCK_EVERY == 0 and time.monotonic() > self._deadline:
            name = self._node["metadata"]["name"]
            raise AllocationError(f"node {name}: timed out trying to allocate devices")

    def _alternatives(self, claim: Claim, index: int) -> list[Need]:
        return [self._need(claim, request) for request in claim.requests[index]]

    def _need(self, claim: Claim, request: Request) -> Need:
        device_class = self._classes.get(request.class_name)
        if device_class is None:
            raise AllocationError(
                f"claim {claim.name}, request {request.short_name}: could not retrieve device class"
                f' {request.class_name}: device class "{request.class_name}" not found'
            )
        if not request.wants_all:
            return Need(request, device_class, None, request.count)
        for pool in self._pools:
            if not pool.usable:
                state = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"claim {claim.name}, request {request.short_name}: asks for all devices, but resource pool"
                    f" {pool.id} is currently {state}"
                )
        candidates = tuple(
            candidate
            for candidate in self._usable
            if self._selectable(claim, request, device_class, candidate)
            and self._consumption(request, candidate.device) is not None
        )
        return Need(request, device_class, candidates, len(candidates))

    def _selectable(
        self, claim: Claim, request: Request, device_class: Mapping[str, Any], candidate: Candidate
    ) -> bool:
        return self._matcher.selectable(
            claim.name, request, device_class, candidate.part, candidate.device, self._node
        )

    def _consumption(self, request: Request, device: Device) -> Mapping[str, Quantity] | None:
        """What the request takes of the device's capacity; None where that is not left."""
        if not device.capacity and not request.capacity:
            return {}
        taken = capacity.consumption(device, request.capacity)
        if taken is None:
            return None
        used = dict(self._allocated.capacity.get(device.id) or {})
        for name, amount in (self._used.get(device.id) or {}).items():
            used[name] = used.get(name, 0) + amount
        return taken if capacity.fits(device, taken, used) else None

    def _choices(self, at: Position) -> Generator[Position]:
        claim = self._claims[at.claim]
        if at.request == len(claim.requests):
            yield Position(at.claim + 1)
            return
        alternatives = self._needs[at.claim][at.request]
        if at.alternative is None:
            for index in range(len(alternatives)):
                yield Position(at.claim, at.request, index)
            return
        need = alternatives[at.alternative]
        if at.taken == need.count:
            if need.count:  # "all" of nothing is not satisfied
                yield Position(at.claim, at.request + 1)
            return
        if len(self.choices[at.claim]) + need.count - at.taken > MAX_RESULTS:
            raise _TooMany
        if need.candidates is not None:
            # The order does not matter when all are needed, so there is nothing else to try.
            yield from self._with(at, claim, need, need.candidates[at.taken], 0)
            return
        for index in range(at.start, len(self._usable)):
            candidate = self._usable[index]
            if not self._in_use(at.claim, need.request, candidate.device) and self._selectable(
                claim, need.request, need.device_class, candidate
            ):
                yield from self._with(at, claim, need, candidate, index + 1)

    def _with(
        self, at: Position, claim: Claim, need: Need, candidate: Candidate, start: int
    ) -> Generator[Position]:
        """The position after taking the candidate, if it can be taken; resumed or closed, it is given back."""
        undo = self._take(at.claim, claim, need.request, candidate)
        if undo is None:
            return
        try:
            yield Position(at.claim, at.request, at.alternative, at.taken + 1, start)
        finally:
            for step in reversed(undo):
                step()

    def _in_use(self, claim: int, request: Request, device: Device) -> bool:
        chosen = self._chosen.get(device.id, ())
        if request.admin_access:
            return claim in chosen
        return bool(chosen) or device.id in self._allocated.devices

    def _take(
        self, index: int, claim: Claim, request: Request, candidate: Candidate
    ) -> list[Callable[[], None]] | None:
        """Give the device to the request: how to take it back, or None where that is not possible."""
        device = candidate.device
        if self._in_use(index, request, device):
            return None
        undo: list[Callable[[], None]] = []
        consumed = self._reserve(request, candidate, undo)
        if consumed is None or not self._constrain(index, claim, request, device, undo):
            for step in reversed(undo):
                step()
            return None
        self._record(index, Choice(request, candidate, consumed if device.shareable else {}), undo)
        return undo

    def _reserve(
        self, request: Request, candidate: Candidate, undo: list[Callable[[], None]]
    ) -> Mapping[str, Quantity] | None:
        """Capacity, counters and taints; None where one of them is in the way."""
        device = candidate.device
        consumed = self._consumption(request, device)
        if consumed is None:
            return None
        charged = device.shareable and (device.id in self._allocated.shared or self._shares.get(device.id))
        if device.consumes and not charged:
            if not self._counters.take(candidate.pool, device):
                return None
            undo.append(partial(self._counters.give_back, candidate.pool, device))
        if not taints.tolerated(device.raw.get("taints") or (), request.tolerations):
            return None
        return consumed

    def _constrain(
        self, index: int, claim: Claim, request: Request, device: Device, undo: list[Callable[[], None]]
    ) -> bool:
        for constraint in self._constraints[index]:
            remove = constraint.add(request.name, request.subrequest, device)
            if remove is None:
                if request.wants_all:
                    # Kubernetes: such a claim makes no sense, so it is an error rather than a bad fit.
                    raise AllocationError(
                        f"claim {claim.name}, request {request.short_name}: cannot add device {device.id} because"
                        " a claim constraint would not be satisfied"
                    )
                return False
            undo.append(remove)
        return True

    def _record(self, index: int, choice: Choice, undo: list[Callable[[], None]]) -> None:
        device = choice.candidate.device
        if device.shareable:
            self._shares[device.id] = self._shares.get(device.id, 0) + 1
            used = self._used.setdefault(device.id, {})
            for name, amount in choice.consumed.items():
                used[name] = used.get(name, 0) + amount.nanos
            undo.append(partial(self._unshare, device.id, choice.consumed))
        else:
            chosen = self._chosen.setdefault(device.id, set())
            chosen.add(index)
            undo.append(partial(chosen.discard, index))
        self.choices[index].append(choice)
        undo.append(self._drop(index))

    def _unshare(self, device: DeviceId, consumed: Mapping[str, Quantity]) -> None:
        self._shares[device] -= 1
        for name, amount in consumed.items():
            self._used[device][name] -= amount.nanos

    def _drop(self, index: int) -> Callable[[], None]:
        choices = self.choices[index]
        return lambda: choices.__delitem__(-1)

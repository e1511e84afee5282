"""The search: depth first, first fit, over claims, requests, subrequests and devices.

Each position of the search is a generator of the choices there: it applies a choice, yields the position after it,
and takes the choice back when it is resumed or closed. So backtracking is closing generators, and the depth is no
matter of Python's stack.

A device found for a request is followed only by later devices for the same request: combinations, not
permutations. More than 32 devices in a claim cannot be mended by other devices, only by another subrequest, so the
search falls back to the last choice of one at once, and behind it where all its subrequests are too many.

A search that takes long is spared what nothing can come of (bounds.py).
"""

import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from dra_driver.allocation.attempt import Attempt, Choice
from dra_driver.allocation.bounds import Bounds
from dra_driver.allocation.capacity import suffices
from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.matching import Matcher
from dra_driver.allocation.model import Pool
from dra_driver.allocation.needs import Candidate, Need, device_class_of, require_usable, usable
from dra_driver.allocation.nodes import node_name
from dra_driver.allocation.requests import MAX_RESULTS, Claim, Request
from dra_driver.allocation.state import Allocated

_CLOCK_EVERY = 64  # steps between looks at the clock
_HARD = 500  # steps; what is not done by then is pruned by what takes longer than a step


@dataclass(frozen=True, slots=True)
class Position:
    """Where the search is; `alternative` is None while a subrequest is still to be chosen."""

    claim: int
    request: int = 0
    alternative: int | None = None
    taken: int = 0  # devices the request has
    start: int = 0  # first candidate to look at


class _TooManyError(Exception):
    """The claim would have more devices than a claim may have; thrown into the choices that led there."""


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
        """`deadline`: by time.monotonic. AllocationError where a claim makes no sense."""
        self._claims = claims
        self._classes = classes
        self._node = node
        self._pools = pools
        self._allocated = allocated
        self._matcher = matcher
        self._deadline = deadline
        self._steps = 0
        self._bounds: Bounds | None = None
        self._usable = tuple(usable(pools))
        self._attempt = Attempt(claims, allocated, lists=matcher.lists)
        self._needs = [
            [[self._need(claim, request) for request in alternatives] for alternatives in claim.requests]
            for claim in claims
        ]

    def run(self) -> list[list[Choice]] | None:
        """The devices of each claim, or None where they do not fit."""
        for claim, needs in zip(self._claims, self._needs, strict=True):
            least = sum(min(need.count for need in alternatives) for alternatives in needs)
            if least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {claim.name}: number of requested devices {least} exceeds the claim limit of"
                    f" {MAX_RESULTS}"
                )
        stack = [self._choices(Position(0))]
        too_many = False
        while stack:
            self._tick()
            try:
                following = _following(stack[-1], too_many=too_many)
            except _TooManyError:
                too_many = True
                stack.pop()
                continue
            too_many = False
            if following is None:
                stack.pop()
            elif following.claim == len(self._claims):
                # Copies: when the stack goes, its generators take everything back.
                return [list(chosen) for chosen in self._attempt.choices]
            else:
                stack.append(self._choices(following))
        return None

    def _tick(self) -> None:
        self._steps += 1
        if self._steps == _HARD:
            self._bounds = Bounds(self._claims, self._needs, self._attempt)
        if self._steps % _CLOCK_EVERY == 0 and time.monotonic() > self._deadline:
            raise AllocationError(f"node {node_name(self._node)}: timed out trying to allocate devices")

    def _need(self, claim: Claim, request: Request) -> Need:
        device_class = device_class_of(claim, request, self._classes)
        # Of no method of the search: it would refer to itself, and stay until the garbage collector comes.
        select = partial(_selectable, self._matcher, claim, request, device_class, self._node)
        if not request.wants_all:
            need = Need(request, request.count, self._usable, select)
            if not request.admin_access:
                need.rule_out(self._allocated.devices)
            return need
        require_usable(claim, request, self._pools)
        # A device whose capacity others use is one of all, and in the way; Kubernetes up to 1.36 passed it over
        # (kubernetes/kubernetes#140769).
        candidates = tuple(
            candidate
            for candidate in self._usable
            if select(candidate) and suffices(candidate.device, request.capacity)
        )
        return Need(request, len(candidates), candidates, select)

    def _choices(self, at: Position) -> Generator[Position]:
        claim = self._claims[at.claim]
        if at.request == len(claim.requests):
            with suppress(_TooManyError):  # of the next claim; with other devices here it may do with fewer
                yield Position(at.claim + 1)
            return
        alternatives = self._needs[at.claim][at.request]
        if at.alternative is None:
            if self._bounds is not None and self._bounds.has_failed(at.claim, at.request):
                return
            too_many = 0
            for index in range(len(alternatives)):
                try:
                    yield Position(at.claim, at.request, index)
                except _TooManyError:
                    too_many += 1
            if too_many == len(alternatives):
                raise _TooManyError
            if self._bounds is not None:
                self._bounds.add_failure(at.claim, at.request)
            return
        need = alternatives[at.alternative]
        missing = need.count - at.taken
        if not missing:
            if need.count:  # "all" of nothing is not satisfied
                yield Position(at.claim, at.request + 1)
            return
        if len(self._attempt.choices[at.claim]) + missing > MAX_RESULTS:
            raise _TooManyError
        if self._bounds is not None and self._bounds.hopeless(at.claim, at.request, need, missing, at.start):
            return
        if need.request.wants_all:
            # The order does not matter when all are needed, so there is nothing else to try.
            yield from self._with(at, need, at.taken)
            return
        for index in range(at.start, len(need.candidates)):
            if not need.may_find(missing, index):
                return
            device = need.candidates[index].device
            if not self._attempt.in_use(at.claim, need.request, device) and need.selectable(index):
                yield from self._with(at, need, index)
        need.exhausted()

    def _with(self, at: Position, need: Need, index: int) -> Generator[Position]:
        """The position after taking the candidate, if it can be taken; resumed or closed, it is given back."""
        give_back = self._attempt.take(at.claim, need.request, need.candidates[index])
        if give_back is None:
            return
        try:
            yield Position(at.claim, at.request, at.alternative, at.taken + 1, index + 1)
        finally:
            give_back()


def _following(choices: Generator[Position], *, too_many: bool) -> Position | None:
    """The next choice, told whether there were too many devices behind the last one; None where there is none."""
    try:
        return choices.throw(_TooManyError) if too_many else next(choices)
    except StopIteration:
        return None


def _selectable(
    matcher: Matcher,
    claim: Claim,
    request: Request,
    device_class: Mapping[str, Any],
    node: Mapping[str, Any],
    candidate: Candidate,
) -> bool:
    return matcher.selectable(claim.name, request, device_class, candidate.part, candidate.device, node)

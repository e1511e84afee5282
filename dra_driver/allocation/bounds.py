"""What spares a long search choices that nothing can come of, without changing its answer or its error.

A state before a request that failed once fails again; partitions of one GPU lead to the same state in many ways.

What a device takes makes no other device fit that did not fit before. So the devices that a request could be given
now are all that it may choose among, and the requests from a position on fail together if one of them has too few of
these, or several have, counted together. Such a proof must not hide an error that the search would come to: it only
looks as far as all selectors are known, and no further than a request that is an error where a constraint is against
one of its devices. Nor must it hide that a claim would have too many devices, which is no reason to try others.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from dra_driver.allocation.attempt import Attempt
from dra_driver.allocation.model import Device, DeviceId
from dra_driver.allocation.needs import Need
from dra_driver.allocation.requests import MAX_RESULTS, Claim


@dataclass(frozen=True, slots=True)
class _Part:
    """A request of a claim: the needs of its alternatives."""

    claim: int
    needs: Sequence[Need]


class Bounds:
    """What the requests of an attempt can still have at most."""

    def __init__(
        self, claims: Sequence[Claim], needs: Sequence[Sequence[Sequence[Need]]], attempt: Attempt
    ) -> None:
        self._attempt = attempt
        self._parts = [_Part(index, each) for index, of_claim in enumerate(needs) for each in of_claim]
        self._first = [sum(len(of_claim) for of_claim in needs[:index]) for index in range(len(needs))]
        self._constraints = [claim.devices.get("constraints") or () for claim in claims]
        self._never_too_many = all(
            sum(max(need.count for need in alternatives) for alternatives in of_claim) <= MAX_RESULTS
            for of_claim in needs
        )
        self._failed: set[Hashable] = set()
        self._interest: dict[int, frozenset[DeviceId]] = {}

    def has_failed(self, claim: int, request: int) -> bool:
        """Whether the search came to the request, which has no devices yet, in an equal state before, in vain."""
        return self._state(claim, request) in self._failed

    def add_failure(self, claim: int, request: int) -> None:
        self._failed.add(self._state(claim, request))

    def _state(self, claim: int, request: int) -> Hashable:
        ahead = self._of_interest(self._first[claim] + request)
        return claim, request, self._attempt.state(claim, ahead)

    def _of_interest(self, place: int) -> frozenset[DeviceId]:
        """The devices that requests from one on may select."""
        if place not in self._interest:
            needs = [need for part in self._parts[place:] for need in part.needs]
            self._interest[place] = frozenset(device.id for need in needs for device in need.selected())
        return self._interest[place]

    def hopeless(self, claim: int, request: int, need: Need, missing: int, start: int) -> bool:
        """Whether the request cannot have as many devices more, from a candidate on, or what follows it cannot.

        False where that cannot be said.
        """
        if not self._never_too_many:
            return False
        place = self._first[claim] + request
        here = _Part(claim, (need,))
        wanted, shares = 0, 0
        exclusive: set[DeviceId] = set()
        for part in (here, *self._parts[place + 1 :]):
            if not self._is_sure(part):
                return False
            at_start = part is here
            counts = [missing] if at_start else [one.count for one in part.needs]
            able = [list(self._able(part.claim, one, start if at_start else 0)) for one in part.needs]
            if all(len(found) < count for found, count in zip(able, counts, strict=True)):
                return True
            if any(one.request.admin_access for one in part.needs):
                continue  # takes nothing from the others
            wanted += min(counts)
            devices = {device.id: device for found in able for device in found}
            shares += sum(device.shareable for device in devices.values())
            exclusive.update(name for name, device in devices.items() if not device.shareable)
            if wanted > len(exclusive) + shares:
                return True
        return False

    def _is_sure(self, part: _Part) -> bool:
        """Whether the search comes to no error at this request."""
        constraints = self._constraints[part.claim]
        if any("distinctAttribute" in one for one in constraints) and any(
            need.count > 1 for need in part.needs
        ):
            return False  # of several devices of a request only the last is compared, so one may fit again
        wants_all = any(need.request.wants_all for need in part.needs)
        return not (wants_all and constraints) and all(need.is_known() for need in part.needs)

    def _able(self, claim: int, need: Need, start: int) -> Iterator[Device]:
        """The devices from a candidate on that the request could be given now."""
        for index in range(start, len(need.candidates)):
            candidate = need.candidates[index]
            if need.selectable(index) and self._attempt.could_take(claim, need.request, candidate):
                yield candidate.device

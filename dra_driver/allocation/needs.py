"""What a request wants: how many devices, and which could be among them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.model import Device, DeviceId, Pool, Slice
from dra_driver.allocation.requests import Claim, Request


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device with where it comes from."""

    pool: Pool
    part: Slice
    device: Device


class Need:
    """A request or subrequest with its candidates, in order; what selectors say of them is remembered.

    Candidates are asked about only when the search comes to them: one whose selector fails must not abort an
    attempt that is satisfied before it.
    """

    def __init__(
        self,
        request: Request,
        count: int,
        candidates: tuple[Candidate, ...],
        select: Callable[[Candidate], bool],
    ) -> None:
        self.request = request
        self.count = count
        self.candidates = candidates
        self._select = select
        self._selectable: list[bool | None] = [None] * len(candidates)
        self._left: list[int] | None = None
        self._known: bool | None = None

    def selectable(self, index: int) -> bool:
        """Whether the request selects the candidate; AllocationError where a selector fails."""
        known = self._selectable[index]
        if known is None:
            known = self._selectable[index] = self._select(self.candidates[index])
        return known

    def is_known(self) -> bool:
        """Ask about every candidate: whether each selector gave an answer."""
        if self._known is None:
            try:
                for index in range(len(self.candidates)):
                    self.selectable(index)
                self._known = True
            except AllocationError:
                self._known = False
        return self._known

    def selected(self) -> Iterator[Device]:
        """The devices that the request selects, or may select where a selector fails."""
        self.is_known()
        for known, candidate in zip(self._selectable, self.candidates, strict=True):
            if known is not False:
                yield candidate.device

    def rule_out(self, devices: Collection[DeviceId]) -> None:
        """These devices are taken for good, so their selectors need not be looked at."""
        for index, candidate in enumerate(self.candidates):
            if candidate.device.id in devices:
                self._selectable[index] = False

    def exhausted(self) -> None:
        """The search came to the last candidate in vain: from now on it can be said what is left from any point.

        Not while a selector was not evaluated, since it might fail.
        """
        if self._left is None and None not in self._selectable:
            left = [0]
            for known in reversed(self._selectable):
                left.append(left[-1] + bool(known))
            self._left = left[::-1]

    def may_find(self, count: int, start: int) -> bool:
        """Whether that many devices can be there from a candidate on; True while that is not known."""
        return self._left is None or self._left[start] >= count


def device_class_of(
    claim: Claim, request: Request, classes: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The class of a request; AllocationError where there is none."""
    name = request.class_name
    if name not in classes:
        raise AllocationError(
            f"claim {claim.name}, request {request.short_name}: could not retrieve device class {name}:"
            f' device class "{name}" not found'
        )
    return classes[name]


def usable(pools: list[Pool]) -> Iterator[Candidate]:
    """All devices of pools that are complete and valid."""
    for pool in pools:
        if pool.usable:
            for part in pool.slices:
                for device in part.devices:
                    yield Candidate(pool, part, device)


def require_usable(claim: Claim, request: Request, pools: list[Pool]) -> None:
    """A request for all devices has no answer while a pool is unclear: AllocationError."""
    for pool in pools:
        if not pool.usable:
            state = "being updated" if pool.incomplete else "invalid"
            raise AllocationError(
                f"claim {claim.name}, request {request.short_name}: asks for all devices, but resource pool"
                f" {pool.id} is currently {state}"
            )

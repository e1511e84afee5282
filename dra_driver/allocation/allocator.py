"""Allocating claims on a node: the room's front door."""

import copy
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dra_driver.allocation.errors import NodeError
from dra_driver.allocation.matching import Matcher
from dra_driver.allocation.pools import SliceIndex
from dra_driver.allocation.requests import Claim
from dra_driver.allocation.results import allocation_result
from dra_driver.allocation.search import Search
from dra_driver.allocation.state import Allocated

TIMEOUT = 10.0  # seconds a node gets, as in the scheduler


class Snapshot:
    """Slices, classes and allocated claims at one moment; asks about many nodes and claims share its answers.

    `lists`: whether attributes may be lists of values (the gate DRAListTypeAttributes, off by default up to 1.37).
    The attributes are for those who explain an answer.
    """

    def __init__(
        self,
        slices: Iterable[Mapping[str, Any]],
        classes: Iterable[Mapping[str, Any]],
        allocated: Iterable[Mapping[str, Any]],
        *,
        lists: bool = False,
    ) -> None:
        self.slices = SliceIndex(slices)
        self.classes = {str(one["metadata"]["name"]): one for one in classes}
        self.allocated = Allocated(allocated)
        self.matcher = Matcher(lists=lists)

    def with_allocated(self, allocated: Iterable[Mapping[str, Any]]) -> "Snapshot":
        """The same slices and classes with other allocated claims; answers of selectors are shared."""
        other = copy.copy(self)
        other.allocated = Allocated(allocated)
        return other

    def with_class(self, device_class: Mapping[str, Any]) -> "Snapshot":
        """The same with one class added or replaced."""
        other = copy.copy(self)
        other.classes = {**self.classes, str(device_class["metadata"]["name"]): device_class}
        return other

    def allocate(
        self, claims: Sequence[Mapping[str, Any]], *, node: Mapping[str, Any], timeout: float = TIMEOUT
    ) -> list[dict[str, Any]] | None:
        """An AllocationResult per claim, in their order; None where they do not fit on the node together.

        NodeError where they do not and a pool of the node is invalid; any other AllocationError where the attempt
        is aborted. `timeout` is in seconds.
        """
        wanted = [Claim(claim) for claim in claims]
        pools = self.slices.pools(node)
        search = Search(
            wanted,
            self.classes,
            node,
            pools,
            self.allocated,
            self.matcher,
            time.monotonic() + timeout,
        )
        found = search.run()
        if found is None:
            if any(pool.invalid is not None and not pool.incomplete for pool in pools):
                raise NodeError("invalid resource pools were encountered")
            return None
        return [
            allocation_result(claim, choices, self.classes, node)
            for claim, choices in zip(wanted, found, strict=True)
        ]


def allocate(
    claims: Sequence[Mapping[str, Any]],
    *,
    node: Mapping[str, Any],
    slices: Iterable[Mapping[str, Any]],
    classes: Iterable[Mapping[str, Any]],
    allocated: Iterable[Mapping[str, Any]],
) -> list[dict[str, Any]] | None:
    """`Snapshot.allocate` for those who ask once."""
    return Snapshot(slices, classes, allocated).allocate(claims, node=node)

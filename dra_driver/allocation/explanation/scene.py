"""What an explanation looks at: a snapshot, who holds what, and the answers of selectors worked out so far."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dra_driver.allocation.allocator import Snapshot
from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.explanation.answers import Answers
from dra_driver.allocation.explanation.model import Holder
from dra_driver.allocation.model import DeviceId
from dra_driver.allocation.requests import Claim, Request

Object = Mapping[str, Any]


@dataclass
class Scene:
    """Slices, classes and allocated claims; `snapshot` has the same."""

    snapshot: Snapshot
    allocated: Sequence[Object]
    answers: Answers = field(init=False)

    def __post_init__(self) -> None:
        self.answers = Answers(self.snapshot.matcher)

    @classmethod
    def of(
        cls,
        slices: Iterable[Object],
        classes: Iterable[Object],
        allocated: Iterable[Object],
        *,
        lists: bool = False,
    ) -> "Scene":
        """`lists` as in `Snapshot`."""
        held = list(allocated)
        return cls(Snapshot(slices, classes, held, lists=lists), held)

    @cached_property
    def holders(self) -> Mapping[DeviceId, tuple[Holder, ...]]:
        """The claims that each device is allocated to, admin access left out."""
        found: dict[DeviceId, tuple[Holder, ...]] = {}
        for claim in self.allocated:
            holder = holder_of(claim)
            for result in results_of(claim):
                if not result.get("adminAccess"):
                    device = DeviceId(result["driver"], result["pool"], result["device"])
                    if holder not in found.get(device, ()):
                        found[device] = (*found.get(device, ()), holder)
        return found

    def without(self, claim: str) -> Snapshot:
        """The snapshot as if a claim (namespace/name) were not allocated."""
        return self.snapshot.with_allocated(one for one in self.allocated if name_of(one) != claim)


def name_of(obj: Object) -> str:
    """namespace/name"""
    meta = obj["metadata"]
    return f"{meta.get('namespace') or 'default'}/{meta['name']}"


def alternatives_of(claim: Claim) -> tuple[tuple[Request, ...], ...]:
    """The claim's requests; none where one is of a kind that nobody knows, which the allocator's error says."""
    try:
        return claim.requests
    except AllocationError:
        return ()


def results_of(claim: Object) -> Sequence[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: Sequence[Object] = (allocation.get("devices") or {}).get("results") or ()
    return found


def holder_of(claim: Object) -> Holder:
    namespace = claim["metadata"].get("namespace") or "default"
    consumers = (claim.get("status") or {}).get("reservedFor") or ()
    pods = (f"{namespace}/{one['name']}" for one in consumers if one.get("resource", "pods") == "pods")
    return Holder(name_of(claim), tuple(pods))

"""What an explanation is made of. Plain values: the same objects give equal explanations, and they print themselves.

Devices are named as results of allocations name them, by driver, pool and device.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dra_driver.allocation.model import DeviceId


class Kind(StrEnum):
    """Why a request does not get a device, from what never passes to what may pass soonest."""

    CLASS = "class"  # a selector of the class is false
    SELECTOR = "selector"  # a selector of the request is false
    ERROR = "error"  # a selector fails, which stops the scheduler
    CAPACITY = "capacity"  # too little of it is left, or the device has none
    CONSTRAINT = "constraint"  # an attribute does not fit the other devices
    TAINT = "tainted"
    IN_USE = "in-use"
    COUNTER = "counter"  # what the device shares with others is used up


_ORDER = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Holder:
    """An allocated claim, with the Pods that it is reserved for, all as namespace/name."""

    claim: str
    pods: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.pods:
            return f"claim {self.claim} (used by no Pod)"
        more = f" and {len(self.pods) - 1} more" if len(self.pods) > 1 else ""
        return f"claim {self.claim} of Pod {self.pods[0]}{more}"


@dataclass(frozen=True, slots=True)
class Miss:
    """A comparison that fails: how it reads, and what orders misses of one comparison by how near they are."""

    text: str
    comparison: str  # which one: its text
    best: str  # "largest" or "smallest" is what comes nearest; "" where there is no order
    shown: str = ""
    amount: Any = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing between a request and a device."""

    kind: Kind
    text: str
    fix: str | None = None
    holders: tuple[Holder, ...] = ()
    misses: tuple[Miss, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """A device and everything that keeps a request from it; nothing where the request could have it alone."""

    device: DeviceId
    blockers: tuple[Blocker, ...] = ()

    @property
    def reason(self) -> Blocker | None:
        """The blocker to name first: no other matters before it is gone."""
        return min(self.blockers, key=lambda blocker: _ORDER[blocker.kind], default=None)

    @property
    def text(self) -> str:
        """The reason in words, "" where there is none; of false selectors all, since each would have to change."""
        reason = self.reason
        if reason is None or reason.kind is not Kind.SELECTOR:
            return "" if reason is None else reason.text
        return "; ".join(blocker.text for blocker in self.blockers if blocker.kind is Kind.SELECTOR)


@dataclass(frozen=True, slots=True)
class SelectorCount:
    """How many devices a selector kept of those it was asked about; `failed` on others."""

    owner: str  # "class gpu.nvidia.com" or "request gpu"
    index: int
    expression: str
    kept: int
    of: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class RequestReport:
    """A request, or one alternative of it, on one node."""

    claim: str  # namespace/name
    request: str  # "req" or "req/sub"
    device_class: str
    wanted: int | None  # None: all
    devices: tuple[DeviceReport, ...]
    selectors: tuple[SelectorCount, ...]
    admin_access: bool = False

    @property
    def free(self) -> tuple[DeviceReport, ...]:
        """Devices that the request could have."""
        return tuple(one for one in self.devices if not one.blockers)

    @property
    def missing(self) -> int:
        """How many devices are missing; of all, how many are in the way."""
        if self.wanted is not None:
            return max(0, self.wanted - len(self.free))
        selected = [one for one in self.devices if one.reason is None or one.reason.kind is not Kind.CLASS]
        selected = [one for one in selected if one.reason is None or one.reason.kind is not Kind.SELECTOR]
        return len(selected) - len(self.free) if selected else 1


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What one node says, and which others say the same; `fits` where the claims get their devices there."""

    nodes: tuple[str, ...]
    fits: bool
    error: str | None = None  # the allocator aborts with this
    obstacles: tuple[str, ...] = ()  # before any device is looked at
    notes: tuple[str, ...] = ()  # what holds for several devices or requests together
    requests: tuple[RequestReport, ...] = ()

    @property
    def missing(self) -> int:
        return sum(request.missing for request in self.requests)


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was tried, and after which the claims get their devices on `node`."""

    text: str
    node: str
    request: str | None = None
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer for claims that are to be allocated together."""

    claims: tuple[str, ...]
    nodes: tuple[NodeReport, ...]  # nearest first
    selectors: tuple[tuple[str, str, SelectorCount], ...]  # claim, request, sums over all nodes
    nearest: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def error(self) -> str | None:
        """What stops the scheduler: it gives up on the Pod when one node fails."""
        return next((report.error for report in self.nodes if report.error), None)

    @property
    def fitting(self) -> tuple[str, ...]:
        return tuple(name for report in self.nodes if report.fits for name in report.nodes)

    @property
    def satisfiable(self) -> bool:
        return bool(self.fitting) and self.error is None

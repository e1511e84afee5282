"""Why a Pod was not scheduled, in kube-scheduler's words: the text of its condition and of its Event."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is that of the PodScheduled condition: Unschedulable, or SchedulerError where trying failed."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Objection:
    """What speaks against one node; preempting Pods helps unless `unresolvable`."""

    reason: str
    unresolvable: bool = False


def unschedulable(objections: Sequence[Objection], *, has_claims: bool) -> Verdict:
    """No node is left; one objection a node."""
    if not objections:
        return Verdict("Unschedulable", "no nodes available to schedule pods")
    reasons = _counted(Counter(one.reason for one in objections))
    helpless = Counter(
        "Preemption is not helpful for scheduling."
        if one.unresolvable
        else "No preemption victims found for incoming pod."
        for one in objections
    )
    return _fit_error(len(objections), reasons, _counted(helpless), has_claims=has_claims)


def rejected(reason: str, nodes: int, *, has_claims: bool) -> Verdict:
    """No node was looked at, for a reason that holds for all."""
    helpless = f"{nodes} Preemption is not helpful for scheduling."
    return _fit_error(nodes, reason, helpless, has_claims=has_claims)


def failed(error: object) -> Verdict:
    """The allocator aborted: a mistake in a selector, class or claim."""
    return Verdict("SchedulerError", f'running "DynamicResources" filter plugin: {error}')


def _fit_error(nodes: int, reasons: str, preemption: str, *, has_claims: bool) -> Verdict:
    available = f"0/{nodes} nodes are available:"
    claims = "still not schedulable" if has_claims else "no new claims to deallocate"
    return Verdict("Unschedulable", f"{available} {reasons}. {claims}, preemption: {available} {preemption}")


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))

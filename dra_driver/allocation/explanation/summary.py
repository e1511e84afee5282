"""Many nodes in few words: nodes that say the same, sums of what selectors kept, and the devices that come nearest."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dra_driver.allocation.explanation.model import (
    DeviceReport,
    Kind,
    Miss,
    NodeReport,
    RequestReport,
    SelectorCount,
)

_MAX_NEAREST = 3
_ONLY = {
    Kind.CONSTRAINT: "by a constraint",
    Kind.IN_USE: "by being in use",
    Kind.TAINT: "by a taint",
    Kind.COUNTER: "by counters that are used up",
    Kind.CAPACITY: "by capacity that is used up",
}


def grouped(reports: Iterable[NodeReport]) -> list[NodeReport]:
    """One report for all nodes that say the same, with the devices of the first; the nearest to fitting first."""
    groups: dict[Hashable, list[NodeReport]] = {}
    for report in reports:
        groups.setdefault(_content(report), []).append(report)
    merged = [
        replace(group[0], nodes=tuple(name for report in group for name in report.nodes))
        for group in groups.values()
    ]
    return sorted(merged, key=_distance)


def _content(report: NodeReport) -> Hashable:
    requests = tuple((one.claim, one.request, one.selectors, reasons(one)) for one in report.requests)
    return report.fits, report.error, report.obstacles, report.notes, requests


def reasons(report: RequestReport) -> tuple[tuple[str, int], ...]:
    """How many devices of a request have which reason; "" for those that it could have."""
    return tuple(Counter(one.text for one in report.devices).items())


def _distance(report: NodeReport) -> tuple[bool, bool, bool, int, tuple[str, ...]]:
    obstacles = bool(report.obstacles) and not report.requests
    return (
        not report.fits,
        obstacles,
        not any(one.devices for one in report.requests),
        report.missing,
        report.nodes[:1],
    )


def summed(reports: Iterable[NodeReport]) -> tuple[tuple[str, str, SelectorCount], ...]:
    """(claim, request, count) of every selector, over all nodes; `reports` are of single nodes."""
    sums: dict[tuple[str, str, str, int], SelectorCount] = {}
    for report in reports:
        for request in report.requests:
            for one in request.selectors:
                key = request.claim, request.request, one.owner, one.index
                known = sums.get(key)
                if known is None:
                    sums[key] = one
                else:
                    sums[key] = replace(
                        known,
                        kept=known.kept + one.kept,
                        of=known.of + one.of,
                        failed=known.failed + one.failed,
                    )
    return tuple((claim, request, count) for (claim, request, _, _), count in sums.items())


@dataclass(slots=True)
class _Near:
    """Devices that one condition, or one kind of reason, alone keeps out."""

    devices: int = 0
    best: DeviceReport | None = None
    miss: Miss | None = None
    shown: set[str] = field(default_factory=set)


def nearest(reports: Sequence[NodeReport]) -> tuple[str, ...]:
    """A sentence for each thing that alone keeps devices from a request; none where nothing does alone."""
    lines: list[str] = []
    for claim, request in dict.fromkeys(
        (one.claim, one.request) for report in reports for one in report.requests
    ):
        mine = [
            one
            for report in reports
            for one in report.requests
            if (one.claim, one.request) == (claim, request)
        ]
        if any(one.missing for one in mine):
            lines += (f"request {request}: {line}" for line in _nearest(mine))
    return tuple(dict.fromkeys(lines))


def _nearest(reports: Iterable[RequestReport]) -> Iterator[str]:
    by_condition: dict[str, _Near] = {}
    by_kind: Counter[Kind] = Counter()
    for report in reports:
        for device in report.devices:
            if len(device.blockers) != 1:
                continue
            (blocker,) = device.blockers
            if blocker.kind in _ONLY:
                by_kind[blocker.kind] += 1
            elif blocker.kind is Kind.SELECTOR and len(blocker.misses) == 1:
                _note(
                    by_condition.setdefault(blocker.misses[0].comparison, _Near()), device, blocker.misses[0]
                )
    for kind, number in by_kind.most_common():
        yield f"{number} device{'s are' if number > 1 else ' is'} kept out only {_ONLY[kind]}"
    for near in sorted(by_condition.values(), key=lambda near: -near.devices)[:_MAX_NEAREST]:
        assert near.best is not None
        assert near.miss is not None
        yield f"nearest is {near.best.device}: {near.miss.text}{_standing(near)}"


def _note(near: _Near, device: DeviceReport, miss: Miss) -> None:
    near.devices += 1
    near.shown.add(miss.shown)
    better = near.miss is None or (
        miss.best
        and (miss.amount > near.miss.amount if miss.best == "largest" else miss.amount < near.miss.amount)
    )
    if better:
        near.best, near.miss = device, miss


def _standing(near: _Near) -> str:
    assert near.miss is not None
    if near.devices == 1:
        return ""
    if near.miss.best:
        return f", the {near.miss.best} of {near.devices} devices that only this keeps out"
    return f"; {near.devices} devices are kept out by this alone"

"""A diagnosis in one sentence and one word: for an Event, where a user looks first, and for a metric.

The sentence says the nearest thing: of all that keeps devices away, what would have to change least. It holds nothing that
changes although the answer does not, such as times.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dra_driver.allocation.diagnosis.model import Diagnosis, Remark
from dra_driver.allocation.explanation import DeviceReport, Explanation, Kind, NodeReport, RequestReport

MAX_TEXT = 900  # characters; an Event takes 1024
_KINDS = {kind: number for number, kind in enumerate(Kind)}

SATISFIABLE = "satisfiable"
_PASSING = frozenset({Kind.TAINT, Kind.IN_USE, Kind.COUNTER, Kind.CONSTRAINT})
NO_NODES, NO_DEVICES, TOO_FEW, NODES_CLOSED, POOLS_UNUSABLE, TOGETHER = (
    "no-nodes",
    "no-devices",
    "too-few",
    "nodes-closed",
    "pools-unusable",
    "together",
)
REMARKS = (
    "claim-missing",
    "template-missing",
    "class-missing",
    "resource-unknown",
    "claim-deleted",
    "claim-of-another",
)
REASONS = (
    *REMARKS,
    *Kind,
    NO_NODES,
    NO_DEVICES,
    TOO_FEW,
    NODES_CLOSED,
    POOLS_UNUSABLE,
    TOGETHER,
    "other",
    SATISFIABLE,
)
"""All words there are, so that a metric can have a series for each."""


@dataclass(frozen=True, slots=True)
class Brief:
    """`reason` is one of REASONS, `text` a sentence without a full stop, "" where nothing is in the way."""

    reason: str
    text: str


def brief(diagnosis: Diagnosis) -> Brief:
    """The shortest true reason why a claim or Pod waits."""
    wrong = next((remark for remark in diagnosis.remarks if remark.code in REMARKS), None)
    if wrong is not None:
        return Brief(wrong.code, _cut(_with_fix(wrong)))
    explanation = diagnosis.explanation
    if explanation is None or explanation.satisfiable:
        return Brief(SATISFIABLE, "")
    reason, said = _reason(explanation)
    remedy = f"; what would do: {explanation.changes[0].text}" if explanation.changes else ""
    return Brief(reason, _cut(said + remedy))


def _with_fix(remark: Remark) -> str:
    return f"{remark.text}; {remark.fix}" if remark.fix else remark.text


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def _reason(explanation: Explanation) -> tuple[str, str]:
    if not explanation.nodes:
        return NO_NODES, "there are no nodes"
    failing = _failing(explanation)
    if failing is not None:
        return Kind.ERROR, failing
    if explanation.error is not None:
        return "other", f"the scheduler gives up: {_without_name(explanation, explanation.error)}"
    near = explanation.nodes[0]
    if not near.requests:
        return NODES_CLOSED, f"no node is open to it: {_counted(explanation.nodes)}"
    if near.obstacles:
        return POOLS_UNUSABLE, near.obstacles[0]
    if near.notes:
        constrained = Kind.CONSTRAINT in _kinds(near.requests)
        return (Kind.CONSTRAINT if constrained else TOGETHER), near.notes[0]
    missing = [request for request in near.requests if request.missing]
    for request in missing:
        most = _most_anywhere(explanation, request)
        if request.wanted is not None and 0 < most < request.wanted:
            said = f"request {request.request}: {request.wanted} devices wanted, and no node has more than {most}"
            return TOO_FEW, f"{said} that it could ever have"
    if not any(request.devices for report in explanation.nodes for request in report.requests):
        return NO_DEVICES, "none of the nodes that are open to it has a device"
    kind = max(_kinds(missing), key=_KINDS.__getitem__, default=None)
    if kind is None:
        return NO_DEVICES, "no node has a device that it asks for"
    return kind, explanation.nearest[0] if explanation.nearest else _most(missing)


def _without_name(explanation: Explanation, error: str) -> str:
    """The error without the name of the one claim that it can be about, which is known to whoever asks."""
    if len(explanation.claims) != 1:
        return error
    name = explanation.claims[0]
    return error.replace(f"claim {name}, ", "").replace(f"claim {name}: ", "")


def _failing(explanation: Explanation) -> str | None:
    """Where a selector fails on a device: one failure stops the scheduler, however many other nodes fit."""
    if explanation.error is None:
        return None
    for report in explanation.nodes:
        for request in report.requests:
            for device in request.devices:
                for blocker in device.blockers:
                    if blocker.kind is Kind.ERROR:
                        fix = f"; {blocker.fix}" if blocker.fix else ""
                        return f"request {request.request}: on {device.device} {blocker.text}{fix}"
    return None


def _counted(reports: Sequence[NodeReport]) -> str:
    """What keeps a Pod from nodes before any device is looked at."""
    counts: Counter[str] = Counter()
    for report in reports:
        for obstacle in report.obstacles:
            counts[obstacle] += len(report.nodes)
    return ", ".join(f"{number} {text}" for text, number in counts.most_common(3))


def _kinds(requests: Sequence[RequestReport]) -> Iterator[Kind]:
    for request in requests:
        for device in request.devices:
            if device.reason is not None:
                yield device.reason.kind


def _most_anywhere(explanation: Explanation, request: RequestReport) -> int:
    """How many devices the request could have on the best node, were none in use or tainted."""
    return max(
        sum(all(blocker.kind in _PASSING for blocker in device.blockers) for device in one.devices)
        for report in explanation.nodes
        for one in report.requests
        if (one.claim, one.request) == (request.claim, request.request)
    )


def _most(requests: Sequence[RequestReport]) -> str:
    """Where no single thing keeps a device away: what the devices of the nearest node say, the commonest first."""
    request = requests[0]
    said = Counter(device.text for device in request.devices if device.text)
    (text, number), *_ = said.most_common(1)
    nearest: DeviceReport = next(device for device in request.devices if device.text == text)
    return (
        f"request {request.request}: {number} of {len(request.devices)} devices like {nearest.device}: {text}"
    )

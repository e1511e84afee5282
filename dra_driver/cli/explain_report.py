"""An explanation for people: the verdict first, then why, then what to do."""

from collections.abc import Iterator, Sequence

from dra_driver.allocation.diagnosis import ClaimState, Diagnosis
from dra_driver.allocation.explanation import DeviceReport, Explanation, NodeReport, RequestReport
from dra_driver.cli.table import Layout

_KINDS = {"pod": "Pod", "claim": "ResourceClaim", "template": "ResourceClaimTemplate"}
_MAX_GROUPS = 20  # of nodes that say the same
_MAX_REASONS = 12  # of one request on one node
_MAX_NAMES = 3
_MAX_EXPRESSION = 100


def report(diagnosis: Diagnosis, layout: Layout) -> str:
    """All that is known, as text that ends in a newline."""
    parts = [f"{_KINDS[diagnosis.kind]} {diagnosis.name} {diagnosis.summary}"]
    if diagnosis.remarks:
        parts.append("\n".join(_remarks(diagnosis)))
    if diagnosis.claims:
        parts.append(_claims(diagnosis.claims, layout))
    if diagnosis.explanation is not None:
        parts += _explanation(diagnosis.explanation, layout)
    return "\n\n".join(parts) + "\n"


def _remarks(diagnosis: Diagnosis) -> Iterator[str]:
    for remark in diagnosis.remarks:
        yield f"{remark.severity}: {remark.text}"
        if remark.fix is not None:
            yield f"    {remark.fix}"


def _claims(claims: Sequence[ClaimState], layout: Layout) -> str:
    header = ("CLAIM", "STATE", "NODE", "PODS", "REQUEST", "DEVICE", "MODEL", "UUID")
    rows: list[tuple[str, ...]] = []
    for claim in claims:
        place = (claim.name, claim.state, claim.node, ", ".join(claim.pods[:_MAX_NAMES]))
        rows += ((*place, one.request, one.device, one.product, one.uuid) for one in claim.devices)
        if not claim.devices:
            rows.append((*place, "", "", "", ""))
    columns = len(header) if any(claim.devices for claim in claims) else 4
    return layout(header[:columns], [row[:columns] for row in rows])


def _explanation(explanation: Explanation, layout: Layout) -> Iterator[str]:
    if explanation.error:
        yield f"The scheduler says: {explanation.error}"
    if explanation.satisfiable:
        return
    if explanation.selectors:
        yield _selectors(explanation, layout)
    if explanation.nodes:
        yield _nodes(explanation.nodes, layout)
    if explanation.nearest:
        yield "\n".join(explanation.nearest)
    if explanation.changes:
        yield "\n".join(["Each of these would do, and has been tried:", *_changes(explanation)])
    elif explanation.nodes and any(node.requests for node in explanation.nodes):
        yield "No single change would do."


def _selectors(explanation: Explanation, layout: Layout) -> str:
    rows = []
    for _, request, count in explanation.selectors:
        kept = f"{count.kept} of {count.of}" + (f", fails on {count.failed}" if count.failed else "")
        rows.append((request, f"{count.owner}, selector {count.index}", kept, _short(count.expression)))
    return layout(("REQUEST", "SELECTOR", "KEEPS", "EXPRESSION"), rows)


def _short(expression: str) -> str:
    line = " ".join(expression.split())
    return line if len(line) <= _MAX_EXPRESSION else f"{line[: _MAX_EXPRESSION - 3]}..."


def _nodes(nodes: Sequence[NodeReport], layout: Layout) -> str:
    rows: list[tuple[str, ...]] = []
    for node in nodes[:_MAX_GROUPS]:
        lines = list(_lines(node)) or [("", "", "")]
        names = _named(node.nodes)
        rows += ((names if index == 0 else " ", *line) for index, line in enumerate(lines))
    left = sum(len(node.nodes) for node in nodes[_MAX_GROUPS:])
    if left:
        rows.append((f"{left} more", " ", " ", "-o json has them all"))
    return layout(("NODE", "REQUEST", "DEVICES", "WHY"), rows)


def _lines(node: NodeReport) -> Iterator[tuple[str, str, str]]:
    if node.fits:
        yield " ", " ", "fits"
    for text in (*node.obstacles, *node.notes):
        yield " ", " ", text
    for request in node.requests:
        yield from _reasons(request)


def _reasons(request: RequestReport) -> Iterator[tuple[str, str, str]]:
    wanted = "all" if request.wanted is None else str(request.wanted)
    if not request.devices:
        yield request.request, "0", f"{wanted} wanted, and the node has no devices"
        return
    groups: dict[str, list[DeviceReport]] = {}
    fixes: dict[str, str] = {}
    for device in request.devices:
        reason = device.reason
        text = device.text or f"could be had ({wanted} wanted)"
        groups.setdefault(text, []).append(device)
        if reason is not None and reason.fix:
            fixes[text] = reason.fix
    for index, (text, devices) in enumerate(groups.items()):
        name = request.request if index == 0 else " "
        if index == _MAX_REASONS:
            yield (
                name,
                str(sum(map(len, list(groups.values())[index:]))),
                "other reasons: -o json has them all",
            )
            return
        yield name, f"{len(devices)}: {_named([one.device.device for one in devices])}", text
        if text in fixes:
            yield " ", " ", f"    {fixes[text]}"


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return f"{shown} and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else shown


def _changes(explanation: Explanation) -> Iterator[str]:
    for number, change in enumerate(explanation.changes, 1):
        yield f"  {number}. {change.text} (fits on {change.node})"
        if change.after is not None:
            yield f"     {change.after}"

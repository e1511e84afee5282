"""A simulation for people, and as data."""

from collections.abc import Iterator, Sequence
from typing import Any

from dra_driver.allocation.simulation import Outcome, Step, Usage
from dra_driver.cli.explain_json import as_dict, claim_as_dict
from dra_driver.cli.explain_report import report as explanation
from dra_driver.cli.table import Layout
from dra_driver.quantity import Quantity

Object = dict[str, Any]


def report(outcome: Outcome, layout: Layout) -> str:
    """Who gets what in which order, what waits and why, and what is left."""
    parts = [_steps(outcome.steps, layout)] if outcome.steps else ["There is nothing to place."]
    for waiting in outcome.waiting:
        others = f" ({len(waiting.names) - 1} more ask for the same)" if len(waiting.names) > 1 else ""
        text = explanation(waiting.diagnosis, layout).rstrip("\n")
        first, _, rest = text.partition("\n")
        parts.append(f"{first}{others}\n{rest}".rstrip("\n"))
    if outcome.usage:
        parts.append(_usage(outcome.usage, layout))
    return "\n\n".join(parts) + "\n"


def _steps(steps: Sequence[Step], layout: Layout) -> str:
    rows = [row for number, step in enumerate(steps, 1) for row in _rows(number, step)]
    return layout(("#", "POD", "NODE", "CLAIM", "REQUEST", "DEVICE", "MODEL"), rows)


def _rows(number: int, step: Step) -> Iterator[tuple[str, ...]]:
    name = step.name if step.kind == "pod" else f"(claim {step.name})"
    if step.node is None:
        yield str(number), name, "pending", "", "", "", ""
        return
    found = [(claim.name.partition("/")[2], device) for claim in step.claims for device in claim.devices]
    if not found:
        yield str(number), name, step.node, "", "", "", ""
    for index, (claim, device) in enumerate(found):
        start = (str(number), name, step.node) if index == 0 else (" ", " ", " ")
        yield (*start, claim, device.request, device.device, device.product or device.driver)


def _usage(usage: Sequence[Usage], layout: Layout) -> str:
    rows = []
    for one in usage:
        share = f"{100 * one.used / one.devices:.0f}%"
        scattered = f"{100 * one.fragmentation:.0f}%" if one.free else ""
        left = "" if one.left is None else f"{_bytes(one.left)} of {_bytes(one.memory or 0)}"
        numbers = (str(one.nodes), str(one.devices), f"{one.used} ({share})", str(one.free))
        rows.append((one.model, *numbers, str(one.most_on_one_node), scattered, left))
    header = (
        "MODEL",
        "NODES",
        "DEVICES",
        "USED",
        "FREE",
        "MOST FREE ON A NODE",
        "FRAGMENTATION",
        "SHARED MEMORY LEFT",
    )
    columns = len(header) if any(one.left is not None for one in usage) else len(header) - 1
    return layout(header[:columns], [row[:columns] for row in rows])


def _bytes(amount: int) -> str:
    return str(Quantity.of_bytes(amount))


def outcome_as_dict(outcome: Outcome) -> Object:
    """All of it as data."""
    return {
        "complete": outcome.complete,
        "steps": [
            {
                "kind": step.kind,
                "name": step.name,
                "node": step.node,
                "claims": [claim_as_dict(claim) for claim in step.claims],
            }
            for step in outcome.steps
        ],
        "waiting": [{"names": list(one.names), **as_dict(one.diagnosis)} for one in outcome.waiting],
        "usage": [
            {
                "model": one.model,
                "nodes": one.nodes,
                "devices": one.devices,
                "used": one.used,
                "free": one.free,
                "mostFreeOnOneNode": one.most_on_one_node,
                "fragmentation": round(one.fragmentation, 3),
                **({} if one.left is None else {"sharedBytesLeft": one.left, "sharedBytes": one.memory}),
            }
            for one in outcome.usage
        ],
    }

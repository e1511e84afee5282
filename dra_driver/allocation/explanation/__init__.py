"""Why claims get their devices, or do not: per node, per request, per device, and the change that would help.

    explain(Scene.of(slices, classes, allocated), claims, nodes) -> Explanation

Pure, and true to the allocator: whether claims fit is asked of it, and so is every change that is proposed.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dra_driver.allocation.allocator import TIMEOUT
from dra_driver.allocation.explanation.changes import changes
from dra_driver.allocation.explanation.model import (
    Blocker,
    Change,
    DeviceReport,
    Explanation,
    Holder,
    Kind,
    NodeReport,
    RequestReport,
    SelectorCount,
)
from dra_driver.allocation.explanation.nodes import explain_node
from dra_driver.allocation.explanation.scene import Scene, name_of
from dra_driver.allocation.explanation.summary import grouped, nearest, reasons, summed

__all__ = [
    "Blocker",
    "Change",
    "DeviceReport",
    "Explanation",
    "Holder",
    "Kind",
    "NodeReport",
    "RequestReport",
    "Scene",
    "SelectorCount",
    "explain",
    "reasons",
]

_TOTAL_SECONDS = 3 * TIMEOUT
_LEAST_SECONDS = 0.02  # a node gets in any case; most need a hundredth of it


def explain(
    scene: Scene,
    claims: Sequence[Mapping[str, Any]],
    nodes: Sequence[Mapping[str, Any]],
    *,
    obstacles: Mapping[str, str] | None = None,
) -> Explanation:
    """What the nodes say to claims that are to be allocated together.

    `obstacles` are, by node name, what keeps the claims' Pod from a node before any device is looked at. A claim that
    the allocator cannot decide about in time costs its ten seconds on three nodes, and next to none on the others.
    """
    barred = obstacles or {}
    end = time.monotonic() + _TOTAL_SECONDS
    reports = [
        explain_node(
            scene,
            claims,
            node,
            obstacle=barred.get(str(node["metadata"]["name"])),
            timeout=min(TIMEOUT, max(_LEAST_SECONDS, end - time.monotonic())),
        )
        for node in nodes
    ]
    groups = grouped(reports)
    satisfiable = any(group.fits for group in groups) and not any(group.error for group in groups)
    explanation = Explanation(
        tuple(name_of(claim) for claim in claims),
        tuple(groups),
        summed(reports),
        () if satisfiable else nearest(reports),
        () if satisfiable else changes(scene, claims, nodes, groups),
    )
    while reports:  # one by one: those of 5,000 nodes, freed at once, would keep all other threads waiting
        reports.pop()
    return explanation

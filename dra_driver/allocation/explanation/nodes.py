"""One node: whether the claims fit there, and what of each request does not."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_driver.allocation.allocator import TIMEOUT
from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.explanation.devices import Inspection
from dra_driver.allocation.explanation.model import NodeReport, RequestReport
from dra_driver.allocation.explanation.scene import Scene, alternatives_of
from dra_driver.allocation.explanation.together import competing, constrained
from dra_driver.allocation.model import Device, DeviceId, Pool
from dra_driver.allocation.needs import Candidate, usable
from dra_driver.allocation.nodes import node_name, selects
from dra_driver.allocation.requests import Claim, Request
from dra_driver.allocation.search import Search
from dra_driver.allocation.state import CounterLedger

Object = Mapping[str, Any]


def explain_node(
    scene: Scene,
    claims: Sequence[Object],
    node: Object,
    *,
    obstacle: str | None = None,
    timeout: float = TIMEOUT,
) -> NodeReport:
    """What the node says to the claims; `obstacle` is what keeps their Pod from it before any device is looked at.

    `timeout` is in seconds.
    """
    snapshot = scene.snapshot
    pools: list[Pool] = []
    wanted = [Claim(claim) for claim in claims]
    fits, error = False, None
    try:
        pools = snapshot.slices.pools(node)
        if obstacle is None:
            deadline = time.monotonic() + timeout
            search = Search(
                wanted, snapshot.classes, node, pools, snapshot.allocated, snapshot.matcher, deadline
            )
            fits = search.run() is not None
    except AllocationError as failed:
        error = str(failed)
    name = (node_name(node),)
    if fits or obstacle is not None:
        return NodeReport(name, fits, obstacles=() if obstacle is None else (obstacle,))
    candidates = [one for one in usable(pools) if _is_for(one, node)]
    devices = {one.device.id: one.device for one in candidates}
    reports, notes = _requests(scene, wanted, candidates, devices)
    if not error and not notes and not any(report.missing for report in reports):
        notes = [competing(wanted, reports) or "each request finds devices, but not all of them together"]
    return NodeReport(name, fits, error, tuple(_troubles(pools)), tuple(notes), tuple(reports))


def _is_for(candidate: Candidate, node: Object) -> bool:
    return not candidate.part.spec.get("perDeviceNodeSelection") or selects(candidate.device.raw, node)


def _requests(
    scene: Scene, claims: Sequence[Claim], candidates: Sequence[Candidate], devices: Mapping[DeviceId, Device]
) -> tuple[list[RequestReport], list[str]]:
    ledger = CounterLedger(scene.snapshot.allocated)
    reports: list[RequestReport] = []
    notes: list[str] = []
    for claim in claims:
        found = [
            _request(scene, claim, request, candidates, ledger)
            for alternatives in alternatives_of(claim)
            for request in alternatives
            if request.class_name in scene.snapshot.classes
        ]
        limited, said = constrained(claim, found, devices)
        reports += limited
        notes += said
    return reports, notes


def _request(
    scene: Scene, claim: Claim, request: Request, candidates: Sequence[Candidate], ledger: CounterLedger
) -> RequestReport:
    inspection = Inspection(scene, request, scene.snapshot.classes[request.class_name], ledger)
    reports = tuple(inspection.look_at(candidate) for candidate in candidates)
    return RequestReport(
        claim.name,
        request.full_name,
        request.class_name,
        None if request.wants_all else request.count,
        reports,
        inspection.counts,
        request.admin_access,
    )


def _troubles(pools: Sequence[Pool]) -> Iterator[str]:
    for pool in pools:
        if pool.incomplete:
            there, expected = len(pool.all_slices), pool.slices[0].expected_slices
            yield (
                f"pool {pool.id} is incomplete: {there} of {expected} slices of generation"
                f" {pool.slices[0].generation} are there; none of its devices can be had until its driver"
                " has published the others"
            )
        elif pool.invalid is not None:
            yield f"pool {pool.id} is invalid: {pool.invalid}; none of its devices can be had"

"""A Pod: what it names and is not there, where its claims tie it to, and what the nodes say."""

from collections.abc import Iterator, Mapping, Sequence

from dra_driver.allocation import placement
from dra_driver.allocation.diagnosis.claims import remarks_on, state_of, without_counters
from dra_driver.allocation.diagnosis.model import Diagnosis, Remark
from dra_driver.allocation.diagnosis.podclaims import POD_CLAIM_NAME, PodClaims, claims_of
from dra_driver.allocation.diagnosis.preparation import preparation
from dra_driver.allocation.diagnosis.references import missing_classes
from dra_driver.allocation.diagnosis.words import verdict
from dra_driver.allocation.diagnosis.world import Object, World, namespace_of
from dra_driver.allocation.explanation import Explanation, NodeReport, explain
from dra_driver.allocation.explanation.scene import name_of, results_of
from dra_driver.allocation.extended import ExtendedResources
from dra_driver.allocation.nodes import matches, node_name

_SCHEDULER = "default-scheduler"


def diagnose_pod(world: World, pod: Object) -> Diagnosis:
    """Why the Pod waits, or where its devices are."""
    needs = claims_of(world, pod)
    remarks = [*needs.remarks, *missing_classes(world, needs.pending)]
    remarks += (remark for claim in needs.claims for remark in _remarks_on(world, pod, claim))
    states = tuple(state_of(world, claim) for claim in needs.claims)
    name, explanation = name_of(pod), None
    if pod["spec"].get("nodeName"):
        remarks += preparation(pod, needs.claims, world.events) if needs.claims else ()
        summary = f"is on node {pod['spec']['nodeName']}"
    elif not needs.claims and not needs.remarks:
        remarks += _unknown_resources(world, needs.extended)
        summary = "asks for no devices" if not remarks else "asks for devices that no class stands for"
    else:
        remarks += _held_up(pod)
        if not needs.remarks and not any(remark.code == "class-missing" for remark in remarks):
            remarks += _unknown_resources(world, needs.extended)
            explanation = _explained(world, pod, needs)
            remarks += without_counters(world)
            remarks += _sharing(world, needs.pending, explanation)
            remarks += outranked(world.pod, pod, explanation)
        summary = _summary(remarks, explanation)
    return Diagnosis("pod", name, summary, tuple(remarks), states, explanation)


def _remarks_on(world: World, pod: Object, claim: Object) -> Iterator[Remark]:
    """What is odd about a claim, for a Pod that may be about to use it."""
    waiting = not pod["spec"].get("nodeName")
    return (one for one in remarks_on(world, claim) if not (waiting and one.code == "not-reserved"))


def _held_up(pod: Object) -> Iterator[Remark]:
    gates = [str(gate.get("name")) for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        yield Remark(
            "gated", "error", f"it is not looked at before its scheduling gates are gone: {', '.join(gates)}"
        )
    scheduler = pod["spec"].get("schedulerName") or _SCHEDULER
    if scheduler != _SCHEDULER:
        yield Remark(
            "other-scheduler", "info", f"scheduler {scheduler} decides about it, perhaps by other rules"
        )


def _unknown_resources(world: World, resources: ExtendedResources) -> Iterator[Remark]:
    offered = {name for node in world.nodes for name in (node.get("status") or {}).get("allocatable") or {}}
    for name in resources.unknown:
        if name not in offered:
            text = f"no DeviceClass stands for the extended resource {name}, and no node offers it"
            fix = f"set extendedResourceName: {name} in a DeviceClass"
            yield Remark("resource-unknown", "error", text, fix)


def _explained(world: World, pod: Object, needs: PodClaims) -> Explanation:
    obstacles = {
        node_name(node): reason for node in world.nodes if (reason := _obstacle(pod, node, needs)) is not None
    }
    if needs.pending:
        return explain(world.scene, needs.pending, world.nodes, obstacles=obstacles)
    reports = tuple(
        NodeReport(
            (name,), fits=name not in obstacles, obstacles=(obstacles[name],) if name in obstacles else ()
        )
        for name in map(node_name, world.nodes)
    )
    return Explanation((), reports, ())


def _obstacle(pod: Object, node: Object, needs: PodClaims) -> str | None:
    """What keeps the Pod from a node before any device is looked at."""
    reason = placement.objection(pod, node) or placement.lacking(needs.extended.unknown, node)
    if reason is not None:
        return reason
    for claim in needs.allocated:
        selector = claim["status"]["allocation"].get("nodeSelector")
        if selector is not None and not matches(selector, node):
            devices = ", ".join(dict.fromkeys(str(result["pool"]) for result in results_of(claim)))
            return f"claim {name_of(claim)} has its devices elsewhere (pool {devices})"
    return None


def _sharing(world: World, pending: Sequence[Object], explanation: Explanation) -> Iterator[Remark]:
    """Where Pods of one template hold what the next one lacks: each of them has devices of its own."""
    if explanation.satisfiable:
        return
    holders = {
        holder.claim
        for node in explanation.nodes
        for request in node.requests
        for device in request.devices
        for blocker in device.blockers
        for holder in blocker.holders
    }
    for claim in pending:
        annotation = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME)
        siblings = [
            name
            for name in sorted(holders)
            if annotation
            and (found := world.claim.get(name)) is not None
            and _alike(found, claim, annotation)
        ]
        if siblings:
            text = (
                f"a template makes a claim for each Pod, so each has devices of its own: {len(siblings)} other"
                f" {'claims' if len(siblings) > 1 else 'claim'} of this template"
                f" {'hold' if len(siblings) > 1 else 'holds'} devices; settings such as time slicing do not change that"
            )
            fix = (
                "to share devices, name one ResourceClaim in all Pods (resourceClaimName), or ask for devices that"
                " allow multiple allocations"
            )
            yield Remark("claim-per-pod", "info", text, fix)


def _alike(holder: Object, claim: Object, annotation: str) -> bool:
    named = (holder["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME) == annotation
    return named and namespace_of(holder) == namespace_of(claim) and holder["spec"] == claim["spec"]


def outranked(pods: Mapping[str, Object], pod: Object, explanation: Explanation) -> Iterator[Remark]:
    """Those of `pods` (by namespace/name) that hold what the Pod lacks, and have a lower priority.

    For cpu they would be evicted; for devices they are not.
    """
    mine = _priority(pod)
    if explanation.satisfiable:
        return
    lower = {
        name: _priority(pods[name])
        for name in dict.fromkeys(Diagnosis("pod", "", "", explanation=explanation).holders())
        if name in pods and _priority(pods[name]) < mine
    }
    if lower:
        shown = ", ".join(f"{name} ({priority})" for name, priority in list(lower.items())[:5])
        text = (
            f"Pods of lower priority than {mine} hold devices that this one could have: {shown}; the scheduler"
            " does not preempt them for devices"
        )
        yield Remark("no-preemption", "info", text, "delete one of them")


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def _summary(remarks: Sequence[Remark], explanation: Explanation | None) -> str:
    if explanation is None or any(remark.severity == "error" for remark in remarks):
        return "cannot be scheduled"
    return verdict("scheduled", explanation)

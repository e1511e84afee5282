"""A claim by itself, or a template as the claim that it makes: as if a Pod of its own used it."""

from collections.abc import Iterator
from typing import Literal

from dra_driver.allocation.diagnosis.claims import remarks_on, state_of, without_counters
from dra_driver.allocation.diagnosis.model import Diagnosis, Remark
from dra_driver.allocation.diagnosis.references import missing_classes
from dra_driver.allocation.diagnosis.words import verdict
from dra_driver.allocation.diagnosis.world import Object, World, is_allocated, namespace_of
from dra_driver.allocation.explanation import explain
from dra_driver.allocation.explanation.scene import name_of


def diagnose_claim(world: World, claim: Object) -> Diagnosis:
    """Where the claim's devices are, or why it would not get any. Nodes are taken as open to its Pods."""
    state, remarks = state_of(world, claim), list(remarks_on(world, claim))
    if is_allocated(claim):
        where = f" on {state.node}" if state.node else ""
        return Diagnosis("claim", name_of(claim), f"is {state.state}{where}", tuple(remarks), (state,))
    remarks += _users(world, claim)
    return _unallocated(world, claim, "claim", remarks)


def diagnose_template(world: World, template: Object) -> Diagnosis:
    """Whether a claim made from the template would get devices."""
    claim = {"metadata": template["metadata"], "spec": template["spec"]["spec"]}
    return _unallocated(world, claim, "template", list(remarks_on(world, claim)))


def _unallocated(
    world: World, claim: Object, kind: Literal["claim", "template"], remarks: list[Remark]
) -> Diagnosis:
    states = (state_of(world, claim),) if kind == "claim" else ()
    missing = list(missing_classes(world, [claim]))
    if missing:
        return Diagnosis(kind, name_of(claim), "cannot be allocated", (*remarks, *missing), states)
    explanation = explain(world.scene, [claim], world.nodes)
    remarks += without_counters(world)
    return Diagnosis(
        kind, name_of(claim), verdict("allocated", explanation), tuple(remarks), states, explanation
    )


def _users(world: World, claim: Object) -> Iterator[Remark]:
    """Who waits for the claim: without a Pod, nothing is ever allocated."""
    name, namespace = claim["metadata"]["name"], namespace_of(claim)
    pods = [
        name_of(pod)
        for pod in world.pods
        if namespace_of(pod) == namespace and any(used == name for used in _claims_named(pod))
    ]
    if pods:
        yield Remark(
            "waited-for",
            "info",
            f"Pods that use it: {', '.join(pods[:5])}",
            f"dra-driver explain pod {pods[0].partition('/')[2]} -n {namespace}",
        )
    elif not claim["metadata"].get("ownerReferences"):
        text = "no Pod uses it; a claim gets its devices when a Pod that names it is scheduled"
        yield Remark("unused", "info", text)


def _claims_named(pod: Object) -> Iterator[str]:
    for entry in pod["spec"].get("resourceClaims") or ():
        yield str(entry.get("resourceClaimName"))
    for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        yield str(status.get("resourceClaimName"))

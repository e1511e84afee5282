"""Who waits for devices of this driver, and which of them ask the same question.

A Deployment's hundred Pods wait for the same reason, and working it out takes seconds in a large cluster: so subjects
that differ in nothing but their names share a question. Where a name is part of the answer (a class or template that is
missing) there is nothing to work out, and each asks its own.

A Pod is looked at once the scheduler has had its turn, else a Pod that is about to start would be called unsatisfiable.
One that names what is not there is never looked at by the scheduler, so of that it is told at once.
"""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from dra_driver.allocation.diagnosis import Diagnosis, World, diagnose_claim, diagnose_pod
from dra_driver.allocation.diagnosis.podclaims import PodClaims, claims_of
from dra_driver.allocation.diagnosis.references import missing_classes
from dra_driver.allocation.diagnosis.world import is_allocated
from dra_driver.allocation.explanation.scene import name_of
from dra_driver.controller.explainer.ours import Ours
from dra_driver.kube.events import Reference

log = structlog.get_logger(__name__)

Object = Mapping[str, Any]

_PLACEMENT = ("nodeSelector", "affinity", "tolerations")


@dataclass(frozen=True, slots=True)
class Subject:
    """A Pod or claim that waits. Subjects with equal questions have equal answers."""

    about: Reference
    question: Hashable
    ask: Callable[[World], Diagnosis]


def subjects(world: World, ours: Ours) -> Iterator[Subject]:
    """Everybody who waits for devices of the driver, Pods first."""
    waiting: dict[str, Subject] = {}  # by the Pod's uid
    for pod in world.pods:
        try:
            found = _pod(world, ours, pod)
        except Exception:  # a Pod that nobody thought of must not keep all others without an answer
            log.exception("not explained", kind="Pod", object=name_of(pod))
            continue
        if found is not None:
            waiting[str(pod["metadata"].get("uid"))] = found
    yield from waiting.values()
    for claim in world.claims:
        if is_allocated(claim) or claim["metadata"].get("deletionTimestamp") or not ours.wanted_by(claim):
            continue
        owner = next(iter(claim["metadata"].get("ownerReferences") or ()), None)
        if owner is None:
            yield _claim(world, claim)
        elif (pod_subject := waiting.get(str(owner.get("uid")))) is not None:
            # A claim that was made for a Pod waits for what the Pod waits for.
            yield Subject(Reference.to(claim), pod_subject.question, pod_subject.ask)


def _pod(world: World, ours: Ours, pod: Object) -> Subject | None:
    if pod["metadata"].get("deletionTimestamp") or pod["spec"].get("schedulingGates"):
        return None
    needs = claims_of(world, pod)
    if not (_is_refused(pod) or needs.remarks) or not _concerns(ours, needs):
        return None
    return Subject(Reference.to(pod), _question(world, pod, needs), lambda now: diagnose_pod(now, pod))


def _is_refused(pod: Object) -> bool:
    """Whether the scheduler has looked at the Pod in vain."""
    return any(
        one["type"] == "PodScheduled" and one["status"] == "False"
        for one in (pod.get("status") or {}).get("conditions") or ()
    )


def _concerns(ours: Ours, needs: PodClaims) -> bool:
    """Where something that is named is missing, it may have been for us: said unless the rest is for others."""
    if any(ours.wanted_by(claim) for claim in needs.claims):
        return True
    return not needs.claims and (
        bool(needs.remarks) or any(ours.is_resource(name) for name in needs.extended.unknown)
    )


def _question(world: World, pod: Object, needs: PodClaims) -> Hashable:
    going = any(claim["metadata"].get("deletionTimestamp") for claim in needs.claims)
    if needs.remarks or not needs.claims or going or any(missing_classes(world, needs.pending)):
        return str(pod["metadata"].get("uid"))
    names = tuple(claim["metadata"]["name"] for claim in needs.claims) if len(needs.claims) > 1 else ()
    return (
        names,
        _text({name: pod["spec"].get(name) for name in _PLACEMENT}),
        tuple(_text(claim["spec"]) for claim in needs.pending),
        tuple(_text(claim["status"]["allocation"].get("nodeSelector")) for claim in needs.allocated),
        tuple(needs.extended.unknown),
    )


def _claim(world: World, claim: Object) -> Subject:
    missing = any(missing_classes(world, [claim]))
    question = str(claim["metadata"].get("uid")) if missing else _text(claim["spec"])
    return Subject(Reference.to(claim), question, lambda now: diagnose_claim(now, claim))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

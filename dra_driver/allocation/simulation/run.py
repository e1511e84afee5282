"""The scheduler's loop without a cluster: one Pod after the other, each on the node that has the fewest Pods.

What a Pod gets is decided by the allocator, as in a cluster; which of several nodes it goes to is a matter of taste
there (scores, and chance among equals), so here it is simple and always the same, or by chance from a seed. As in
kube-scheduler, an error on any node that is looked at keeps the Pod from all of them.
"""

import copy
import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dra_driver.allocation import placement
from dra_driver.allocation.diagnosis import Diagnosis, World, diagnose_claim, diagnose_pod
from dra_driver.allocation.diagnosis.claims import state_of
from dra_driver.allocation.diagnosis.podclaims import PodClaims, claims_of
from dra_driver.allocation.diagnosis.references import missing_classes
from dra_driver.allocation.diagnosis.world import Object, is_allocated, namespace_of
from dra_driver.allocation.errors import AllocationError, NodeError
from dra_driver.allocation.explanation.scene import name_of
from dra_driver.allocation.nodes import matches, node_name
from dra_driver.allocation.simulation.failing import may_fail
from dra_driver.allocation.simulation.model import Outcome, Step, Waiting
from dra_driver.allocation.simulation.usage import usage

_FINISHED = frozenset({"Succeeded", "Failed"})


def simulate(world: World, *, seed: int | None = None) -> Outcome:
    """Place the Pods of `world` that have no node, by priority, then in their order; then claims that none uses.

    With a seed, Pods of one priority come in an order of chance, and so do nodes with equally many Pods.
    """
    return _Run(world, seed).outcome()


class _Run:
    def __init__(self, world: World, seed: int | None) -> None:
        self._world = world
        self._chance = None if seed is None else random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self._claims: dict[str, Object] = {name_of(claim): claim for claim in world.claims}
        self._load = Counter(str(pod["spec"]["nodeName"]) for pod in world.pods if _runs(pod))
        self._steps: list[Step] = []
        self._pending: list[Object] = []
        self._fragile: dict[str, bool] = {}

    def outcome(self) -> Outcome:
        waiting = [pod for pod in self._world.pods if _waits(pod)]
        self._shuffle(waiting)
        for pod in sorted(waiting, key=lambda pod: -int(pod["spec"].get("priority") or 0)):
            self._pod(pod)
        unused = [claim for claim in self._unused() if not self._claim(claim)]
        world = self._now()
        groups = [
            *self._grouped(world),
            *(Waiting((name_of(one),), diagnose_claim(world, one)) for one in unused),
        ]
        return Outcome(tuple(self._steps), tuple(groups), usage(world))

    def _shuffle(self, items: list[Object]) -> None:
        if self._chance is not None:
            self._chance.shuffle(items)

    def _now(self) -> World:
        return self._world.with_claims(list(self._claims.values()))

    def _pod(self, pod: Object) -> None:
        world = self._now()
        needs = claims_of(world, pod)
        stuck = bool(needs.remarks) or bool(pod["spec"].get("schedulingGates"))
        if stuck or next(missing_classes(world, needs.pending), None) is not None:
            found = None
        else:
            found = self._place(world, pod, needs)
        if found is None:
            self._pending.append(pod)
            self._steps.append(Step("pod", name_of(pod), None))
            return
        node, results = found
        self._load[node] += 1
        for claim, result in zip(needs.pending, results, strict=True):
            self._store(claim, result, pod)
        for claim in needs.allocated:
            self._store(claim, None, pod)
        self._record("pod", name_of(pod), node, needs.claims)

    def _record(self, kind: str, name: str, node: str, claims: Iterable[Object]) -> None:
        world = self._now()
        states = tuple(state_of(world, self._claims[name_of(claim)]) for claim in claims)
        self._steps.append(Step(kind, name, node, states))

    def _store(self, claim: Object, result: Object | None, pod: Object | None) -> None:
        """The claim with its allocation, and reserved for the Pod."""
        status: dict[str, Any] = copy.deepcopy(dict(claim.get("status") or {}))
        if result is not None:
            status["allocation"] = result
        users = status.setdefault("reservedFor", [])
        if pod is not None and all(one.get("name") != pod["metadata"]["name"] for one in users):
            users.append(
                {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"].get("uid", "")}
            )
        self._claims[name_of(claim)] = {**claim, "status": status}

    def _place(self, world: World, pod: Object, needs: PodClaims) -> tuple[str, Sequence[Object]] | None:
        """The first node that has what the Pod needs, with what its pending claims get there."""
        nodes = [node for node in self._ordered() if _is_open(pod, node, needs)]
        return self._first_fit(world, needs.pending, nodes)

    def _ordered(self) -> list[Object]:
        nodes = sorted(self._world.nodes, key=node_name)
        self._shuffle(nodes)
        return sorted(nodes, key=lambda node: self._load[node_name(node)])

    def _first_fit(
        self, world: World, claims: Sequence[Object], nodes: Sequence[Object]
    ) -> tuple[str, Sequence[Object]] | None:
        found: tuple[str, Sequence[Object]] | None = None
        fragile = any(self._may_fail(world, claim) for claim in claims)
        for node in nodes:
            try:
                results = world.scene.snapshot.allocate(claims, node=node) if claims else []
            except NodeError:
                continue
            except AllocationError:
                return None
            if results is not None and found is None:
                found = node_name(node), results
            if found is not None and not fragile:
                break
        return found

    def _may_fail(self, world: World, claim: Object) -> bool:
        """Whether a selector of the claim fails on some device; then all nodes have to be looked at."""
        key = json.dumps(claim["spec"].get("devices") or {}, sort_keys=True)
        if key not in self._fragile:
            self._fragile[key] = may_fail(world, claim)
        return self._fragile[key]

    def _unused(self) -> list[Object]:
        """Claims without devices that no Pod asks for: tried as if a Pod of its own used each."""
        used = {
            f"{namespace_of(pod)}/{entry.get('resourceClaimName')}"
            for pod in self._world.pods
            for entry in (
                *(pod["spec"].get("resourceClaims") or ()),
                *((pod.get("status") or {}).get("resourceClaimStatuses") or ()),
            )
        }
        return [
            claim
            for name, claim in self._claims.items()
            if name not in used and not is_allocated(claim) and not claim["metadata"].get("ownerReferences")
        ]

    def _claim(self, claim: Object) -> bool:
        world = self._now()
        found = None
        if next(missing_classes(world, [claim]), None) is None:
            nodes = [node for node in self._ordered() if not (node.get("spec") or {}).get("unschedulable")]
            found = self._first_fit(world, [claim], nodes)
        if found is None:
            self._steps.append(Step("claim", name_of(claim), None))
            return False
        node, (result,) = found
        self._store(claim, result, None)
        self._record("claim", name_of(claim), node, [claim])
        return True

    def _grouped(self, world: World) -> list[Waiting]:
        """Pods that ask for the same are explained once."""
        groups: dict[str, list[Object]] = {}
        for pod in self._pending:
            key = json.dumps([namespace_of(pod), pod["spec"]], sort_keys=True, default=str)
            groups.setdefault(key, []).append(pod)
        return [Waiting(tuple(map(name_of, pods)), _diagnosed(world, pods[0])) for pods in groups.values()]


def _diagnosed(world: World, pod: Object) -> Diagnosis:
    found = diagnose_pod(world, pod)
    if not found.fine:
        return found
    # It was tried before what others gave back, or on a node that failed: still it waits.
    return replace(found, summary="waits for its next try")


def _runs(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and (pod.get("status") or {}).get("phase") not in _FINISHED


def _waits(pod: Object) -> bool:
    deleted = pod["metadata"].get("deletionTimestamp")
    return (
        not pod["spec"].get("nodeName")
        and not deleted
        and (pod.get("status") or {}).get("phase") not in _FINISHED
    )


def _is_open(pod: Object, node: Object, needs: PodClaims) -> bool:
    if placement.objection(pod, node) or placement.lacking(needs.extended.unknown, node):
        return False
    selectors = (claim["status"]["allocation"].get("nodeSelector") for claim in needs.allocated)
    return all(selector is None or matches(selector, node) for selector in selectors)

"""One look at the cluster, and where each waiting Pod goes by it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from dra_driver.allocation import AllocationError, NodeError, Snapshot, extended, placement
from dra_driver.allocation.extended import EXTENDED_CLAIM, ExtendedResources
from dra_driver.embedded.claims import Object, is_for
from dra_driver.embedded.scheduler import claims as pod_claims
from dra_driver.embedded.scheduler import verdict
from dra_driver.embedded.scheduler.claims import PodClaims, UnresolvableError, is_allocated
from dra_driver.embedded.scheduler.verdict import Objection, Verdict
from dra_driver.embedded.scheduler.writes import Writer
from dra_driver.kube.reflector import Reflector

_IN_MEMORY = "<extended-resources>"  # the name of the special claim until the server gives it one


class Cycle:
    """Nodes, classes and numbers of Pods as they were at its start; claims as they become by what it writes."""

    def __init__(
        self,
        *,
        nodes: Iterable[Object],
        pods_on: Counter[str],
        classes: Iterable[Object],
        snapshot: Snapshot,
        claims: Reflector,
        writer: Writer,
    ) -> None:
        self._nodes = sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
        self._classes = {str(one["metadata"]["name"]): one for one in classes}
        self._snapshot = snapshot
        self._claims = claims
        self._writer = writer
        self._load = pods_on

    def place(self, pod: Object) -> str | Verdict:
        """Bind the Pod and name its node, or say why not; NotYetError where it is too early.

        Errors of the API server are the caller's.
        """
        resources = extended.of_pod(pod, self._classes.values())
        has_claims = bool(pod["spec"].get("resourceClaims") or resources.requests)
        try:
            claims = self._with_special(
                pod, pod_claims.of_pod(pod, self._claims.get, self._classes), resources
            )
        except UnresolvableError as error:
            return verdict.rejected(str(error), len(self._nodes), has_claims=has_claims)
        objections: list[Objection] = []
        try:
            for node in sorted(self._nodes, key=lambda node: self._load[node["metadata"]["name"]]):
                found = self._try(pod, node, claims, resources)
                if isinstance(found, Objection):
                    objections.append(found)
                    continue
                self._commit(pod, node["metadata"]["name"], claims, found, resources)
                return str(node["metadata"]["name"])
        except AllocationError as error:
            return verdict.failed(error)
        if self._deallocate(pod, claims, objections):
            return self.place(pod)
        return verdict.unschedulable(objections, has_claims=has_claims)

    def _with_special(self, pod: Object, claims: PodClaims, resources: ExtendedResources) -> PodClaims:
        """The claims with the one for extended resources: that of an earlier try, or one still to be created."""
        if not resources.requests:
            return claims
        special = next((one for one in self._claims.snapshot() if _is_special(one, pod)), None)
        if special is None:
            special = extended.claim_body(pod, resources)
            special["metadata"]["name"] = _IN_MEMORY
        if is_allocated(special):
            return PodClaims((*claims.allocated, special), claims.pending)
        return PodClaims(claims.allocated, (*claims.pending, special))

    def _try(
        self, pod: Object, node: Object, claims: PodClaims, resources: ExtendedResources
    ) -> list[Object] | Objection:
        """The AllocationResults of the pending claims on the node, or what speaks against it."""
        if reason := placement.objection(pod, node):
            return Objection(reason, unresolvable=True)
        if reason := placement.lacking(resources.unknown, node):
            return Objection(reason)
        if not claims.available_on(node):
            return Objection("resourceclaim not available on the node")
        if not claims.pending:
            return []
        allocated = [claim for claim in self._claims.snapshot() if is_allocated(claim)]
        try:
            results = self._snapshot.with_allocated(allocated).allocate(claims.pending, node=node)
        except NodeError as error:
            return Objection(str(error))
        return Objection("cannot allocate all claims") if results is None else results

    def _commit(
        self,
        pod: Object,
        node: str,
        claims: PodClaims,
        results: Sequence[Object],
        resources: ExtendedResources,
    ) -> None:
        special = next((claim for claim in claims.allocated if _is_special(claim, pod)), None)
        for claim, result in zip(claims.pending, results, strict=True):
            if claim["metadata"]["name"] == _IN_MEMORY:
                written = self._writer.create_claim(extended.claim_body(pod, resources))
            else:
                written = claim
            if _is_special(written, pod):
                special = written
            self._writer.allocate(written, result, pod)
        for claim in claims.allocated:
            self._writer.reserve(claim, pod)
        if special is not None:
            self._writer.record_extended(pod, special, resources.mappings)
        self._writer.bind(pod, node)
        self._load[node] += 1

    def _deallocate(self, pod: Object, claims: PodClaims, objections: Iterable[Objection]) -> bool:
        """Free a claim that nobody else uses and that ties the Pod to a node it cannot run on."""
        if not any(one.reason == "resourceclaim not available on the node" for one in objections):
            return False
        uid = pod["metadata"]["uid"]
        for claim in claims.allocated:
            consumers = claim["status"].get("reservedFor") or ()
            if all(consumer["uid"] == uid for consumer in consumers):
                self._writer.deallocate(claim)
                return True
        return False


def _is_special(claim: Object, pod: Object) -> bool:
    annotations = claim["metadata"].get("annotations") or {}
    return annotations.get(EXTENDED_CLAIM) == "true" and is_for(claim, pod)

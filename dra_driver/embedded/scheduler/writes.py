"""What the scheduler writes, in kube-scheduler's order: claims first, the binding last.

Every write is based on the version that was read, so whoever was faster wins and the Pod is tried again; a Pod
that was half written is picked up where it was left, since its claims then have what they need already.
"""

import copy
from datetime import UTC, datetime
from typing import Any

from dra_driver.embedded.claims import FINALIZER, Object, consumer, is_reserved_for
from dra_driver.embedded.scheduler.verdict import Verdict
from dra_driver.kube.client import Client
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import PODS, RESOURCE_CLAIMS, Resource

_BINDINGS = Resource("", "v1", "bindings", "Binding", namespaced=True)
_STRATEGIC = "application/strategic-merge-patch+json"


class Writer:
    """Writes about claims and Pods; what comes back goes into the copy of the claims at once."""

    def __init__(self, client: Client, claims: Reflector) -> None:
        self._client = client
        self._claims = claims

    def create_claim(self, body: Object) -> Object:
        claim = self._client.create(RESOURCE_CLAIMS, body)
        self._claims.adopt(claim)
        return claim

    def allocate(self, claim: Object, allocation: Object, pod: Object) -> None:
        """Give the claim its devices, and the Pod the claim."""
        changed = copy.deepcopy(claim)
        finalizers = changed["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            # Before the status, so that an allocated claim can never vanish under its Pod.
            finalizers.append(FINALIZER)
            changed = self._client.replace(RESOURCE_CLAIMS, changed)
        status = changed.setdefault("status", {})
        status["allocation"] = {**allocation, "allocationTimestamp": _now()}
        self._reserve(changed, pod)

    def reserve(self, claim: Object, pod: Object) -> None:
        """Let the Pod use a claim that has devices."""
        if not is_reserved_for(claim, pod):
            self._reserve(copy.deepcopy(claim), pod)

    def _reserve(self, claim: Object, pod: Object) -> None:
        claim["status"].setdefault("reservedFor", []).append(consumer(pod))
        self._claims.adopt(self._client.replace(RESOURCE_CLAIMS, claim, subresource="status"))

    def deallocate(self, claim: Object) -> None:
        """Take a claim's devices back; only for one that nobody uses."""
        changed = copy.deepcopy(claim)
        changed["status"].pop("allocation")
        changed["status"].pop("reservedFor", None)
        self._claims.adopt(self._client.replace(RESOURCE_CLAIMS, changed, subresource="status"))

    def record_extended(self, pod: Object, claim: Object, mappings: tuple[dict[str, str], ...]) -> None:
        """Say in the Pod's status which claim its extended resources became."""
        status = {"resourceClaimName": claim["metadata"]["name"], "requestMappings": list(mappings)}
        if (pod.get("status") or {}).get("extendedResourceClaimStatus") != status:
            self._patch(pod, {"extendedResourceClaimStatus": status})

    def bind(self, pod: Object, node: str) -> None:
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        self._client.create(_BINDINGS, body)

    def set_verdict(self, pod: Object, verdict: Verdict) -> bool:
        """Set the Pod's condition; False where it said so already."""
        conditions = (pod.get("status") or {}).get("conditions") or ()
        known: Object = next((one for one in conditions if one["type"] == "PodScheduled"), {})
        if (known.get("reason"), known.get("message")) == (verdict.reason, verdict.message):
            return False
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": verdict.reason,
            "message": verdict.message,
            "lastTransitionTime": known.get("lastTransitionTime") or _now(),
        }
        self._patch(pod, {"conditions": [condition]})
        return True

    def _patch(self, pod: Object, status: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        self._client.patch(
            PODS,
            metadata["name"],
            {"metadata": {"uid": metadata["uid"]}, "status": status},
            namespace=metadata["namespace"],
            subresource="status",
            content_type=_STRATEGIC,
        )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

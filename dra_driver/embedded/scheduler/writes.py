"""What the scheduler writes, in kube-scheduler's order: claims first, the binding last.

Every write is based on the version that was read, so whoever was faster wins and the Pod is tried again; a Pod
that was half written is picked up where it was left, since its claims then have what they need already.
"""

import copy

from dra_driver.embedded.claims import FINALIZER, Object, consumer, is_reserved_for
from dra_driver.embedded.pods import patch_status
from dra_driver.embedded.scheduler.verdict import Verdict
from dra_driver.kube.client import Client
from dra_driver.kube.events import timestamp
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import RESOURCE_CLAIMS, Resource


class Writer:
    """Writes about claims and Pods; what comes back goes into the copies of them at once."""

    def __init__(self, client: Client, claims: Reflector, pods: Reflector) -> None:
        self._client = client
        self._claims = claims
        self._pods = pods

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
        status["allocation"] = {**allocation, "allocationTimestamp": timestamp()}
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
            self._pods.adopt(patch_status(self._client, pod, {"extendedResourceClaimStatus": status}))

    def bind(self, pod: Object, node: str) -> None:
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        binding = Resource("", "v1", f"pods/{metadata['name']}/binding", "Binding", namespaced=True)
        self._client.create(binding, body)

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
            "lastTransitionTime": known.get("lastTransitionTime") or timestamp(),
        }
        # Else a turn that begins before the watch tells of it would say the same once more.
        self._pods.adopt(patch_status(self._client, pod, {"conditions": [condition]}))
        return True

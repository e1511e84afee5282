"""Questions about Pods and their ResourceClaims, answered as kube-controller-manager answers them."""

from typing import Any

from dra_driver.embedded.pods import TERMINAL_PHASES

Object = dict[str, Any]

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"  # annotation of a claim made from a template
MAX_RESERVED_FOR = 256


def is_done(pod: Object) -> bool:
    """Whether a Pod has ended, or will never start: then it needs no claims any more."""
    if (pod.get("status") or {}).get("phase") in TERMINAL_PHASES:
        return True
    return "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")


def owning_pod(claim: Object) -> Object | None:
    """The owner reference to the Pod that a claim was made for."""
    for owner in claim["metadata"].get("ownerReferences") or []:
        if owner.get("controller") and owner["kind"] == "Pod" and owner["apiVersion"] == "v1":
            found: Object = owner
            return found
    return None


def is_for(claim: Object, pod: Object) -> bool:
    """Whether a claim was made for this very Pod."""
    owner = owning_pod(claim)
    return owner is not None and owner["uid"] == pod["metadata"]["uid"]


def template_status(pod: Object, entry: Object) -> Object | None:
    """What was noted of an entry of spec.resourceClaims that names a template; None before its claim is made."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return next((status for status in statuses if status["name"] == entry["name"]), None)


def claim_name(pod: Object, entry: Object) -> str | None:
    """The name of the claim behind an entry of spec.resourceClaims; None while there is none, or none is needed."""
    return entry.get("resourceClaimName") or (template_status(pod, entry) or {}).get("resourceClaimName")


def is_reserved_for(claim: Object, pod: Object) -> bool:
    reserved = (claim.get("status") or {}).get("reservedFor") or []
    return any(consumer["uid"] == pod["metadata"]["uid"] for consumer in reserved)


def consumer(pod: Object) -> Object:
    """A Pod as status.reservedFor names it."""
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def from_template(template: Object, pod: Object, entry: Object) -> Object:
    """The claim to create for an entry of spec.resourceClaims."""
    metadata, name = template["spec"].get("metadata") or {}, pod["metadata"]["name"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{name}-{entry['name']}-",
            "namespace": pod["metadata"]["namespace"],
            "labels": metadata.get("labels") or {},
            "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: entry["name"]},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": name,
                    "uid": pod["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": template["spec"]["spec"],
    }

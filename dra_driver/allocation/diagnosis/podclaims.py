"""The claims that a Pod needs: named, made from templates, still to be made, and the one for extended resources."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dra_driver.allocation import extended
from dra_driver.allocation.diagnosis.model import Remark
from dra_driver.allocation.diagnosis.references import missing_claim, missing_template
from dra_driver.allocation.diagnosis.world import Object, World, is_allocated, namespace_of
from dra_driver.allocation.explanation.scene import name_of
from dra_driver.allocation.extended import ExtendedResources

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"  # annotation of a claim made from a template


@dataclass(slots=True)
class PodClaims:
    """What could be found of a Pod's claims; `remarks` say what could not. Those not made yet are as they will be."""

    claims: list[Object] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    extended: ExtendedResources = field(default_factory=lambda: ExtendedResources((), (), ()))

    @property
    def allocated(self) -> list[Object]:
        return [claim for claim in self.claims if is_allocated(claim)]

    @property
    def pending(self) -> list[Object]:
        return [claim for claim in self.claims if not is_allocated(claim)]


def claims_of(world: World, pod: Object) -> PodClaims:
    """The claims of a Pod, in its order, the one for extended resources last."""
    found = PodClaims(extended=extended.of_pod(dict(pod), [dict(one) for one in world.classes]))
    for entry in pod["spec"].get("resourceClaims") or ():
        for one in _entry(world, pod, entry):
            (found.remarks if isinstance(one, Remark) else found.claims).append(one)  # type: ignore[arg-type]
    if found.extended.requests:
        found.claims.append(_special(world, pod, found.extended))
    return found


def from_template(template: Object, pod: Object, entry: str) -> dict[str, Any]:
    """The claim that is made for a Pod's entry; its name is ours, as the server adds a suffix to it."""
    metadata = template["spec"].get("metadata") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"{pod['metadata']['name']}-{entry}",
            "namespace": namespace_of(pod),
            "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: entry},
            "ownerReferences": [_owner(pod)],
        },
        "spec": template["spec"]["spec"],
    }


def _owner(pod: Object) -> dict[str, Any]:
    meta = pod["metadata"]
    identity = {"name": meta["name"], "uid": meta.get("uid", "")}
    return {"apiVersion": "v1", "kind": "Pod", **identity, "controller": True}


def _entry(world: World, pod: Object, entry: Object) -> Iterator[Object | Remark]:
    namespace, named = namespace_of(pod), entry.get("resourceClaimName")
    if named is not None:
        claim = world.claim.get(f"{namespace}/{named}")
        yield missing_claim(world, str(named), namespace) if claim is None else claim
        return
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    status = next((one for one in statuses if one.get("name") == entry["name"]), None)
    if status is not None and status.get("resourceClaimName") is None:
        return  # it turned out that none is needed
    if status is not None:
        claim = world.claim.get(f"{namespace}/{status['resourceClaimName']}")
        if claim is None:
            yield missing_claim(world, str(status["resourceClaimName"]), namespace)
        else:
            yield from _made(claim, pod)
        return
    name = str(entry.get("resourceClaimTemplateName") or "")
    template = world.template.get(f"{namespace}/{name}")
    if template is None:
        yield missing_template(world, str(entry["name"]), name, namespace)
    else:
        yield from_template(template, pod, str(entry["name"]))


def _made(claim: Object, pod: Object) -> Iterator[Object | Remark]:
    owners = claim["metadata"].get("ownerReferences") or ()
    uid = pod["metadata"].get("uid")
    if uid and owners and all(owner.get("uid") != uid for owner in owners):
        text = f"claim {name_of(claim)} was made for an earlier Pod of this name"
        yield Remark("claim-of-another", "error", text, f"wait until claim {name_of(claim)} is gone")
        return
    yield claim


def _special(world: World, pod: Object, resources: ExtendedResources) -> Object:
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    known = world.claim.get(f"{namespace_of(pod)}/{status.get('resourceClaimName')}")
    if known is not None:
        return known
    uid = pod["metadata"].get("uid")
    if uid in world.extended:
        return world.extended[uid]
    named = {**pod["metadata"], "namespace": namespace_of(pod), "uid": uid or ""}
    body = extended.claim_body({"metadata": named}, resources)
    body["metadata"]["name"] = f"{pod['metadata']['name']}-extended-resources"
    return body

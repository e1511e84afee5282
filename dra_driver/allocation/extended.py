"""Extended resources that a DeviceClass answers for: `nvidia.com/gpu: 1` becomes a claim of the scheduler's own.

A class answers for its spec.extendedResourceName, of several classes the newest, and always for
deviceclass.resource.kubernetes.io/<class>.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dra_driver.quantity import Quantity

Object = dict[str, Any]

EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"  # annotation of the special claim
_IMPLICIT = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """What a Pod's containers ask for by resource name: requests of the special claim, and who made them.

    `unknown` are the names that no class answers for; only a node's device plugin could.
    """

    requests: tuple[dict[str, Any], ...]
    mappings: tuple[dict[str, str], ...]
    unknown: tuple[str, ...]


def of_pod(pod: Object, classes: Iterable[Object]) -> ExtendedResources:
    """The Pod's extended resources, containers in order (init containers first), names sorted."""
    by_name = _classes_by_resource(classes)
    requests, mappings, unknown = [], [], []
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    for index, container in enumerate(containers):
        wanted = _wanted(container)
        served = {name: amount for name, amount in wanted.items() if name in by_name}
        unknown += [name for name in wanted if name not in served]
        for position, (name, amount) in enumerate(served.items()):
            request = f"container-{index}-request-{position}"
            exactly = {"deviceClassName": by_name[name], "allocationMode": "ExactCount", "count": amount}
            requests.append({"name": request, "exactly": exactly})
            mappings.append(
                {"containerName": container["name"], "resourceName": name, "requestName": request}
            )
    return ExtendedResources(tuple(requests), tuple(mappings), tuple(dict.fromkeys(unknown)))


def claim_body(pod: Object, resources: ExtendedResources) -> Object:
    """The special claim, as kube-scheduler creates it."""
    metadata = pod["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{metadata['name']}-extended-resources-",
            "namespace": metadata["namespace"],
            "annotations": {EXTENDED_CLAIM: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [dict(request) for request in resources.requests]}},
    }


def _classes_by_resource(classes: Iterable[Object]) -> dict[str, str]:
    by_name: dict[str, str] = {}
    # Newest first, then by name: the first that claims a resource has it.
    ordered = sorted(classes, key=lambda one: str(one["metadata"]["name"]))
    ordered.sort(key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), reverse=True)
    for one in ordered:
        name = str(one["metadata"]["name"])
        resource = one["spec"].get("extendedResourceName")
        if resource:
            by_name.setdefault(resource, name)
        by_name[f"{_IMPLICIT}{name}"] = name
    return by_name


def _wanted(container: Object) -> dict[str, int]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    amounts = {name: Quantity.parse(str(asked[name])).value for name in sorted(asked) if _is_extended(name)}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def _is_extended(name: str) -> bool:
    """Whether a resource is neither Kubernetes' own (cpu, hugepages-2Mi) nor in its domain."""
    domain, slash, _ = name.rpartition("/")
    if name.startswith(_IMPLICIT):
        return True
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")

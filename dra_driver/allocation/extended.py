"""Extended resources that a DeviceClass answers for: `nvidia.com/gpu: 1` becomes a claim of the scheduler's own.

A class answers for its spec.extendedResourceName, of several classes the newest, and always for
deviceclass.resource.kubernetes.io/<class>.

Init containers, unless they are sidecars, end before what comes after them starts. So they use the devices of later
containers first, and what they need beyond that they have one after the other.
"""

from collections.abc import Iterable, Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class _Container:
    """What a container asks for: `resources` are the names of all, in order, `amounts` those that are extended."""

    index: int
    name: str
    ends: bool
    resources: tuple[str, ...]
    amounts: dict[str, int]

    def request(self, resource: str, device_class: str, amount: int) -> Object:
        exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": amount}
        return {
            "name": f"container-{self.index}-request-{self.resources.index(resource)}",
            "exactly": exactly,
        }

    def mapping(self, resource: str, request: Object) -> dict[str, str]:
        return {"containerName": self.name, "resourceName": resource, "requestName": request["name"]}


def of_pod(pod: Object, classes: Iterable[Object]) -> ExtendedResources:
    """The Pod's extended resources: requests by name, mappings by resource, as kube-scheduler has them."""
    by_name = _classes_by_resource(classes)
    containers = list(_containers(pod["spec"]))
    requests, mappings, unknown = [], [], []
    for resource in sorted({name for one in containers for name in one.amounts}):
        if resource not in by_name:
            unknown.append(resource)
            continue
        users = [one for one in containers if resource in one.amounts]
        found, mapped = _of_resource(resource, by_name[resource], users)
        requests += found
        mappings += mapped
    return ExtendedResources(
        tuple(sorted(requests, key=lambda one: str(one["name"]))), tuple(mappings), tuple(unknown)
    )


def _containers(spec: Object) -> Iterator[_Container]:
    inits = spec.get("initContainers") or ()
    for index, container in enumerate([*inits, *spec["containers"]]):
        ends = index < len(inits) and container.get("restartPolicy") != "Always"
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        amounts = {name: Quantity.parse(str(asked[name])).value for name in asked if _is_extended(name)}
        wanted = {name: amount for name, amount in amounts.items() if amount > 0}
        yield _Container(index, container["name"], ends, tuple(sorted(asked)), wanted)


def _of_resource(
    resource: str, device_class: str, users: Sequence[_Container]
) -> tuple[list[Object], list[dict[str, str]]]:
    """The requests for one resource, and which of them each container uses."""
    ending = [one for one in users if one.ends]
    lasting = [
        (one, one.request(resource, device_class, one.amounts[resource])) for one in users if not one.ends
    ]
    requests = [request for _, request in lasting]
    mappings = [one.mapping(resource, request) for one, request in lasting]
    reused: dict[int, list[Object]] = {}
    missing: dict[int, int] = {}
    for one in ending:
        reused[one.index], missing[one.index] = [], one.amounts[resource]
        for later, request in lasting:
            if later.index >= one.index and missing[one.index] > 0:
                reused[one.index].append(request)
                missing[one.index] -= later.amounts[resource]
    most = max(ending, key=lambda one: missing[one.index], default=None)
    extra = []
    if most is not None and missing[most.index] > 0:
        extra = [most.request(resource, device_class, missing[most.index])]
    for one in ending:
        used = reused[one.index] + (extra if missing[one.index] > 0 else [])
        mappings += (one.mapping(resource, request) for request in used)
    return extra + requests, mappings


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


def _is_extended(name: str) -> bool:
    """Whether a resource is neither Kubernetes' own (cpu, hugepages-2Mi) nor in its domain."""
    domain, slash, _ = name.rpartition("/")
    if name.startswith(_IMPLICIT):
        return True
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")

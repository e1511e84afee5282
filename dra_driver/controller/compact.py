"""What is kept of the objects of a cluster: what allocation, lint and explanations read, and each value once.

40,000 GPUs with twenty attributes each are a million small dicts as JSON gives them, and nearly all say one of a few
things. So equal values are one object here, and what nobody reads (managed fields, status of nodes, containers) is left
out. The shape stays the API's, since those who read do not know that they read a copy; none of it may be changed.

Values that are a device's own (its UUID) wash through the caches without growing them.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any

Object = dict[str, Any]

_SPECS = 4096  # different specs of claims, templates, Pods that are kept once each
_VALUES = 8192

_KEPT_ANNOTATIONS = (
    "resource.kubernetes.io/pod-claim-name",
    "resource.kubernetes.io/extended-resource-claim",
)
_POD_SPEC = (
    "resourceClaims",
    "nodeName",
    "nodeSelector",
    "tolerations",
    "schedulerName",
    "schedulingGates",
    "priority",
)
_POD_STATUS = ("phase", "resourceClaimStatuses", "extendedResourceClaimStatus")
_CONDITIONS = frozenset({"PodScheduled", "Ready"})


def slice_(obj: Object) -> Object:
    """A ResourceSlice, whole."""
    spec = obj["spec"]
    kept = {**spec, "pool": _shared(spec.get("pool"))}
    if "devices" in spec:
        kept["devices"] = [_device(device) for device in spec["devices"]]
    return _object(obj, spec=kept)


def claim(obj: Object) -> Object:
    """A ResourceClaim without what drivers report of its devices."""
    status = _part(obj.get("status"), ("allocation", "reservedFor"))
    allocation = status.get("allocation")
    if allocation:
        devices = allocation.get("devices") or {}
        results = [_interned(result) for result in devices.get("results") or ()]
        allocation = _part(allocation, ("nodeSelector", "allocationTimestamp"))
        allocation["devices"] = {"results": results}
        status["allocation"] = allocation
    return _object(obj, spec=_shared(obj.get("spec") or {}), status=status)


def template(obj: Object) -> Object:
    """A ResourceClaimTemplate, whole."""
    return _object(obj, spec=_shared(obj["spec"]))


def device_class(obj: Object) -> Object:
    """A DeviceClass, whole."""
    return _object(obj, spec=_shared(obj.get("spec") or {}))


def pod(obj: Object) -> Object:
    """A Pod: what it asks for, where it may run, and what the scheduler says."""
    spec = obj["spec"]
    kept = _part(spec, _POD_SPEC)
    affinity = _part((spec.get("affinity") or {}), ("nodeAffinity",))
    if affinity:
        kept["affinity"] = affinity
    for name in ("initContainers", "containers"):
        if name in spec:
            kept[name] = [_part(one, ("name", "resources")) for one in spec[name]]
    status = _part(obj.get("status"), _POD_STATUS)
    conditions = (obj.get("status") or {}).get("conditions") or ()
    status["conditions"] = [
        _part(one, ("type", "status", "reason")) for one in conditions if one["type"] in _CONDITIONS
    ]
    return _object(obj, spec=_shared(kept), status=_shared(status))


def node(obj: Object) -> Object:
    """A Node: labels and taints, and what device plugins offer."""
    status = _part(obj.get("status"), ("allocatable", "capacity"))
    kept = _object(
        obj,
        spec=_shared(_part(obj.get("spec"), ("taints", "unschedulable"))),
        status={
            what: _shared({name: amount for name, amount in amounts.items() if "/" in name})
            for what, amounts in status.items()
        },
    )
    kept["metadata"]["labels"] = _interned(obj["metadata"].get("labels") or {})
    return kept


def _object(obj: Object, **content: Any) -> Object:
    return {
        "apiVersion": intern(obj["apiVersion"]),
        "kind": intern(obj["kind"]),
        "metadata": _metadata(obj["metadata"]),
        **content,
    }


def _metadata(metadata: Mapping[str, Any]) -> Object:
    kept = _part(
        metadata,
        ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
    )
    if "namespace" in kept:
        kept["namespace"] = intern(kept["namespace"])
    owners = [_interned(_part(one, ("kind", "name", "uid"))) for one in metadata.get("ownerReferences") or ()]
    if owners:
        kept["ownerReferences"] = owners
    annotations = _part(metadata.get("annotations"), _KEPT_ANNOTATIONS)
    if annotations:
        kept["annotations"] = _shared(annotations)
    return kept


def _device(device: Mapping[str, Any]) -> Object:
    kept = {intern(name): value if name == "name" else _shared(value) for name, value in device.items()}
    if "attributes" in device:
        kept["attributes"] = {intern(name): _attribute(value) for name, value in device["attributes"].items()}
    return kept


def _attribute(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if len(value) == 1:
        ((kind, held),) = value.items()
        if isinstance(held, str | int):  # and so bool
            return _value(kind, held)
    return value


@lru_cache(maxsize=_VALUES, typed=True)
def _value(kind: str, held: Any) -> Mapping[str, Any]:
    return {intern(kind): held}


def _interned(value: Mapping[str, Any]) -> Object:
    """The same with its texts kept once each."""
    return {intern(name): intern(held) if type(held) is str else held for name, held in value.items()}


def _part(value: Mapping[str, Any] | None, names: Iterable[str]) -> Object:
    given = value or {}
    return {name: given[name] for name in names if given.get(name) is not None}


def _shared(value: Any) -> Any:
    """The one object that stands for everything equal to `value`."""
    if isinstance(value, dict | list):
        return _known(json.dumps(value, separators=(",", ":")))
    return intern(value) if type(value) is str else value


@lru_cache(maxsize=_SPECS)
def _known(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_pairs)


def _pairs(pairs: list[tuple[str, Any]]) -> Object:
    return {intern(name): intern(value) if type(value) is str else value for name, value in pairs}

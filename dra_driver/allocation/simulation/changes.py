"""What if: a node drained, a device tainted, a claim gone. Objects in, other objects out; the given ones stay.

A Pod that loses its node or its devices waits again, as the one that its workload makes in its place would.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.allocation import taints
from dra_driver.allocation.diagnosis.references import near
from dra_driver.allocation.diagnosis.world import Object, namespace_of
from dra_driver.allocation.explanation.scene import name_of, results_of
from dra_driver.errors import UsageError

Objects = dict[str, list[dict[str, Any]]]

_TAINT = re.compile(
    r"(?P<node>[^:/]+)(?:/(?P<device>[^:]+))?:(?P<key>[^:=]+)(?:=(?P<value>[^:]*))?:(?P<effect>\w+)"
)
_EFFECTS = ("None", "NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint for all devices of a node, or one of them."""

    node: str
    device: str | None
    key: str
    value: str
    effect: str

    @classmethod
    def parse(cls, text: str) -> "DeviceTaint":
        """'NODE[/DEVICE]:KEY[=VALUE]:EFFECT'; UsageError says what is wrong."""
        match = _TAINT.fullmatch(text)
        if match is None:
            raise UsageError(f"--taint {text}: expected NODE[/DEVICE]:KEY[=VALUE]:EFFECT")
        if match["effect"] not in _EFFECTS:
            raise UsageError(f"--taint {text}: the effect is one of {', '.join(_EFFECTS)}")
        return cls(match["node"], match["device"], match["key"], match["value"] or "", match["effect"])

    @property
    def as_dict(self) -> dict[str, str]:
        value = {"value": self.value} if self.value else {}
        return {"key": self.key, **value, "effect": self.effect}


def drained(objects: Objects, name: str) -> Objects:
    """Nothing new goes to the node, and its Pods have to go."""
    _known(name, "node", (str(node["metadata"]["name"]) for node in objects.get("Node", ())))
    nodes = [
        {**node, "spec": {**(node.get("spec") or {}), "unschedulable": True}}
        if node["metadata"]["name"] == name
        else node
        for node in objects.get("Node", ())
    ]
    pools = _pools_of(objects, name)
    released = _released(objects, lambda _, result: (result["driver"], result["pool"]) in pools)
    pods = [_waiting(pod) if pod["spec"].get("nodeName") == name else pod for pod in released.get("Pod", ())]
    return {**released, "Node": nodes, "Pod": pods}


def tainted(objects: Objects, taint: DeviceTaint) -> Objects:
    """The taint on the devices; NoExecute also takes them from those that do not tolerate it."""
    _known(taint.node, "node", (str(node["metadata"]["name"]) for node in objects.get("Node", ())))
    hit: set[tuple[str, str, str]] = set()

    def marked(part: dict[str, Any]) -> dict[str, Any]:
        spec = part["spec"]
        if spec.get("nodeName") != taint.node or not spec.get("devices"):
            return part
        devices = []
        for device in spec["devices"]:
            if taint.device in {None, device["name"]}:
                hit.add((spec["driver"], spec["pool"]["name"], device["name"]))
                devices.append({**device, "taints": [*(device.get("taints") or ()), taint.as_dict]})
            else:
                devices.append(device)
        return {**part, "spec": {**spec, "devices": devices}}

    changed = {**objects, "ResourceSlice": [marked(part) for part in objects.get("ResourceSlice", ())]}
    if not hit:
        what = f"no device {taint.device}" if taint.device else "no devices of its own"
        raise UsageError(f"--taint: node {taint.node} has {what}")
    if taint.effect != "NoExecute":
        return changed

    def evicts(_: Object, result: Object) -> bool:
        tolerations = result.get("tolerations") or ()
        key = (result["driver"], result["pool"], result["device"])
        return key in hit and not taints.tolerated([taint.as_dict], tolerations)

    return _released(changed, evicts)


def without_claim(objects: Objects, name: str) -> Objects:
    """A claim (namespace/name) gone, and the Pods that use it."""
    claims = objects.get("ResourceClaim", [])
    _known(name, "claim", map(name_of, claims))
    gone = next(claim for claim in claims if name_of(claim) == name)
    users = {
        (namespace_of(gone), str(one.get("name")))
        for one in (gone.get("status") or {}).get("reservedFor") or ()
    }
    users |= {
        (namespace_of(gone), str(owner.get("name")))
        for owner in gone["metadata"].get("ownerReferences") or ()
        if owner.get("kind") == "Pod"
    }
    pods = [
        pod
        for pod in objects.get("Pod", ())
        if (namespace_of(pod), pod["metadata"]["name"]) not in users and not _names(pod, gone)
    ]
    return {**objects, "ResourceClaim": [one for one in claims if one is not gone], "Pod": pods}


def _names(pod: Object, claim: Object) -> bool:
    named = (entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or ())
    return namespace_of(pod) == namespace_of(claim) and claim["metadata"]["name"] in named


def _known(name: str, kind: str, names: Iterable[str]) -> None:
    known = list(names)
    if name not in known:
        raise UsageError(f"there is no {kind} {name}{near(name, known)}")


def _pools_of(objects: Objects, node: str) -> set[tuple[str, str]]:
    return {
        (part["spec"]["driver"], part["spec"]["pool"]["name"])
        for part in objects.get("ResourceSlice", ())
        if part["spec"].get("nodeName") == node
    }


def _released(objects: Objects, lost: Callable[[Object, Object], bool]) -> Objects:
    """Claims that lose a device lose them all, and their Pods wait again."""
    claims, users = [], set()
    for claim in objects.get("ResourceClaim", ()):
        if any(lost(claim, result) for result in results_of(claim)):
            status: Mapping[str, Any] = claim.get("status") or {}
            users |= {(namespace_of(claim), str(one.get("name"))) for one in status.get("reservedFor") or ()}
            kept = {
                key: value
                for key, value in status.items()
                if key not in {"allocation", "reservedFor", "devices"}
            }
            claims.append({**claim, "status": kept})
        else:
            claims.append(claim)
    pods = [
        _waiting(pod) if (namespace_of(pod), pod["metadata"]["name"]) in users else pod
        for pod in objects.get("Pod", ())
    ]
    return {**objects, "ResourceClaim": claims, "Pod": pods}


def _waiting(pod: dict[str, Any]) -> dict[str, Any]:
    """The Pod as it was before it had a node."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    kept = {"resourceClaimStatuses", "extendedResourceClaimStatus"}
    status = {key: value for key, value in (pod.get("status") or {}).items() if key in kept}
    return {**pod, "spec": spec, "status": {**status, "phase": "Pending"}}

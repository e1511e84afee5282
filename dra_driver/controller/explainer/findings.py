"""What is wrong with a cluster that no Pod waits for: devices held by nobody, offered by nobody, or offered twice.

Pure. Each finding is a text by the object that it is about. None is a finding at its first sight: a claim is allocated a
moment before it is reserved, and a driver that is updated is away for a minute. So each has to last, see `Lasting`.
"""

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from dra_driver.allocation.diagnosis.world import is_allocated, namespace_of
from dra_driver.allocation.explanation.scene import results_of
from dra_driver.devices.plugins import device_plugin_resources
from dra_driver.kube.events import Reference
from dra_driver.kube.resources import DEVICE_TAINT_RULES

Object = Mapping[str, Any]
Key = TypeVar("Key", bound=Hashable)

TAINT_KEY = "driver-not-running"  # behind the driver's name and a slash
_MANAGED = {"app.kubernetes.io/managed-by": "dra-driver-controller"}


class Lasting(Generic[Key]):
    """Tells what has been so for some time; for one thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Key, float] = {}

    def of(self, present: Iterable[Key], now: float) -> set[Key]:
        """Those of `present` that have been in every call for so many seconds."""
        self._since = {key: self._since.get(key, now) for key in present}
        return {key for key, since in self._since.items() if now - since >= self._seconds}

    def forget(self) -> None:
        """Start anew: nobody has looked for a while."""
        self._since.clear()


def unreserved(claims: Iterable[Object], driver_name: str) -> dict[Reference, str]:
    """Claims with devices of the driver, reserved for nobody."""
    found = {}
    for claim in claims:
        if not is_allocated(claim) or claim["metadata"].get("deletionTimestamp"):
            continue
        devices = [result["device"] for result in results_of(claim) if result["driver"] == driver_name]
        if devices and not (claim.get("status") or {}).get("reservedFor"):
            found[Reference.to(claim)] = (
                f"holds {_some(devices)} and is reserved for no Pod; delete it if nobody needs it"
                f" (kubectl delete resourceclaim -n {namespace_of(claim)} {claim['metadata']['name']})"
            )
    return found


def pools_without_driver(
    slices: Iterable[Object], nodes: Mapping[str, Object], plugins: Iterable[Object], driver_name: str
) -> dict[tuple[str, str], str]:
    """Why no driver stands behind a pool, by (node, pool).

    Nothing where no plugin's Pod is known at all: then it does not run as a DaemonSet of ours, and nobody can say.
    """
    ready = {
        str(pod["spec"].get("nodeName"))
        for pod in plugins
        if any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in (pod.get("status") or {}).get("conditions") or ()
        )
    }
    if not ready:
        return {}
    found = {}
    for one in slices:
        spec = one["spec"]
        node = spec.get("nodeName")
        if spec["driver"] != driver_name or not node or not spec.get("devices") or node in ready:
            continue
        gone = "" if node in nodes else ", and the node is gone"
        found[str(node), str(spec["pool"]["name"])] = f"no node plugin is ready on node {node}{gone}"
    return found


def taint_rule(driver_name: str, pool: str) -> dict[str, Any]:
    """The DeviceTaintRule that keeps Pods from a pool; it never evicts those that run."""
    digest = hashlib.sha256(pool.encode()).hexdigest()[:16]
    return {
        "apiVersion": DEVICE_TAINT_RULES.api_version,
        "kind": DEVICE_TAINT_RULES.kind,
        "metadata": {"name": f"driver-not-running-{digest}", "labels": dict(_MANAGED)},
        "spec": {
            "deviceSelector": {"driver": driver_name, "pool": pool},
            "taint": {"key": f"{driver_name}/{TAINT_KEY}", "effect": "NoSchedule"},
        },
    }


def is_ours(rule: Object, driver_name: str) -> bool:
    """Whether a DeviceTaintRule was made here, and so may be deleted here."""
    labels = rule["metadata"].get("labels") or {}
    taint = rule["spec"].get("taint") or {}
    return _MANAGED.items() <= labels.items() and taint.get("key") == f"{driver_name}/{TAINT_KEY}"


def published_twice(
    slices: Iterable[Object], nodes: Iterable[Object], driver_name: str
) -> dict[Reference, str]:
    """Nodes whose GPUs are offered by this driver's slices and by a device plugin."""
    publishing = {
        one["spec"].get("nodeName")
        for one in slices
        if one["spec"]["driver"] == driver_name and one["spec"].get("devices")
    }
    found = {}
    for node in nodes:
        offered = [f"{name}: {amount}" for name, amount in device_plugin_resources(node).items()]
        if offered and node["metadata"]["name"] in publishing:
            found[Reference.to(node)] = (
                f"a device plugin offers {', '.join(offered)} on this node, and {driver_name} publishes the same GPUs:"
                " two Pods can be given one GPU; remove the device plugin from the node"
            )
    return found


def _some(devices: list[str]) -> str:
    shown = ", ".join(devices[:3])
    return f"{shown} and {len(devices) - 3} more devices" if len(devices) > 3 else f"device {shown}"

"""The status that the kubelet gives a Pod: pure functions from Pod and containers to the API's dicts.

Conditions are sent as a strategic merge patch, so those of others (PodScheduled) stay.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dra_driver.kube.events import timestamp

Object = Mapping[str, Any]

CREATING = "ContainerCreating"
_STATUSES = ("initContainerStatuses", "containerStatuses")


@dataclass(frozen=True, slots=True)
class Container:
    """Where a container stands: it waits (with a reason), runs, or has ended."""

    reason: str = CREATING
    message: str = ""
    started_at: str = ""
    finished_at: str = ""
    restarts: int = 0
    container_id: str = field(default_factory=lambda: f"embedded://{uuid.uuid4().hex}{uuid.uuid4().hex}")

    @property
    def running(self) -> bool:
        return bool(self.started_at) and not self.finished_at

    def started(self) -> "Container":
        """The same container once its process runs."""
        return replace(self, reason="", message="", started_at=timestamp())

    def ended(self) -> "Container":
        """The same container after its process ended well."""
        return replace(self, finished_at=timestamp())

    def as_dict(self, spec: Object) -> dict[str, Any]:
        """An entry of containerStatuses; `spec` is the container in the Pod's spec."""
        if self.finished_at:
            state: dict[str, Any] = {
                "terminated": {
                    "exitCode": 0,
                    "reason": "Completed",
                    "startedAt": self.started_at,
                    "finishedAt": self.finished_at,
                    "containerID": self.container_id,
                }
            }
        elif self.started_at:
            state = {"running": {"startedAt": self.started_at}}
        else:
            waiting = {"reason": self.reason}
            state = {"waiting": {**waiting, "message": self.message} if self.message else waiting}
        body = {
            "name": spec["name"],
            "image": spec.get("image", ""),
            "imageID": spec.get("image", "") if self.started_at else "",
            "ready": self.running,
            "started": self.running,
            "restartCount": self.restarts,
            "state": state,
        }
        return {**body, "containerID": self.container_id} if self.started_at else body


def specs_of(pod: Object) -> list[dict[str, Any]]:
    """The containers in a Pod's spec, those that come first included."""
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def containers_of(pod: Object) -> dict[str, Container]:
    """The containers of a Pod by name, before any is made; one that ran under an earlier kubelet is restarted."""
    known = pod.get("status") or {}
    before = {c["name"]: c for kind in _STATUSES for c in known.get(kind) or ()}
    restarts = {
        name: c.get("restartCount", 0) + ("running" in (c.get("state") or {})) for name, c in before.items()
    }
    names = [spec["name"] for spec in specs_of(pod)]
    return {name: Container(restarts=restarts.get(name, 0)) for name in names}


def pod_status(
    pod: Object,
    containers: Mapping[str, Container],
    *,
    sandbox: bool,
    over: bool,
    host_ip: str,
    pod_ip: str,
    started_at: str,
) -> dict[str, Any]:
    """The status of a Pod with these containers (by name).

    `sandbox` is whether one was made for it. `over` is whether nothing of it is left on the node: before, its
    phase is no final one even if all its containers have ended.
    """
    spec = pod["spec"]
    main = [containers[container["name"]] for container in spec["containers"]]
    ended = all(container.finished_at for container in main)
    ready = all(container.running for container in main)
    if over:
        phase = "Succeeded" if ended else "Failed"
    else:
        phase = "Running" if any(container.started_at for container in main) else "Pending"
    reason = {}
    if ended or over:
        reason = {"reason": "PodCompleted" if ended else "PodFailed"}
    elif not ready:
        names = " ".join(c["name"] for c in spec["containers"] if not containers[c["name"]].running)
        reason = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    body: dict[str, Any] = {
        "phase": phase,
        "startTime": started_at,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": _conditions(
            {
                "PodReadyToStartContainers": (sandbox and not ended and not over, {}),
                "Initialized": (True, {"reason": "PodCompleted"} if ended else {}),
                "Ready": (ready, reason),
                "ContainersReady": (ready, reason),
            },
            (pod.get("status") or {}).get("conditions") or (),
        ),
        "containerStatuses": [containers[c["name"]].as_dict(c) for c in spec["containers"]],
    }
    if spec.get("initContainers"):
        body["initContainerStatuses"] = [containers[c["name"]].as_dict(c) for c in spec["initContainers"]]
    if sandbox:
        body |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    return body


def _conditions(wanted: Mapping[str, tuple[bool, Object]], known: Any) -> list[dict[str, Any]]:
    """Conditions whose transition time moves only when their status does."""
    before = {condition["type"]: condition for condition in known}
    found = []
    for kind, (holds, why) in wanted.items():
        value = "True" if holds else "False"
        old = before.get(kind)
        same = old is not None and old.get("status") == value and old.get("lastTransitionTime")
        time = old["lastTransitionTime"] if old is not None and same else timestamp()
        # null takes away what an earlier patch put there
        reason = {"reason": why.get("reason"), "message": why.get("message")}
        found.append(
            {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": time, **reason}
        )
    return found

"""The status that the kubelet gives a Pod: pure functions from Pod and containers to the API's dicts.

Conditions are sent as a strategic merge patch, so those of others (PodScheduled) stay.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

Object = Mapping[str, Any]

CREATING = "ContainerCreating"
CREATE_ERROR = "CreateContainerError"
TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


def now() -> str:
    """The time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Container:
    """Where a container stands: it waits (with a reason), runs, or has ended."""

    reason: str = CREATING
    message: str = ""
    started_at: str = ""
    finished_at: str = ""
    container_id: str = field(default_factory=lambda: f"embedded://{uuid.uuid4().hex}{uuid.uuid4().hex}")

    @property
    def running(self) -> bool:
        return bool(self.started_at) and not self.finished_at

    def ended(self) -> "Container":
        """The same container after its process ended well."""
        time = now()
        return replace(self, started_at=self.started_at or time, finished_at=time)

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
            "restartCount": 0,
            "state": state,
        }
        return {**body, "containerID": self.container_id} if self.started_at else body


def pod_status(
    pod: Object,
    containers: Mapping[str, Container],
    *,
    sandbox: bool,
    host_ip: str,
    pod_ip: str,
    started_at: str,
) -> dict[str, Any]:
    """The status of a Pod with these containers (by name); `sandbox` is whether one was made for it."""
    spec = pod["spec"]
    main = [containers[container["name"]] for container in spec["containers"]]
    ended = all(container.finished_at for container in main)
    ready = all(container.running for container in main)
    phase = (
        "Succeeded" if ended else "Running" if any(container.started_at for container in main) else "Pending"
    )
    reason = {"reason": "PodCompleted"} if ended else {} if ready else {"reason": "ContainersNotReady"}
    names = " ".join(c["name"] for c in spec["containers"] if not containers[c["name"]].running)
    if not ended and not ready:
        reason["message"] = f"containers with unready status: [{names}]"
    body: dict[str, Any] = {
        "phase": phase,
        "startTime": started_at,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": _conditions(
            {
                "PodReadyToStartContainers": (sandbox and not ended, {}),
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
        time = old["lastTransitionTime"] if old is not None and same else now()
        # null takes away what an earlier patch put there
        reason = {"reason": why.get("reason"), "message": why.get("message")}
        found.append(
            {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": time, **reason}
        )
    return found

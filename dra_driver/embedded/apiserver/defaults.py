"""What the API server fills in on the way in: defaults of Pods, claims, taints, nodes, namespaces and Events.

The functions change the object in place. They run before validation, on create and update, so that an object
compared with its predecessor differs only where somebody changed it.
"""

from typing import Any

from dra_driver.embedded.apiserver.kinds import (
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    WEBHOOK,
    Kind,
)


def fill(kind: Kind, obj: dict[str, Any], now: str) -> None:
    """Set the defaults of `kind` in `obj`; `now` is the server's time."""
    if kind is POD:
        _pod(obj.setdefault("spec", {}))
    elif kind is RESOURCE_SLICE:
        for device in obj.setdefault("spec", {}).get("devices") or []:
            for taint in device.get("taints") or []:
                taint["timeAdded"] = taint.get("timeAdded") or now
    elif kind is RESOURCE_CLAIM:
        _claim_spec(obj.setdefault("spec", {}))
        obj.setdefault("status", {})
    elif kind is RESOURCE_CLAIM_TEMPLATE:
        spec = obj.setdefault("spec", {})
        spec.setdefault("metadata", {})
        _claim_spec(spec.setdefault("spec", {}))
    elif kind is NODE:
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
    elif kind is NAMESPACE:
        metadata = obj["metadata"]
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata.get("name", "")
    elif kind is EVENT:
        _event(obj)
    elif kind is WEBHOOK:
        _webhooks(obj)


def _event(obj: dict[str, Any]) -> None:
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(name, None)
    for name in ("reportingComponent", "reportingInstance"):
        obj.setdefault(name, "")
    obj.setdefault("source", {})


def _webhooks(obj: dict[str, Any]) -> None:
    for webhook in obj.get("webhooks") or []:
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        for rule in webhook.get("rules") or []:
            rule.setdefault("scope", "*")


def _claim_spec(spec: dict[str, Any]) -> None:
    for request in (spec.get("devices") or {}).get("requests") or []:
        for part in (request.get("exactly"), *(request.get("firstAvailable") or [])):
            if part is None:
                continue
            part.setdefault("allocationMode", "ExactCount")
            if part["allocationMode"] == "ExactCount":
                part.setdefault("count", 1)
            for toleration in part.get("tolerations") or []:
                toleration.setdefault("operator", "Equal")


def _pod(spec: dict[str, Any]) -> None:
    for container in (*(spec.get("initContainers") or []), *(spec.get("containers") or [])):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        untagged = ":" not in container.get("image", "").rpartition("/")[2]
        latest = untagged or container["image"].endswith(":latest")
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        resources = container.setdefault("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("serviceAccountName", "default"),
        ("serviceAccount", "default"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
        ("priority", 0),
        ("enableServiceLinks", True),
        ("preemptionPolicy", "PreemptLowerPriority"),
    ):
        spec.setdefault(name, value)
    tolerations = spec.setdefault("tolerations", [])
    for condition in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{condition}"
        if not any(toleration.get("key") in {key, None} for toleration in tolerations):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(toleration)


def quality_of_service(spec: dict[str, Any]) -> str:
    """A Pod's QoS class, by its containers' CPU and memory."""
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    counted = [
        {
            bound: {
                name: value
                for name, value in (container.get("resources", {}).get(bound) or {}).items()
                if name in {"cpu", "memory"}
            }
            for bound in ("requests", "limits")
        }
        for container in containers
    ]
    if not any(bounds["requests"] or bounds["limits"] for bounds in counted):
        return "BestEffort"
    full = all(len(bounds["limits"]) == 2 and bounds["limits"] == bounds["requests"] for bounds in counted)
    return "Guaranteed" if full else "Burstable"

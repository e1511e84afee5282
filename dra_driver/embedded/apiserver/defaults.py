"""What the API server fills in on the way in: defaults of Pods, claims, taints, nodes, namespaces and Events.

The functions change the object in place. They run before validation, on create and update, so that an object
compared with its predecessor differs only where somebody changed it.
"""

import base64
from typing import Any

from dra_driver.embedded.apiserver.kinds import (
    DEPLOYMENT,
    EVENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    SECRET,
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
    elif kind is SECRET:
        _secret(obj)
    elif kind is WEBHOOK:
        _webhooks(obj)
    elif kind is DEPLOYMENT:
        _deployment(obj.setdefault("spec", {}))
    elif kind is JOB:
        _job(obj.setdefault("spec", {}), obj["metadata"])


def _event(obj: dict[str, Any]) -> None:
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(name, None)
    for name in ("reportingComponent", "reportingInstance"):
        obj.setdefault(name, "")
    obj.setdefault("source", {})


def _secret(obj: dict[str, Any]) -> None:
    obj.setdefault("type", "Opaque")
    for key, text in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


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


def _deployment(spec: dict[str, Any]) -> None:
    for name, value in (("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)):
        spec.setdefault(name, value)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    spec.setdefault("strategy", rolling)
    _pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _job(spec: dict[str, Any], metadata: dict[str, Any]) -> None:
    for name, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6), ("suspend", False)):
        spec.setdefault(name, value)
    spec.setdefault("completionMode", "NonIndexed")
    template = spec.setdefault("template", {})
    if not spec.get("manualSelector"):
        owner = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels |= {**owner, "batch.kubernetes.io/job-name": metadata.get("name", "")}
        spec["selector"] = {"matchLabels": owner}
    _pod_spec(template.setdefault("spec", {}))


def _pod_spec(spec: dict[str, Any]) -> None:
    """What a Pod and the template of one have in common."""
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
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
    ):
        spec.setdefault(name, value)


def _pod(spec: dict[str, Any]) -> None:
    _pod_spec(spec)
    for name, value in (
        ("serviceAccountName", "default"),
        ("serviceAccount", "default"),
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

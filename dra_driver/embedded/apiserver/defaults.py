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
    elif kind in {DEPLOYMENT, JOB}:
        _pod_spec(obj.setdefault("spec", {}).setdefault("template", {}).setdefault("spec", {}))


def _event(obj: dict[str, Any]) -> None:
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(name, None)
    for name in ("reportingComponent", "reportingInstance"):
        obj.setdefault(name, "")
    obj.setdefault("source", {})


def _secret(obj: dict[str, Any]) -> None:
    obj.setdefault("type", "Opaque")
    for key, text in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(text.encode(errors="replace")).decode()


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


def _pod_spec(spec: dict[str, Any]) -> None:
    """What a Pod and the template of one have in common, as far as anybody here reads it."""
    for container in (*(spec.get("initContainers") or []), *(spec.get("containers") or [])):
        resources = container.setdefault("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")


def _pod(spec: dict[str, Any]) -> None:
    _pod_spec(spec)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("priority", 0)
    tolerations = spec.setdefault("tolerations", [])
    for condition in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{condition}"
        if not any(toleration.get("key") in {key, None} for toleration in tolerations):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(toleration)

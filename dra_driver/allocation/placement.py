"""What speaks against a node before any device is looked at, with kube-scheduler's words."""

from collections.abc import Iterable, Mapping
from typing import Any

from dra_driver.allocation.nodes import matches
from dra_driver.allocation.taints import tolerates

Object = Mapping[str, Any]

_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def objection(pod: Object, node: Object) -> str | None:
    """Why the Pod may not run on the node; None where it may."""
    spec, tolerations = node.get("spec") or {}, pod["spec"].get("tolerations") or ()
    if spec.get("unschedulable") and not any(tolerates(one, _UNSCHEDULABLE) for one in tolerations):
        return "node(s) were unschedulable"
    for taint in spec.get("taints") or ():
        if taint["effect"] in {"NoSchedule", "NoExecute"} and not any(
            tolerates(one, taint) for one in tolerations
        ):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    if not _affinity(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def lacking(names: Iterable[str], node: Object) -> str | None:
    """The reason where an extended resource is offered neither by a class nor by the node."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    missing = [name for name in names if str(allocatable.get(name, "0")) == "0"]
    return f"Insufficient {missing[0]}" if missing else None


def _affinity(pod: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matches(required, node)

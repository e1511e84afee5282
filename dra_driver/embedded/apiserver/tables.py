"""Table output: what `kubectl get` prints is made by the server, column by column as the real one does."""

from collections.abc import Callable, Iterable
from typing import Any

from dra_driver.embedded.apiserver.durations import UNKNOWN, age
from dra_driver.embedded.apiserver.kinds import (
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    WEBHOOK,
    Kind,
)

Object = dict[str, Any]
Cell = str | int
_NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"


# A column: name, type, priority (1 is for -o wide); the first is the name.
_Column = tuple[str, str, int]


def _text(*names: str) -> tuple[_Column, ...]:
    return tuple((name, "string", 0) for name in names)


def _wide(*names: str) -> tuple[_Column, ...]:
    return tuple((name, "string", 1) for name in names)


def _created(obj: Object) -> str:
    return age(obj["metadata"].get("creationTimestamp"))


def _pod(obj: Object) -> list[Cell]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    statuses = status.get("containerStatuses") or []
    ready = sum(1 for container in statuses if container.get("ready"))
    restarts = sum(container.get("restartCount", 0) for container in statuses)
    return [
        obj["metadata"]["name"],
        f"{ready}/{len(spec.get('containers') or [])}",
        _pod_status(obj),
        str(restarts),
        _created(obj),
        status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _NONE,
    ]


def _pod_status(obj: Object) -> str:
    status = obj.get("status") or {}
    reason: str = status.get("reason") or status.get("phase") or "Pending"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    running = False
    for container in reversed(status.get("containerStatuses") or []):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended.get("reason"):
            reason = ended["reason"]
        elif ended:
            reason = (
                f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
            )
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        reason = "Running"
    if "deletionTimestamp" in obj["metadata"]:
        reason = "Terminating"
    return reason


def _node(obj: Object) -> list[Cell]:
    metadata, status = obj["metadata"], obj.get("status") or {}
    conditions = {entry.get("type"): entry.get("status") for entry in status.get("conditions") or []}
    ready = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    if (obj.get("spec") or {}).get("unschedulable"):
        ready += ",SchedulingDisabled"
    labels = metadata.get("labels") or {}
    roles = sorted(label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE))
    addresses = {entry.get("type"): entry.get("address") for entry in status.get("addresses") or []}
    info = status.get("nodeInfo") or {}
    return [
        metadata["name"],
        ready,
        ",".join(roles) or _NONE,
        _created(obj),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or _NONE,
        addresses.get("ExternalIP") or _NONE,
        info.get("osImage") or UNKNOWN,
        f"{info['kernelVersion']} ({info.get('architecture', '')})" if info.get("kernelVersion") else UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _event(obj: Object) -> list[Cell]:
    about, source = obj.get("involvedObject") or {}, obj.get("source") or {}
    series = obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return [
        age(last),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (obj.get("message") or "").strip(),
        age(first),
        series.get("count") or obj.get("count") or 1,
        obj["metadata"]["name"],
    ]


def _claim(obj: Object) -> list[Cell]:
    status = obj.get("status") or {}
    states = ["deleted"] if "deletionTimestamp" in obj["metadata"] else []
    if status.get("allocation"):
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return [obj["metadata"]["name"], ",".join(states), _created(obj)]


def _slice(obj: Object) -> list[Cell]:
    spec = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return [obj["metadata"]["name"], spec.get("nodeName", ""), spec.get("driver", ""), pool, _created(obj)]


_TABLES: dict[Kind, tuple[tuple[_Column, ...], Callable[[Object], list[Cell]]]] = {
    POD: (
        (
            *_text("Name", "Ready", "Status", "Restarts", "Age"),
            *_wide("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        _pod,
    ),
    NODE: (
        (
            *_text("Name", "Status", "Roles", "Age", "Version"),
            *_wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    EVENT: (
        (
            *_text("Last Seen", "Type", "Reason", "Object"),
            *_wide("Subobject", "Source"),
            *_text("Message"),
            *_wide("First Seen", "Count", "Name"),
        ),
        _event,
    ),
    NAMESPACE: (
        _text("Name", "Status", "Age"),
        lambda obj: [obj["metadata"]["name"], (obj.get("status") or {}).get("phase", ""), _created(obj)],
    ),
    RESOURCE_CLAIM: (_text("Name", "State", "Age"), _claim),
    RESOURCE_SLICE: (_text("Name", "Node", "Driver", "Pool", "Age"), _slice),
    WEBHOOK: (
        (*_text("Name"), ("Webhooks", "integer", 0), *_text("Age")),
        lambda obj: [obj["metadata"]["name"], len(obj.get("webhooks") or []), _created(obj)],
    ),
}
_PLAIN: tuple[tuple[_Column, ...], Callable[[Object], list[Cell]]] = (
    _text("Name", "Age"),
    lambda obj: [obj["metadata"]["name"], _created(obj)],
)
_EXTRA: dict[str, tuple[tuple[_Column, ...], Callable[[Object], list[Cell]]]] = {
    "configmaps": (
        _text("Name", "Data", "Age"),
        lambda obj: [
            obj["metadata"]["name"],
            len(obj.get("data") or {}) + len(obj.get("binaryData") or {}),
            _created(obj),
        ],
    ),
    "secrets": (
        _text("Name", "Type", "Data", "Age"),
        lambda obj: [obj["metadata"]["name"], obj.get("type", ""), len(obj.get("data") or {}), _created(obj)],
    ),
    "leases": (
        _text("Name", "Holder", "Age"),
        lambda obj: [
            obj["metadata"]["name"],
            (obj.get("spec") or {}).get("holderIdentity", ""),
            _created(obj),
        ],
    ),
}


def table(
    kind: Kind,
    objects: Iterable[Object],
    metadata: Object,
    *,
    include: str = "Metadata",
    columns: bool = True,
) -> Object:
    """A meta.k8s.io/v1 Table of `objects`.

    `include` says what stands behind each row: nothing ("None"), its metadata, or the whole "Object". Watches
    send the column definitions (`columns`) with the first event only.
    """
    defined, cells = _TABLES.get(kind) or _EXTRA.get(kind.resource.plural) or _PLAIN
    rows = []
    for obj in objects:
        row: Object = {"cells": cells(obj)}
        if include == "Metadata":
            row["object"] = partial(obj)
        elif include == "Object":
            row["object"] = obj
        rows.append(row)
    definitions = [
        {
            "name": name,
            "type": kind_of,
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": priority,
        }
        for name, kind_of, priority in defined
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions if columns else None,
        "rows": rows,
    }


def partial(obj: Object) -> Object:
    """The object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}

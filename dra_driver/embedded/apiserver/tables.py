"""Table output: what `kubectl get` prints is made by the server, column by column as the real one does."""

from collections.abc import Callable, Iterable
from typing import Any

from dra_driver.embedded.apiserver.durations import UNKNOWN, age
from dra_driver.embedded.apiserver.kinds import (
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SECRET,
    WEBHOOK,
    Kind,
)

Object = dict[str, Any]
Cell = str | int
_NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"


# A column: name, priority (1 is for -o wide).
_Column = tuple[str, int]


def _text(*names: str) -> tuple[_Column, ...]:
    return tuple((name, 0) for name in names)


def _wide(*names: str) -> tuple[_Column, ...]:
    return tuple((name, 1) for name in names)


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


def _claim_state(obj: Object) -> str:
    status = obj.get("status") or {}
    states = ["deleted"] if "deletionTimestamp" in obj["metadata"] else []
    if status.get("allocation"):
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


_Table = tuple[tuple[_Column, ...], Callable[[Object], list[Cell]]]


def _plain(*more: tuple[str, Callable[[Object], Cell]]) -> _Table:
    """Name and age, and what is between them."""

    def cells(obj: Object) -> list[Cell]:
        return [obj["metadata"]["name"], *(cell(obj) for _, cell in more), _created(obj)]

    return _text("Name", *(title for title, _ in more), "Age"), cells


def _at(path: str) -> Callable[[Object], Cell]:
    def cell(obj: Object) -> Cell:
        found: Any = obj
        for key in path.split("."):
            found = (found or {}).get(key)
        return found or ""

    return cell


_TABLES: dict[Kind, _Table] = {
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
    NAMESPACE: _plain(("Status", _at("status.phase"))),
    RESOURCE_CLAIM: _plain(("State", _claim_state)),
    RESOURCE_SLICE: _plain(
        ("Node", _at("spec.nodeName")), ("Driver", _at("spec.driver")), ("Pool", _at("spec.pool.name"))
    ),
    SECRET: _plain(("Type", _at("type")), ("Data", lambda obj: len(obj.get("data") or {}))),
    LEASE: _plain(("Holder", _at("spec.holderIdentity"))),
    WEBHOOK: _plain(("Webhooks", lambda obj: len(obj.get("webhooks") or []))),
}
_OTHERS = _plain()


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
    defined, cells = _TABLES.get(kind, _OTHERS)
    rows = []
    for obj in objects:
        row: Object = {"cells": cells(obj)}
        if include == "Metadata":
            head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = {**head, "metadata": obj["metadata"]}
        elif include == "Object":
            row["object"] = obj
        rows.append(row)
    definitions = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": priority,
        }
        for name, priority in defined
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions if columns else None,
        "rows": rows,
    }

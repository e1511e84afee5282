"""Events of the kubelet about Pods, merged by their text as client-go does.

An event that says the same again raises the count of the first. A Pod must not fail because an event cannot be
written, so failures are only logged.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import structlog

from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.events import EventType, event, timestamp
from dra_driver.kube.resources import EVENTS

log = structlog.get_logger(__name__)

_KEPT = 4096  # texts whose counts are remembered

_Key = tuple[str, ...]


class EventRecorder:
    """Writes core/v1 Events as kubelet of the node `node_name`."""

    def __init__(self, client: Client, node_name: str) -> None:
        self._client = client
        self._node_name = node_name
        self._known: OrderedDict[_Key, tuple[str, int]] = OrderedDict()  # name and count
        self._lock = threading.Lock()

    def warning(
        self, pod: Mapping[str, Any], reason: str, message: str, field_path: str | None = None
    ) -> None:
        self._record(pod, "Warning", reason, message, field_path)

    def normal(
        self, pod: Mapping[str, Any], reason: str, message: str, field_path: str | None = None
    ) -> None:
        self._record(pod, "Normal", reason, message, field_path)

    def _record(
        self, pod: Mapping[str, Any], kind: EventType, reason: str, message: str, field_path: str | None
    ) -> None:
        metadata = pod["metadata"]
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if field_path is not None:
            about["fieldPath"] = field_path
        key = metadata["uid"], field_path or "", kind, reason, message
        with self._lock:
            name, count = self._known.get(key, ("", 0))
        try:
            name = self._write(about, kind, reason, message, name, count + 1)
        except (ApiError, UnavailableError) as error:
            log.warning(
                "event not written",
                pod=f"{about['namespace']}/{about['name']}",
                reason=reason,
                err=str(error),
            )
            return
        with self._lock:
            self._known[key] = name, count + 1
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)

    def _write(
        self, about: Mapping[str, str], kind: EventType, reason: str, message: str, name: str, count: int
    ) -> str:
        if name:
            change = {"count": count, "lastTimestamp": timestamp()}
            try:
                self._client.patch(EVENTS, name, change, namespace=about["namespace"])
            except NotFoundError:
                pass  # expired: a new one
            else:
                return name
        # kubectl lists events of the same second by name, so that has the time in it.
        name = f"{about['name'][:200]}.{time.time_ns():x}"
        body = event(
            about,
            reason,
            message,
            name=name,
            type=kind,
            component="kubelet",
            host=self._node_name,
            count=count,
        )
        self._client.create(EVENTS, body)
        return name

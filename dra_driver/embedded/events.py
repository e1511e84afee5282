"""Events about Pods, counted up where one says the same again, as client-go does.

Nothing may fail or wait because an Event cannot be written, so that is only logged.
"""

import threading
import time
from collections import OrderedDict
from typing import Any

import structlog

from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.events import EventType, event, timestamp
from dra_driver.kube.resources import EVENTS

log = structlog.get_logger(__name__)

Object = dict[str, Any]
_Key = tuple[str, ...]

_REMEMBERED = 4096  # Events whose counts are known
_MAX_NAME = 200  # of the Pod in the Event's name, which has 17 characters more and may have 253


class PodEvents:
    """Writes core/v1 Events as `component` (on `host`); thread-safe."""

    def __init__(self, client: Client, component: str, host: str = "") -> None:
        self._client = client
        self._component = component
        self._host = host
        self._known: OrderedDict[_Key, Object] = OrderedDict()  # as they were last written
        self._lock = threading.Lock()

    def normal(self, pod: Object, reason: str, message: str, field_path: str = "") -> None:
        self._tell(pod, "Normal", reason, message, field_path)

    def warning(self, pod: Object, reason: str, message: str, field_path: str = "") -> None:
        self._tell(pod, "Warning", reason, message, field_path)

    def _tell(self, pod: Object, kind: EventType, reason: str, message: str, field_path: str) -> None:
        metadata = pod["metadata"]
        key = metadata["uid"], field_path, kind, reason, message
        with self._lock:
            known = self._known.get(key)
        # kubectl lists Events of the same second by name, so that has the time in it.
        name = f"{metadata['name'][:_MAX_NAME].rstrip('-.')}.{time.time_ns():x}"
        about = {"apiVersion": "v1", "kind": "Pod", "fieldPath": field_path}
        about |= {part: metadata[part] for part in ("namespace", "name", "uid", "resourceVersion")}
        body = event(
            {part: value for part, value in about.items() if value},
            reason,
            message,
            name=name,
            type=kind,
            component=self._component,
            host=self._host,
        )
        try:
            written = (known and self._count_up(known)) or self._client.create(EVENTS, body)
        except (ApiError, UnavailableError) as error:
            log.warning("event not written", pod=metadata["name"], reason=reason, err=str(error))
            return
        with self._lock:
            self._known[key] = written
            self._known.move_to_end(key)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def _count_up(self, known: Object) -> Object | None:
        change = {"count": known["count"] + 1, "lastTimestamp": timestamp()}
        metadata = known["metadata"]
        try:
            return self._client.patch(EVENTS, metadata["name"], change, namespace=metadata["namespace"])
        except NotFoundError:  # it has expired
            return None

"""Warnings of a controller about Pods, as Events that are counted up when they repeat.

Nothing may fail because an Event cannot be written, so that is only logged.
"""

import uuid
from typing import Any

import structlog

from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.events import event, timestamp
from dra_driver.kube.resources import EVENTS

log = structlog.get_logger(__name__)

Object = dict[str, Any]

_MAX_NAME = 200  # of the Pod in the Event's name, which has 17 characters more and may have 253


class PodWarnings:
    """Writes core/v1 Events; for one thread."""

    def __init__(self, client: Client, component: str) -> None:
        self._client = client
        self._component = component
        self._events: dict[tuple[str, str, str, str], Object] = {}  # by the Pod's names and UID, and message

    def forget(self, namespace: str, name: str) -> None:
        """Let go of what was said about a Pod that is gone or has ended."""
        self._events = {key: event for key, event in self._events.items() if key[:2] != (namespace, name)}

    def warn(self, pod: Object, reason: str, message: str) -> None:
        """Tell a Pod's owner; the same message again only raises the count."""
        try:
            self._write(pod, reason, message)
        except (ApiError, UnavailableError) as error:
            log.warning("cannot write an event", pod=pod["metadata"]["name"], reason=reason, err=str(error))

    def _write(self, pod: Object, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        namespace = metadata["namespace"]
        key = namespace, metadata["name"], metadata["uid"], message
        known = self._events.get(key)
        if known is not None:
            known["count"] += 1
            change = {"count": known["count"], "lastTimestamp": timestamp()}
            try:
                self._client.patch(EVENTS, known["metadata"]["name"], change, namespace=namespace)
            except NotFoundError:
                log.debug("event has expired", pod=metadata["name"], reason=reason)
            else:
                return
        about = {"kind": "Pod", "apiVersion": "v1"}
        about |= {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")}
        name = f"{metadata['name'][:_MAX_NAME].rstrip('-.')}.{uuid.uuid4().hex[:16]}"
        body = event(about, reason, message, name=name, type="Warning", component=self._component)
        self._events[key] = self._client.create(EVENTS, body)

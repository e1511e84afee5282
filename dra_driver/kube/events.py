"""Events: what people see in `kubectl describe` of a claim, a Pod or a Node.

Telling must never hinder doing: `record` only puts a note into memory, a thread sends it, and what cannot be sent
is logged and let go. There is one Event per object, reason and message. Its name is derived from these, so that
a restart, or another replica, counts up the same Event instead of adding a second one; repetitions are added up
in memory and written at most every ten seconds. Over all objects, a bucket of 25 refills by one a second.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self

import structlog

from dra_driver.errors import ApiError, UnavailableError, one_line
from dra_driver.kube.client import Client
from dra_driver.kube.errors import AlreadyExistsError, NotFoundError
from dra_driver.kube.reasons import Reason
from dra_driver.kube.resources import EVENTS

log = structlog.get_logger(__name__)

MAX_MESSAGE = 1024  # the API server refuses longer ones
_MAX_NAME = 253
_MAX_PENDING = 1000  # notes; beyond that something is wrong, and memory is worth more
_MAX_REMEMBERED = 2000
_REPEAT_SECONDS = 10.0
_BURST = 25
_PER_SECOND = 1.0
_FLUSH_SECONDS = 2.0

EventType = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an Event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""  # "" for objects without one; their Events are in "default"
    uid: str = ""

    @classmethod
    def to(cls, obj: Mapping[str, Any]) -> Self:
        """A reference to `obj`, which has apiVersion and kind."""
        metadata = obj["metadata"]
        return cls(
            obj["apiVersion"],
            obj["kind"],
            metadata["name"],
            metadata.get("namespace") or "",
            metadata.get("uid") or "",
        )

    def as_dict(self) -> dict[str, str]:
        parts = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
        }
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True, slots=True)
class _Note:
    about: Reference
    reason: Reason
    message: str
    type: EventType

    @property
    def namespace(self) -> str:
        return self.about.namespace or "default"

    @property
    def name(self) -> str:
        """Of the Event: the same for the same note, from whichever process."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        return f"{self.about.name[: _MAX_NAME - 17].rstrip('-.')}.{digest}"


class Recorder:
    """Records Events from any thread; `start` it, and `stop` it."""

    def __init__(self, client: Client, *, component: str, host: str = "") -> None:
        """`component` and `host`: who tells, such as the driver's name and its node."""
        self._client = client
        self._component = component
        self._host = host
        self._changed = threading.Condition()  # of what follows, up to _stopping
        self._pending: OrderedDict[_Note, int] = OrderedDict()  # how often since it was last sent
        self._not_before: OrderedDict[_Note, float] = OrderedDict()  # by time.monotonic
        self._dropped = 0
        self._stopping = False
        self._tokens = float(_BURST)
        self._refilled = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="record-events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send what can be sent at once, and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(_FLUSH_SECONDS)

    def record(
        self,
        about: Reference,
        reason: Reason,
        message: str,
        *,
        type: EventType = "Warning",  # noqa: A002 - the API's name
    ) -> None:
        """Tell `message` about an object; returns at once, and never raises."""
        text = " ".join(message.split())
        if len(text) > MAX_MESSAGE:
            text = text[: MAX_MESSAGE - 3] + "..."
        note = _Note(about, reason, text, type)
        with self._changed:
            if note not in self._pending and len(self._pending) >= _MAX_PENDING:
                self._dropped += 1
                return
            self._pending[note] = self._pending.get(note, 0) + 1
            self._changed.notify()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            note, count = due
            try:
                self._send(note, count)
            except (ApiError, UnavailableError) as error:
                log.warning(
                    "event not recorded", reason=note.reason, object=note.about.name, err=one_line(error)
                )
            except Exception:  # telling must not end, whatever an answer looks like
                log.exception("event not recorded", reason=note.reason, object=note.about.name)

    def _next(self) -> tuple[_Note, int] | None:
        """Wait for a note that may be sent; None: stop."""
        with self._changed:
            while True:
                if self._dropped:
                    log.warning("events dropped", count=self._dropped)
                    self._dropped = 0
                now = time.monotonic()
                self._tokens = min(_BURST, self._tokens + (now - self._refilled) * _PER_SECOND)
                self._refilled = now
                ready = {note: self._not_before.get(note, 0.0) for note in self._pending}
                first = min(ready, key=ready.__getitem__, default=None)
                if first is not None and self._tokens >= 1 and ready[first] <= now:
                    self._tokens -= 1
                    self._not_before[first] = now + _REPEAT_SECONDS
                    self._not_before.move_to_end(first)
                    if len(self._not_before) > _MAX_REMEMBERED:
                        self._not_before.popitem(last=False)
                    return first, self._pending.pop(first)
                if self._stopping:
                    return None
                if first is None:
                    self._changed.wait()
                else:
                    until_token = (1 - self._tokens) / _PER_SECOND
                    self._changed.wait(max(ready[first] - now, until_token, 0.01))

    def _send(self, note: _Note, count: int) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            self._client.create(EVENTS, self._event(note, count, now))
        except AlreadyExistsError:
            try:
                former = self._client.get(EVENTS, note.name, note.namespace)
                change = {"count": int(former.get("count") or 1) + count, "lastTimestamp": now}
                self._client.patch(EVENTS, note.name, change, namespace=note.namespace)
            except NotFoundError:  # it expired at this moment
                self._client.create(EVENTS, self._event(note, count, now))

    def _event(self, note: _Note, count: int, now: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": note.name, "namespace": note.namespace},
            "involvedObject": note.about.as_dict(),
            "reason": note.reason,
            "message": note.message,
            "type": note.type,
            "count": count,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {
                name: value for name, value in (("component", self._component), ("host", self._host)) if value
            },
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

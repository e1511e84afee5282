"""Events: what people see in `kubectl describe` of a claim, a Pod or a Node.

Telling must never hinder doing: `record` only puts a note into memory, a thread sends it, and what cannot be sent
is logged and let go. There is one Event per object, reason and message, or, for news that replaces what was said
before, one per object and reason; such news is what is true now, so where a server cannot take it now, it is sent later.
The name of an Event is derived from these, so that a restart, or another replica, counts up the
same Event instead of adding a second one; repetitions are added up in memory and written at most every ten seconds.
Over all objects, a bucket of 25 refills by one a second, unless the recorder is told otherwise.
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
from dra_driver.kube.errors import AlreadyExistsError, NotFoundError, ServerError, TooManyRequestsError
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

_PASSING = (UnavailableError, ServerError, TooManyRequestsError)

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
class _Topic:
    """What one Event is for; `message` is "" where it is replaced by newer ones."""

    about: Reference
    reason: Reason
    message: str

    @property
    def namespace(self) -> str:
        return self.about.namespace or "default"

    @property
    def name(self) -> str:
        """Of the Event: the same for the same topic, from whichever process."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        return f"{self.about.name[: _MAX_NAME - 17].rstrip('-.')}.{digest}"


@dataclass(frozen=True, slots=True)
class _Note:
    """What is to be told, and how often it was since it was last sent."""

    message: str
    type: EventType
    count: int


class Recorder:
    """Records Events from any thread; `start` it, and `stop` it."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        host: str = "",
        burst: int = _BURST,
        per_second: float = _PER_SECOND,
    ) -> None:
        """`component` and `host`: who tells, such as the driver's name and its node."""
        self._client = client
        self._component = component
        self._host = host
        self._changed = threading.Condition()  # of what follows, up to _stopping
        self._pending: OrderedDict[_Topic, _Note] = OrderedDict()
        self._not_before: OrderedDict[_Topic, float] = OrderedDict()  # by time.monotonic
        self._sending: _Topic | None = None  # whose note is on its way, and still true
        self._dropped = 0
        self._stopping = False
        self._burst = burst
        self._per_second = per_second
        self._tokens = float(burst)
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
        replaces: bool = False,
    ) -> None:
        """Tell `message` about an object; returns at once, and never raises.

        With `replaces` it takes the place of what was told before about the object for the same reason, also of what
        was not sent yet.
        """
        text = " ".join(message.split())
        if len(text) > MAX_MESSAGE:
            text = text[: MAX_MESSAGE - 3] + "..."
        topic = _Topic(about, reason, "" if replaces else text)
        with self._changed:
            known = self._pending.get(topic)
            if known is None and len(self._pending) >= _MAX_PENDING:
                self._dropped += 1
                return
            self._pending[topic] = _Note(text, type, 1 if known is None else known.count + 1)
            self._changed.notify()

    def withdraw(self, about: Reference, reason: Reason) -> None:
        """Do not send what `replaces` and is not sent yet: it is no longer true."""
        topic = _Topic(about, reason, "")
        with self._changed:
            self._pending.pop(topic, None)
            if self._sending == topic:
                self._sending = None

    @property
    def backlog(self) -> int:
        """How many Events wait to be sent; at a thousand they are dropped."""
        with self._changed:
            return len(self._pending)

    def _run(self) -> None:
        while (due := self._next()) is not None:
            topic, note = due
            try:
                self._send(topic, note)
            except (ApiError, UnavailableError) as error:
                log.warning(
                    "event not recorded", reason=topic.reason, object=topic.about.name, err=one_line(error)
                )
                if isinstance(error, _PASSING):
                    self._keep(topic, note)
            except Exception:  # telling must not end, whatever an answer looks like
                log.exception("event not recorded", reason=topic.reason, object=topic.about.name)

    def _keep(self, topic: _Topic, note: _Note) -> None:
        """Send later what replaces and what nothing newer has replaced meanwhile."""
        with self._changed:
            if not (topic.message or self._stopping) and self._sending == topic:
                self._pending.setdefault(topic, note)

    def _next(self) -> tuple[_Topic, _Note] | None:
        """Wait for a note that may be sent; None: stop."""
        with self._changed:
            while True:
                if self._dropped:
                    log.warning("events dropped", count=self._dropped)
                    self._dropped = 0
                now = time.monotonic()
                self._tokens = min(self._burst, self._tokens + (now - self._refilled) * self._per_second)
                self._refilled = now
                ready = {topic: self._not_before.get(topic, 0.0) for topic in self._pending}
                first = min(ready, key=ready.__getitem__, default=None)
                if first is not None and self._tokens >= 1 and ready[first] <= now:
                    self._tokens -= 1
                    self._sending = first
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
                    until_token = (1 - self._tokens) / self._per_second
                    self._changed.wait(max(ready[first] - now, until_token, 0.01))

    def _send(self, topic: _Topic, note: _Note) -> None:
        try:
            self._client.create(EVENTS, self._event(topic, note))
        except AlreadyExistsError:
            try:
                former = self._client.get(EVENTS, topic.name, topic.namespace)
                count = int(former.get("count") or 1) + note.count
                change = {
                    "count": count,
                    "lastTimestamp": timestamp(),
                    "message": note.message,
                    "type": note.type,
                }
                self._client.patch(EVENTS, topic.name, change, namespace=topic.namespace)
            except NotFoundError:  # it expired at this moment
                self._client.create(EVENTS, self._event(topic, note))

    def _event(self, topic: _Topic, note: _Note) -> dict[str, Any]:
        return event(
            topic.about.as_dict(),
            topic.reason,
            note.message,
            name=topic.name,
            type=note.type,
            component=self._component,
            host=self._host,
            count=note.count,
        )


def timestamp() -> str:
    """Now, as Events have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def event(
    about: Mapping[str, str],
    reason: str,
    message: str,
    *,
    name: str,
    type: EventType,  # noqa: A002 - the API's name
    component: str,
    host: str = "",
    count: int = 1,
) -> dict[str, Any]:
    """A core/v1 Event about the object that `about` refers to, first and last seen now."""
    now = timestamp()
    source = {"component": component, "host": host}
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": about.get("namespace") or "default"},
        "involvedObject": dict(about),
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "type": type,
        "count": count,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {key: value for key, value in source.items() if value},
        "reportingComponent": component,
        "reportingInstance": host,
    }

"""A copy of some objects of the API server that follows it: list, then watch, for as long as it takes.

The `kubernetes` library's watch and informer are not used: they ask again without a pause when a server closes
each watch at once (measured: 1,460 requests a second), know no bookmarks, and hang on a peer that is gone.

* A watch starts where the list, the last event or the last bookmark ended. 410 is normal and means list again; so does
  a version below those before, of a server that was restored from a backup, or made anew.
* What failed, or ended within a second, is tried again after 1 s to 30 s with jitter; a watch that held, or
  brought news, sets that back to 1 s.
* `adopt` and `forget` put in what our own writes returned. For a minute, older news about these objects, which
  may still be on its way, does not turn the copy back; afterwards the server is always right, since after a
  restore from a backup its versions are lower than what we remember. The answer may also be the late one: where
  the copy has the news of its version or a later one, it is left out, or it would bring back what was deleted
  since. So the copy and the version that it is of change under one lock: whoever adopted an answer finds it there.
* Lists come in pages, and what is kept is what `transform` makes of an object, so that a large list is never in
  memory as a whole. It has to keep what identifies an object: name, namespace, uid and resourceVersion.
* Handlers run in the reflector's thread. What they raise is logged, and nothing else happens.
"""

import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from dra_driver.errors import ApiError, UnavailableError, one_line
from dra_driver.kube.backoff import Backoff
from dra_driver.kube.client import Client
from dra_driver.kube.errors import GoneError, TooManyRequestsError
from dra_driver.kube.resources import Resource

log = structlog.get_logger(__name__)

_WATCH_SECONDS = 290  # below the five minutes after which load balancers like to cut
_WATCH_JITTER_SECONDS = 20  # so that a cluster's nodes do not all come back at once
_GOOD_SECONDS = 1.0
_OWN_SECONDS = 60.0
_STOP_SECONDS = 5.0
_PAGE = 250  # objects; of ResourceSlices with eight GPUs about 5 MB

_Key = tuple[str, str]  # namespace ("" where there is none), name


@dataclass(frozen=True, slots=True)
class _Own:
    """Our own last write to an object: news below its version is old, for a while."""

    version: float  # infinite for a deletion
    until: float  # by time.monotonic


class Reflector:
    """Follows the objects of a resource that match the selectors."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
        on_event: Callable[[str, dict[str, Any]], None] | None = None,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """`on_event` gets ADDED, MODIFIED or DELETED and the object, for every change but adopted ones.

        `transform` makes of each object what is kept of it, and handed on; where that is the same as before but for
        the resource version, nothing has changed.
        """
        self.name = resource.plural
        self.synced = threading.Event()  # set once the first list is in
        self.error: str | None = None  # why it does not follow at the moment
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._field_selector = field_selector
        self._label_selector = label_selector
        self._on_event = on_event
        self._transform = transform
        self._objects: dict[_Key, dict[str, Any]] = {}
        self._own: dict[str, _Own] = {}  # by uid
        self._heard = 0.0  # the version up to which the copy has all news
        self._lock = threading.Lock()  # of the three above
        self._stop = threading.Event()
        self._backoff = Backoff()
        self._thread = threading.Thread(target=self._run, name=f"reflect-{resource.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the watch and the thread; the copy stays readable."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def snapshot(self) -> list[dict[str, Any]]:
        """The objects as last heard of, in no order; they are shared, so copy one before changing it."""
        with self._lock:
            return list(self._objects.values())

    def get(self, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        with self._lock:
            return self._objects.get((namespace or "", name))

    def adopt(self, obj: dict[str, Any]) -> None:
        """Take in the answer to our own create, update or get, ahead of the watch."""
        version = _version(obj)
        with self._lock:
            if 0 < version <= self._heard:
                return
            self._remember(obj, version)
            self._objects[_key(obj)] = self._compact(obj)

    def forget(self, obj: Mapping[str, Any]) -> None:
        """Take out an object that we deleted, ahead of the watch."""
        with self._lock:
            self._remember(obj, math.inf)
            known = self._objects.get(_key(obj))
            if known is not None and _uid(known) == _uid(obj):  # else it was made again since
                del self._objects[_key(obj)]

    def _remember(self, obj: Mapping[str, Any], version: float) -> None:
        now = time.monotonic()
        self._own = {uid: own for uid, own in self._own.items() if own.until > now}
        self._own[_uid(obj)] = _Own(version, now + _OWN_SECONDS)

    def _run(self) -> None:
        version: str | None = None
        while not self._stop.is_set():
            started = time.monotonic()
            heard = False
            wait: float | None = None
            try:
                if version is None:
                    version = self._list()
                    started = time.monotonic()
                for event in self._client.watch(
                    self._resource,
                    namespace=self._namespace,
                    field_selector=self._field_selector,
                    label_selector=self._label_selector,
                    resource_version=version,
                    timeout_seconds=_WATCH_SECONDS + random.randrange(_WATCH_JITTER_SECONDS),  # noqa: S311 - spreads load
                    stop=self._stop,
                ):
                    heard = True
                    self.error = None
                    if event.type != "DELETED" and _version(event.object) < self._heard:
                        version = None
                        log.info(
                            "the server went back in time, listing again", resource=self._resource.plural
                        )
                        break
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type == "BOOKMARK":
                        with self._lock:
                            self._heard = _version(event.object)
                    else:
                        self._take(event.type, self._compact(event.object))
            except GoneError:
                version = None
                log.debug("resource version too old, listing again", resource=self._resource.plural)
            except (ApiError, UnavailableError) as error:
                wait = error.retry_after or 0 if isinstance(error, TooManyRequestsError) else 0
                self.error = str(error)
                log.warning("cannot follow", resource=self._resource.plural, err=self.error)
            except Exception as error:  # objects of another shape must not end what everybody relies on
                version, wait = None, 0
                self.error = one_line(error)
                log.exception("cannot follow", resource=self._resource.plural)
            held = time.monotonic() - started >= _GOOD_SECONDS
            if heard or (held and wait is None):
                self._backoff.reset()
            if wait is not None or not held:
                self._stop.wait(self._backoff.delay(wait))

    def _list(self) -> str:
        try:
            version, items = self._read(_PAGE)
        except GoneError:  # the pages of so old a state are gone already: all at once then, as client-go does
            version, items = self._read(None)
        listed = _version({"metadata": {"resourceVersion": version}})
        with self._lock:
            self._heard = listed
            gone = [
                obj
                for key, obj in self._objects.items()
                if key not in items and not self._is_own(obj, newer_than=listed)
            ]
            listing = [*(("DELETED", obj) for obj in gone), *(("ADDED", item) for item in items.values())]
            news = [(self._put(kind, obj), obj) for kind, obj in listing]
        for change, obj in news:
            self._tell(change, obj)
        self.error = None
        self.synced.set()
        return version

    def _read(self, limit: int | None) -> tuple[str, dict[_Key, dict[str, Any]]]:
        """The version of a list, and its objects; of those that have not changed, what we have."""
        version: str | None = None
        items: dict[_Key, dict[str, Any]] = {}
        for page in self._client.pages(
            self._resource,
            namespace=self._namespace,
            field_selector=self._field_selector,
            label_selector=self._label_selector,
            limit=limit,
        ):
            version = (page.get("metadata") or {}).get("resourceVersion")
            for item in page["items"]:
                key = _key(item)
                known = self._objects.get(key)
                items[key] = (
                    known if known is not None and _same_version(known, item) else self._compact(item)
                )
        if not version:
            msg = f"cannot list {self._resource.plural}: the answer has no resourceVersion"
            raise UnavailableError(msg)
        return version, items

    def _compact(self, obj: dict[str, Any]) -> dict[str, Any]:
        return obj if self._transform is None else self._transform(obj)

    def _is_own(self, obj: dict[str, Any], newer_than: float) -> bool:
        """Whether we wrote `obj` so lately, above the version `newer_than`, that other news of it is old."""
        own = self._own.get(_uid(obj))
        return own is not None and own.version > newer_than and own.until > time.monotonic()

    def _take(self, kind: str, obj: dict[str, Any]) -> None:
        """Bring an event into the copy, and tell the handler if that changed it."""
        with self._lock:
            self._heard = _version(obj)
            change = self._put(kind, obj)
        self._tell(change, obj)

    def _put(self, kind: str, obj: dict[str, Any]) -> str | None:
        """Bring an event, or a listed object, into the copy, under the lock; what changed by it, or None."""
        key = _key(obj)
        known = self._objects.get(key)
        if kind == "DELETED":
            if known is None or _uid(known) != _uid(obj):
                return None
            del self._objects[key]
            return kind
        if self._is_own(obj, newer_than=_version(obj)) or _same_version(known, obj):
            return None
        self._objects[key] = obj
        if known is None:
            return "ADDED"
        return None if self._transform is not None and _same_content(known, obj) else "MODIFIED"

    def _tell(self, change: str | None, obj: dict[str, Any]) -> None:
        if change is None or self._on_event is None:
            return
        try:
            self._on_event(change, obj)
        except Exception:  # a handler's mistake must not end what others follow
            log.exception("handler failed", resource=self._resource.plural, object="/".join(_key(obj)))


def _key(obj: Mapping[str, Any]) -> _Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _uid(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("uid", ""))


def _version(obj: Mapping[str, Any]) -> float:
    """The resource version as a number, which it is in every API server we can meet; else 0."""
    text = str((obj.get("metadata") or {}).get("resourceVersion", ""))
    return float(int(text)) if text.isascii() and text.isdigit() else 0.0


def _same_version(left: dict[str, Any] | None, right: dict[str, Any]) -> bool:
    return left is not None and (_uid(left), left["metadata"].get("resourceVersion")) == (
        _uid(right),
        right["metadata"].get("resourceVersion"),
    )


def _same_content(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    version = {"resourceVersion": left["metadata"].get("resourceVersion")}
    return bool(left == {**right, "metadata": {**right["metadata"], **version}})

"""Watch streams: the changes of a kind as a client with selectors sees them, with bookmarks, to their end.

A selector makes events of its own: an object that comes to match is ADDED, one that no longer does is
DELETED, in the state it had when it last matched. A stream ends after timeoutSeconds, with a last bookmark, or
when the server stops; a watch from a revision whose changes are forgotten gets one ERROR event with 410, in a
stream that was answered with 200.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty
from typing import Any

from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.kinds import Kind
from dra_driver.embedded.apiserver.selectors import Selector
from dra_driver.embedded.apiserver.storage import Change, CompactedError, Storage, Stored, Watch, encode

_IDLE_SECONDS = 1.0  # how often a silent stream looks whether its client is still there
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Render = Callable[[Stored], bytes]


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a watch asks for."""

    kind: Kind
    version: str
    namespace: str | None
    selector: Selector
    since: int | None  # None: from now, after the objects that there are
    timeout_seconds: float
    bookmarks: bool = False
    initial_events_end: bool = False  # sendInitialEvents: mark their end with a bookmark
    bookmark_seconds: float = 60.0

    def matches(self, stored: Stored | None) -> bool:
        if stored is None or (self.namespace and stored.key[0] != self.namespace):
            return False
        return self.selector.matches(stored.obj)


def follow(storage: Storage, request: WatchRequest, render: Render) -> Iterator[bytes]:
    """The events of a watch as lines of JSON; empty bytes when there was none to send for a while.

    `render` writes an object as the client wants it. Exceptions that the storage was interrupted with, and
    that are no StatusError, are raised.
    """
    try:
        watch, initial, revision = storage.watch(request.kind, request.since)
    except CompactedError as error:
        text = f"too old resource version: {request.since} ({error.oldest})"
        yield _line("ERROR", encode(status.expired(text).status()))
        return
    try:
        for stored in initial:
            if request.matches(stored):
                yield _line("ADDED", render(stored))
        if request.initial_events_end:
            yield _bookmark(request, revision, {_INITIAL_EVENTS_END: "true"})
        yield from _live(storage, watch, request, render)
    finally:
        storage.unwatch(watch)


def _live(storage: Storage, watch: Watch, request: WatchRequest, render: Render) -> Iterator[bytes]:
    deadline = time.monotonic() + request.timeout_seconds
    next_bookmark = time.monotonic() + request.bookmark_seconds
    while True:
        left = deadline - time.monotonic()
        # Asked for before the queue is looked at: with an empty queue, all changes up to it were sent.
        revision = storage.revision
        line = b""
        try:
            # What has happened before the end is told, however late this thread is.
            change = watch.changes.get(timeout=max(0.0, min(left, _IDLE_SECONDS)))
        except Empty:
            if left <= 0:
                break
        else:
            if change is None:
                return
            if isinstance(change, status.StatusError):
                yield _line("ERROR", encode(change.status()))
                return
            if isinstance(change, Exception):
                raise change
            revision = change.revision
            line = _event(request, change, render)
        yield line
        # Not only when nothing happens: all that does may be about objects that this client does not want.
        if request.bookmarks and time.monotonic() >= next_bookmark:
            next_bookmark = time.monotonic() + request.bookmark_seconds
            yield _bookmark(request, revision)
    if request.bookmarks:
        revision = storage.revision
        if watch.changes.empty():
            yield _bookmark(request, revision)


def _event(request: WatchRequest, change: Change, render: Render) -> bytes:
    """The change as this client sees it; empty where it sees none."""
    was, stored = request.matches(change.previous), change.stored
    now = change.type != "DELETED" and request.matches(stored)
    if now:
        return _line("MODIFIED" if was else "ADDED", render(stored))
    if not was or change.previous is None:
        return b""
    if change.type != "DELETED":
        metadata = {**change.previous.obj["metadata"], "resourceVersion": str(change.revision)}
        last = {**change.previous.obj, "metadata": metadata}
        stored = Stored(stored.kind, last, change.revision)
    return _line("DELETED", render(stored))


def _bookmark(request: WatchRequest, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    kind = request.kind
    obj = {"kind": kind.resource.kind, "apiVersion": kind.api_version(request.version), "metadata": metadata}
    return _line("BOOKMARK", encode(obj))


def _line(event: str, obj: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event.encode(), obj)

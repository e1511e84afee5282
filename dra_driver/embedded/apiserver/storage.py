"""Objects by kind and key under one revision counter, with the recent changes of each kind: etcd and watch
cache in one.

Invariants: a stored object is never changed in place, a write replaces it, so readers need no copies and
encoded bytes can be kept beside it; every write takes the next revision; watchers see the changes of their
kind in revision order without gaps. No rule of the Kubernetes API lives here, only compare-and-swap: see
`registry` for those. The lock is held for dictionary work alone, never while anything outside answers.
"""

import itertools
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Literal

from dra_driver.embedded.apiserver.kinds import KINDS, Kind

Key = tuple[str, str]  # namespace ("" for cluster-scoped kinds), name


class StaleError(Exception):
    """The object is not at the expected revision any more."""


class CompactedError(Exception):
    """Changes since the asked revision are not kept any more."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"oldest kept revision is {oldest}")
        self.oldest = oldest


class Stored:
    """An object at a revision, in the storage version, with its encoded bytes."""

    __slots__ = ("_item", "kind", "obj", "revision")

    def __init__(self, kind: Kind, obj: dict[str, Any], revision: int) -> None:
        self.kind = kind
        self.obj = obj
        self.revision = revision
        self._item: bytes | None = None

    @property
    def key(self) -> Key:
        metadata = self.obj["metadata"]
        return metadata.get("namespace", ""), metadata["name"]

    def item(self, version: str) -> bytes:
        """The object as it stands in lists, where the real server leaves out kind and apiVersion."""
        if version == "v1beta1":
            return _item(self.kind.served(self.obj, version))
        if self._item is None:
            self._item = _item(self.obj)
        return self._item

    def encoded(self, version: str) -> bytes:
        """The object in a served version."""
        head = f'{{"kind":"{self.kind.resource.kind}","apiVersion":"{self.kind.api_version(version)}",'
        return head.encode() + self.item(version)[1:]

    def copy(self, version: str | None = None) -> dict[str, Any]:
        """An object of the caller's own."""
        copied: dict[str, Any] = json.loads(self.encoded(version or self.kind.versions[0]))
        return copied


def _item(obj: dict[str, Any]) -> bytes:
    return encode({key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}})


def encode(value: Any) -> bytes:
    # JSON can spell a half of a surrogate pair, UTF-8 cannot.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the object after it (as it was last, with the new revision, for DELETED), and before."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    stored: Stored
    previous: Stored | None

    @property
    def revision(self) -> int:
        return self.stored.revision


@dataclass(slots=True)
class Watch:
    """Changes of one kind (of all for None) as they come; an exception, or None, says that no more will."""

    kind: Kind | None
    changes: "SimpleQueue[Change | Exception | None]" = field(default_factory=SimpleQueue)


class Storage:
    """All objects; thread-safe."""

    def __init__(self, kept_events: int) -> None:
        self._lock = threading.Lock()
        self._revisions = itertools.count(2)
        self._revision = 1
        self._objects: dict[Kind, dict[Key, Stored]] = {kind: {} for kind in KINDS}
        self._by_uid: dict[str, Stored] = {}
        self._history: dict[Kind, deque[Change]] = {kind: deque(maxlen=kept_events) for kind in KINDS}
        self._compacted = dict.fromkeys(KINDS, 0)  # revision of the last change that is not kept
        self._watches: list[Watch] = []
        self._is_closed = False

    @property
    def revision(self) -> int:
        """The last revision whose change every watch has in its queue."""
        with self._lock:
            return self._revision

    def get(self, kind: Kind, key: Key) -> Stored | None:
        return self._objects[kind].get(key)

    def by_uid(self, uid: str) -> Stored | None:
        return self._by_uid.get(uid)

    def items(self, kind: Kind, namespace: str | None = None) -> tuple[list[Stored], int]:
        """The objects in key order, of one namespace or all, and the revision they are of."""
        with self._lock:
            objects, revision = self._objects[kind], self._revision
            found = [stored for key, stored in objects.items() if not namespace or key[0] == namespace]
        return sorted(found, key=lambda stored: stored.key), revision

    def put(self, kind: Kind, obj: dict[str, Any], expected: int | None) -> Stored:
        """Store `obj` if its predecessor is at revision `expected`, or, for None, if there is none.

        Its resourceVersion is set here. Raises StaleError.
        """
        metadata = obj["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        with self._lock:
            previous = self._objects[kind].get(key)
            if (previous.revision if previous else None) != expected:
                raise StaleError
            stored = self._next(kind, obj)
            self._objects[kind][key] = stored
            self._by_uid[metadata["uid"]] = stored
            self._publish(kind, Change("MODIFIED" if previous else "ADDED", stored, previous))
        return stored

    def remove(self, kind: Kind, last: dict[str, Any], expected: int) -> Stored:
        """Delete the object if it is at revision `expected`; `last` is its last state. Raises StaleError."""
        metadata = last["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        with self._lock:
            previous = self._objects[kind].get(key)
            if previous is None or previous.revision != expected:
                raise StaleError
            del self._objects[kind][key]
            del self._by_uid[metadata["uid"]]
            stored = self._next(kind, last)
            self._publish(kind, Change("DELETED", stored, previous))
        return stored

    def _next(self, kind: Kind, obj: dict[str, Any]) -> Stored:
        self._revision = next(self._revisions)
        metadata = {**obj["metadata"], "resourceVersion": str(self._revision)}
        return Stored(kind, {**obj, "metadata": metadata}, self._revision)

    def _publish(self, kind: Kind, change: Change) -> None:
        history = self._history[kind]
        if len(history) == history.maxlen:
            self._compacted[kind] = history[0].revision if history else change.revision
        history.append(change)
        for watch in self._watches:
            if watch.kind is None or watch.kind is kind:
                watch.changes.put(change)

    def watch(self, kind: Kind | None, since: int | None = None) -> tuple[Watch, list[Stored], int]:
        """Start watching `kind` from behind revision `since`; None or 0 means now.

        Returns the watch, the objects at its start if it starts now, and the revision it starts at. Raises
        CompactedError if changes behind `since` are not kept any more.
        """
        watch = Watch(kind)
        with self._lock:
            if kind is not None and since:
                if since < self._compacted[kind]:
                    raise CompactedError(self._compacted[kind])
                for change in self._history[kind]:
                    if change.revision > since:
                        watch.changes.put(change)
            if self._is_closed:  # of a client whose answer had begun when the server stopped
                watch.changes.put(None)
            self._watches.append(watch)
            initial = [] if since or kind is None else list(self._objects[kind].values())
            return watch, initial, since or self._revision

    def unwatch(self, watch: Watch) -> None:
        with self._lock:
            if watch in self._watches:
                self._watches.remove(watch)
        watch.changes.put(None)

    def interrupt(self, plural: str | None, reason: Exception) -> None:
        """End the watches of one kind, or of each single kind, with `reason`."""
        with self._lock:
            for watch in self._watches:
                if watch.kind is not None and plural in {None, watch.kind.resource.plural}:
                    watch.changes.put(reason)

    def compact(self) -> None:
        """Forget all kept changes, as etcd does every five minutes: older watches get 410."""
        with self._lock:
            for kind in KINDS:
                self._history[kind].clear()
                self._compacted[kind] = self._revision

    def close(self) -> None:
        """End all watches, those too that begin later."""
        with self._lock:
            self._is_closed = True
            watches, self._watches = self._watches, []
        for watch in watches:
            watch.changes.put(None)

    def all(self, matches: Callable[[Stored], bool]) -> Iterator[Stored]:
        """Every object of any kind that `matches`, as of now."""
        with self._lock:
            everything = [stored for objects in self._objects.values() for stored in objects.values()]
        return filter(matches, everything)

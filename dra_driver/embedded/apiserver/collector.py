"""The background work of the control plane on the objects themselves: garbage and namespaces.

An object goes when none of its owners exists any more, which includes an owner named with a UID that never
was (a ResourceSlice of a Node that was re-created, say). Owners of kinds that are not served are taken to
exist. A namespace that is being deleted is emptied first. One thread looks at every change once.

`propagationPolicy: Foreground` is treated as Background: dependents go after their owner.
"""

import threading

from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.deletion import Deletion, owners
from dra_driver.embedded.apiserver.kinds import KINDS, NAMESPACE, Kind, find
from dra_driver.embedded.apiserver.options import DeleteOptions
from dra_driver.embedded.apiserver.storage import Change, Storage, Stored

_NAMESPACED = tuple(kind for kind in KINDS if kind.resource.namespaced)


class Collector:
    """Deletes what has lost its owners or its namespace."""

    def __init__(self, storage: Storage, deletion: Deletion) -> None:
        self._storage = storage
        self._deletion = deletion
        self._watch, _, _ = storage.watch(None)
        self._thread = threading.Thread(target=self._run, name="apiserver-collector")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._storage.unwatch(self._watch)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while isinstance(change := self._watch.changes.get(), Change):
            self._look_at(change)

    def _look_at(self, change: Change) -> None:
        stored = change.stored
        if change.type == "DELETED":
            uid = stored.obj["metadata"]["uid"]
            for dependent in self._storage.all(lambda found: uid in owners(found.obj)):
                self._collect(dependent)
            namespace = stored.obj["metadata"].get("namespace")
            home = self._storage.get(NAMESPACE, ("", namespace)) if namespace else None
            if home is not None:
                self._empty(home)
        else:
            self._collect(stored)
            if stored.kind is NAMESPACE:
                self._empty(stored)

    def _collect(self, stored: Stored) -> None:
        references = stored.obj["metadata"].get("ownerReferences")
        if not references or any(self._exists(reference) for reference in references):
            return
        self._delete(stored.kind, stored)

    def _exists(self, reference: dict[str, str]) -> bool:
        owner = self._storage.by_uid(reference["uid"])
        if owner is not None:
            return True
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        served = any(
            kind.resource.kind == reference.get("kind") and find(group, version, kind.resource.plural) is kind
            for kind in KINDS
        )
        return not served

    def _empty(self, namespace: Stored) -> None:
        if "deletionTimestamp" not in namespace.obj["metadata"]:
            return
        name = namespace.key[1]
        left = [stored for kind in _NAMESPACED for stored in self._storage.items(kind, name)[0]]
        for stored in left:
            self._delete(stored.kind, stored)
        if not any(self._storage.items(kind, name)[0] for kind in _NAMESPACED):
            self._deletion.modify(NAMESPACE, namespace.key, lambda obj: obj["spec"].pop("finalizers", None))

    def _delete(self, kind: Kind, stored: Stored) -> None:
        if "deletionTimestamp" in stored.obj["metadata"]:
            return
        try:
            self._deletion.delete(kind, stored.key, DeleteOptions(uid=stored.obj["metadata"]["uid"]))
        except status.StatusError as error:
            # Gone, or another object by now; anything else (a webhook's no) will be met again on its next change.
            if error.reason not in {"NotFound", "Conflict", "Forbidden", "InternalError"}:
                raise

"""The background work of the control plane on the objects themselves: garbage and namespaces.

An object goes when none of its owners exists any more, which includes an owner named with a UID that never
was (a ResourceSlice of a Node that was re-created, say). Owners of kinds that are not served are taken to
exist. A namespace that is being deleted is emptied first. One thread looks at every change once.

`propagationPolicy: Foreground` is treated as Background: dependents go after their owner.
"""

import threading

import structlog

from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.deletion import Deletion, owners
from dra_driver.embedded.apiserver.kinds import KINDS, NAMESPACE, Kind, find
from dra_driver.embedded.apiserver.options import DeleteOptions
from dra_driver.embedded.apiserver.storage import Change, Storage, Stored

log = structlog.get_logger(__name__)

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
        metadata, gone = stored.obj["metadata"], change.type == "DELETED"
        if gone:
            for dependent in self._storage.all(lambda found: metadata["uid"] in owners(found.obj)):
                self._collect(dependent)
        else:
            self._collect(stored)
        if stored.kind is NAMESPACE:
            self._empty(metadata["name"])
        elif namespace := metadata.get("namespace"):
            self._empty(namespace)
            if not gone and self._storage.get(NAMESPACE, ("", namespace)) is None:
                self._delete(stored.kind, stored)  # it was made while the namespace went

    def _collect(self, heard_of: Stored) -> None:
        # What was heard of may be old: since then it may have been left to itself, or given to another owner.
        stored = self._storage.by_uid(heard_of.obj["metadata"]["uid"])
        if stored is None:
            return
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

    def _empty(self, name: str) -> None:
        """Delete what is in a namespace that is to go, and let go of it once nothing is."""
        namespace = self._storage.get(NAMESPACE, ("", name))
        if namespace is None or "deletionTimestamp" not in namespace.obj["metadata"]:
            return
        for kind in _NAMESPACED:
            for stored in self._storage.items(kind, name)[0]:
                self._delete(kind, stored)
        if not any(self._storage.items(kind, name)[0] for kind in _NAMESPACED):
            self._deletion.modify(NAMESPACE, namespace.key, lambda obj: obj["spec"].pop("finalizers", None))

    def _delete(self, kind: Kind, stored: Stored) -> None:
        if "deletionTimestamp" in stored.obj["metadata"]:
            return
        options = DeleteOptions(resource_version=stored.obj["metadata"]["resourceVersion"])
        try:
            self._deletion.delete(kind, stored.key, options)
        except status.StatusError as error:
            # Gone, or changed, which will be looked at too; a webhook's no will be met again at the next change.
            log.debug("object not collected", kind=kind.resource.kind, key=stored.key, err=str(error))

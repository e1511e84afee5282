"""Deleting: marks, finalizers, grace periods, preconditions, collections; and changes by the server itself."""

from collections.abc import Callable
from typing import Any

from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.admission import Admission
from dra_driver.embedded.apiserver.incoming import now
from dra_driver.embedded.apiserver.kinds import NAMESPACE, POD, Kind
from dra_driver.embedded.apiserver.options import DeleteOptions
from dra_driver.embedded.apiserver.selectors import Selector
from dra_driver.embedded.apiserver.storage import Key, StaleError, Storage, Stored

Object = dict[str, Any]

_PROTECTED = ("default", "kube-system", "kube-public")  # namespaces that cannot be deleted
_MAX_GRACE_SECONDS = 2**31  # so that there is a date for its end


class Deletion:
    """Deletes objects, or marks them for it; thread-safe. Refusals are StatusError."""

    def __init__(self, storage: Storage, admission: Admission) -> None:
        self._storage = storage
        self._admission = admission

    def delete(self, kind: Kind, key: Key, options: DeleteOptions) -> tuple[Stored, bool]:
        """Delete an object, or mark it for deletion; its last state, and whether it is gone."""
        while True:
            stored = current(self._storage, kind, key)
            self._check_preconditions(kind, stored, options)
            if kind is NAMESPACE and key[1] in _PROTECTED:
                raise status.forbidden(kind.resource, key[1], "this namespace may not be deleted")
            self._admission.review("DELETE", kind, kind.versions[0], None, stored.obj, options)
            if options.orphan and not options.dry_run:
                self._orphan_dependents(stored.obj["metadata"]["uid"])
            new = stored.copy()
            metadata = new["metadata"]
            grace = _grace_seconds(kind, new, options.grace_seconds)
            left = metadata.get("deletionGracePeriodSeconds")
            if "deletionTimestamp" not in metadata or (kind is POD and left is not None and grace < left):
                metadata["deletionTimestamp"] = now(grace)
                if kind is not NAMESPACE:
                    metadata["deletionGracePeriodSeconds"] = grace
                if kind is POD and left is None:
                    metadata["generation"] = metadata.get("generation", 0) + 1
                if kind is NAMESPACE:
                    new["status"] = {"phase": "Terminating"}
            gone = is_finished(kind, new)
            if options.dry_run:
                return stored, gone
            if not gone and new == stored.obj:
                return stored, False
            try:
                if gone:
                    marked = kind is POD or "deletionTimestamp" in stored.obj["metadata"]
                    last = new if marked else stored.obj
                    return self._storage.remove(kind, last, stored.revision), True
                return self._storage.put(kind, new, stored.revision), False
            except StaleError:
                continue

    def _check_preconditions(self, kind: Kind, stored: Stored, options: DeleteOptions) -> None:
        metadata = stored.obj["metadata"]
        for name, wanted, found, hint in (
            ("UID", options.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", options.resource_version, metadata["resourceVersion"], "modified"),
        ):
            if wanted is not None and wanted != found:
                why = (
                    f"the {name} in the precondition ({wanted}) does not match the {name} in record ({found}). "
                    f"The object might have been {hint}"
                )
                raise status.conflict(kind.resource, metadata["name"], why, kind=kind.resource.kind)

    def _orphan_dependents(self, uid: str) -> None:
        for dependent in self._storage.all(lambda stored: uid in owners(stored.obj)):
            self.modify(dependent.kind, dependent.key, lambda obj: disown(obj, uid))

    def delete_collection(
        self, kind: Kind, namespace: str | None, selector: Selector, options: DeleteOptions
    ) -> list[Stored]:
        """Delete all objects that `selector` matches; returns those that there were."""
        found, _ = self._storage.items(kind, namespace)
        matching = [stored for stored in found if selector.matches(stored.obj)]
        for stored in matching:
            try:
                self.delete(kind, stored.key, options)
            except status.StatusError as error:
                if error.reason != "NotFound":
                    raise
        return matching

    def modify(self, kind: Kind, key: Key, change: Callable[[Object], None]) -> None:
        """Let the server itself change an object, past all rules; no error if it is gone."""
        while (stored := self._storage.get(kind, key)) is not None:
            new = stored.copy()
            change(new)
            try:
                if is_finished(kind, new):
                    self._storage.remove(kind, new, stored.revision)
                elif new != stored.obj:
                    self._storage.put(kind, new, stored.revision)
            except StaleError:
                continue
            return


def current(storage: Storage, kind: Kind, key: Key) -> Stored:
    """The object as it is; 404 if it is not."""
    stored = storage.get(kind, key)
    if stored is None:
        raise status.not_found(kind.resource, key[1])
    return stored


def owners(obj: Object) -> set[str]:
    """The UIDs of the owners of `obj`."""
    return {owner["uid"] for owner in obj["metadata"].get("ownerReferences") or []}


def disown(obj: Object, uid: str) -> None:
    """Remove the owner `uid` from `obj`."""
    metadata = obj["metadata"]
    kept = [owner for owner in metadata.pop("ownerReferences", []) if owner["uid"] != uid]
    if kept:
        metadata["ownerReferences"] = kept


def _grace_seconds(kind: Kind, obj: Object, asked: int | None) -> int:
    """How long a Pod that runs has to end; nothing else has any grace."""
    if kind is not POD or not obj["spec"].get("nodeName"):
        return 0
    if (obj.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    seconds = obj["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return min(max(seconds, 0), _MAX_GRACE_SECONDS)


def is_finished(kind: Kind, obj: Object) -> bool:
    """Whether an object that is being deleted has nothing to wait for any more."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind is NAMESPACE:
        return not obj.get("spec", {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")

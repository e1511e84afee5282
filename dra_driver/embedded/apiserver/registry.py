"""The write semantics of the Kubernetes API over the plain `storage`.

Order of a write, as in the real server: decode, take over what this endpoint may not change, defaults, drop
fields of disabled gates, validate, admission webhooks, compare-and-swap. Webhooks may call back, so nothing is
locked while they answer; a writer that lost the race starts again from the new object, or gets 409 if it had
named a resourceVersion.
"""

import contextlib
import copy
import dataclasses
import random
import uuid
from collections.abc import Callable
from typing import Any

from dra_driver.embedded.apiserver import applying, incoming, ownership, patches, status
from dra_driver.embedded.apiserver.admission import Admission
from dra_driver.embedded.apiserver.deletion import current, is_finished
from dra_driver.embedded.apiserver.kinds import NAMESPACE, Kind
from dra_driver.embedded.apiserver.options import WriteOptions
from dra_driver.embedded.apiserver.paths import Target
from dra_driver.embedded.apiserver.storage import StaleError, Storage, Stored
from dra_driver.kube.resources import NAMESPACES

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_TRIES = 8
_MAX_GENERATED_PREFIX = 58
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

Object = dict[str, Any]


class Registry:
    """Create, update, patch and apply; thread-safe. Refusals are StatusError.

    The targets are those of the requests: a collection to create in, else an object or its status.
    """

    def __init__(self, storage: Storage, admission: Admission, disabled_features: frozenset[str]) -> None:
        self._storage = storage
        self._admission = admission
        self._disabled = disabled_features

    # Creating

    def create(self, target: Target, body: Any, options: WriteOptions) -> Stored:
        """Create an object from what a client sent."""
        obj = incoming.decode(target, body, options)
        metadata = obj.setdefault("metadata", {})
        if target.kind.resource.namespaced:
            namespace, _ = target.key
            if metadata.setdefault("namespace", namespace) != namespace:
                raise status.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            self._check_namespace(target.kind, namespace, metadata.get("name", ""))
        else:
            metadata.pop("namespace", None)
        if metadata.get("resourceVersion"):
            raise status.internal("resourceVersion should not be set on objects to be created")
        return self._create(target, obj, options)

    def _create(
        self, target: Target, obj: Object, options: WriteOptions, *, operation: str = "Update"
    ) -> Stored:
        kind, metadata = target.kind, obj["metadata"]
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
            metadata.pop(name, None)
        # The selector of a watch must not see an object half made: all system fields are set before it is stored.
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": incoming.now()}
        metadata.pop("generation", None)
        if kind.has_generation:
            metadata["generation"] = 1
        prefix = "" if metadata.get("name") else metadata.get("generateName", "")[:_MAX_GENERATED_PREFIX]
        if prefix:
            metadata["name"] = _generated(prefix)
        self._prepare(target, obj, None)
        manager = _manager(target, operation, options)
        if operation == "Apply":
            owned = {manager: (frozenset(ownership.leaves(kind, obj)), incoming.now())}
        else:
            owned = ownership.after_update(kind, {}, obj, {}, manager, incoming.now())
        ownership.note(obj, owned)
        self._admission.review("CREATE", kind, target.version, obj, None, options)
        for _ in range(_NAME_TRIES if prefix else 1):
            key = metadata.get("namespace", ""), metadata["name"]
            if self._storage.get(kind, key) is None:
                if options.dry_run:
                    return Stored(kind, obj, 0)
                with contextlib.suppress(StaleError):
                    return self._storage.put(kind, obj, None)
            if prefix:
                metadata["name"] = _generated(prefix)
        raise status.already_exists(kind.resource, key[1])

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        stored = self._storage.get(NAMESPACE, ("", namespace))
        if stored is None:
            raise status.not_found(NAMESPACES, namespace)
        if "deletionTimestamp" in stored.obj["metadata"]:
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise status.forbidden(kind.resource, name, why, [cause])

    # Updating

    def update(self, target: Target, body: Any, options: WriteOptions) -> Stored:
        """Replace an object, or its status, by what a client sent."""
        obj = incoming.decode(target, body, options)
        return self._change(target, lambda _: copy.deepcopy(obj), options)

    def patch(
        self, target: Target, patch: Any, content_type: str, options: WriteOptions
    ) -> tuple[Stored, bool]:
        """Patch or apply; also tells whether the object was created, which only an apply does."""
        if content_type == APPLY:
            return self._apply(target, patch, options)

        def change(stored: Stored) -> Object:
            old = stored.copy(target.version)
            if content_type == JSON_PATCH:
                try:
                    new = patches.json_patch(old, patch)
                except patches.PatchError as error:
                    text = "the server rejected our request due to an error in our request"
                    raise status.StatusError(422, "Invalid", text, {}) from error
            elif not isinstance(patch, dict):
                raise status.bad_request(
                    "error decoding patch: json: cannot unmarshal into Go value of type map"
                )
            elif content_type == MERGE_PATCH:
                new = patches.merge(old, patch)
            else:
                definition = target.kind.definition_in(target.version)
                new = patches.strategic_merge(old, patch, {"$ref": definition})
            return incoming.decode(target, new, options)

        return self._change(target, change, options), False

    def _apply(self, target: Target, body: Any, options: WriteOptions) -> tuple[Stored, bool]:
        kind, (namespace, name) = target.kind, target.key
        config = incoming.decode(target, body, options, canonical=False)
        metadata = config.setdefault("metadata", {})
        if "managedFields" in metadata:
            raise status.bad_request("metadata.managedFields must be nil")
        if metadata.setdefault("name", name) != name:
            raise status.bad_request(incoming.other_name(metadata["name"], name))
        if namespace:
            metadata["namespace"] = namespace
        manager = _manager(target, "Apply", options)
        as_stored = dataclasses.replace(target, version=kind.versions[0])

        def create() -> Stored:
            if target.subresource:
                raise status.not_found(kind.resource, name)
            if namespace:
                self._check_namespace(kind, namespace, name)
            new = incoming.decode(as_stored, config, options)
            new["metadata"].pop("resourceVersion", None)
            return self._create(target, new, options, operation="Apply")

        def change(stored: Stored) -> Object:
            managed = ownership.read(stored.obj["metadata"].get("managedFields"))
            merged, owned = applying.apply(kind, stored.copy(), config, managed, manager, force=options.force)
            new = incoming.decode(as_stored, merged, options)
            times = {
                who: managed[who][1] if who in managed and managed[who][0] == fields else incoming.now()
                for who, fields in owned.items()
            }
            ownership.note(new, {who: (fields, times[who]) for who, fields in owned.items()})
            return new

        while True:
            missing = self._storage.get(kind, target.key) is None
            try:
                return create() if missing else self._change(target, change, options, applies=True), missing
            except status.StatusError as error:
                # Somebody else created or deleted the object meanwhile: look again.
                if error.reason != ("AlreadyExists" if missing else "NotFound"):
                    raise

    def _change(
        self,
        target: Target,
        change: Callable[[Stored], Object],
        options: WriteOptions,
        *,
        applies: bool = False,
    ) -> Stored:
        kind = target.kind
        while True:
            stored = current(self._storage, kind, target.key)
            new = change(stored)
            incoming.check_identity(kind, target.key, new, stored)
            old = stored.obj
            given = new["metadata"].get("managedFields")
            self._prepare(target, new, old)
            if not applies:
                managed = ownership.read(given or old["metadata"].get("managedFields"))
                manager = _manager(target, "Update", options)
                ownership.note(new, ownership.after_update(kind, old, new, managed, manager, incoming.now()))
            if ownership.is_same(new, old):
                return stored
            self._admission.review("UPDATE", kind, target.version, new, old, options)
            if options.dry_run:
                return Stored(kind, new, stored.revision)
            try:
                if is_finished(kind, new):
                    return self._storage.remove(kind, new, stored.revision)
                return self._storage.put(kind, new, stored.revision)
            except StaleError:
                # From the new object: a version that was asked for will not be there any more, which is a 409.
                continue

    def _prepare(self, target: Target, new: Object, old: Object | None) -> None:
        namespace = new["metadata"].get("namespace")
        home = self._storage.get(NAMESPACE, ("", namespace)) if namespace else None
        labels = home.obj["metadata"].get("labels") or {} if home else {}
        incoming.prepare(target, new, old, disabled=self._disabled, namespace_labels=labels)


def _manager(target: Target, operation: str, options: WriteOptions) -> ownership.Manager:
    return ownership.Manager(options.manager, operation, target.api_version, target.subresource or "")


def _generated(prefix: str) -> str:
    return prefix + "".join(random.choices(_NAME_LETTERS, k=5))  # noqa: S311 - a name

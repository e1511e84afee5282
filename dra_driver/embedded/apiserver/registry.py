"""The write semantics of the Kubernetes API over the plain `storage`.

Order of a write, as in the real server: decode, take over what this endpoint may not change, defaults, drop
fields of disabled gates, validate, admission webhooks, compare-and-swap. Webhooks may call back, so nothing is
locked while they answer; a writer that lost the race starts again from the new object, or gets 409 if it had
named a resourceVersion.
"""

import contextlib
import copy
import random
import uuid
from collections.abc import Callable
from typing import Any

from dra_driver.embedded.apiserver import applying, incoming, ownership, patches, status
from dra_driver.embedded.apiserver.admission import Admission
from dra_driver.embedded.apiserver.deletion import current, is_finished
from dra_driver.embedded.apiserver.kinds import NAMESPACE, Kind
from dra_driver.embedded.apiserver.options import WriteOptions
from dra_driver.embedded.apiserver.storage import Key, StaleError, Storage, Stored
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
    """Create, update, patch and apply; thread-safe. Refusals are StatusError."""

    def __init__(self, storage: Storage, admission: Admission, disabled_features: frozenset[str]) -> None:
        self._storage = storage
        self._admission = admission
        self._disabled = disabled_features

    # Creating

    def create(self, kind: Kind, version: str, namespace: str, body: Any, options: WriteOptions) -> Stored:
        """Create an object from what a client sent."""
        obj = incoming.decode(kind, version, body, options)
        metadata = obj.setdefault("metadata", {})
        if kind.resource.namespaced:
            if metadata.setdefault("namespace", namespace) != namespace:
                raise status.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            self._check_namespace(kind, namespace, metadata.get("name", ""))
        else:
            metadata.pop("namespace", None)
        if metadata.get("resourceVersion"):
            raise status.internal("resourceVersion should not be set on objects to be created")
        return self._create(kind, version, obj, options)

    def _create(
        self, kind: Kind, version: str, obj: Object, options: WriteOptions, *, operation: str = "Update"
    ) -> Stored:
        metadata = obj["metadata"]
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
        self._prepare(kind, obj, None, None)
        manager = ownership.Manager(options.manager, operation, kind.api_version(version))
        if operation == "Apply":
            owned = {manager: (frozenset(ownership.leaves(kind, obj)), incoming.now())}
        else:
            owned = ownership.after_update(kind, {}, obj, {}, manager, incoming.now())
        self._set_managed(obj, owned)
        self._admission.review("CREATE", kind, version, obj, None, options)
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

    def update(
        self, kind: Kind, version: str, key: Key, body: Any, subresource: str | None, options: WriteOptions
    ) -> Stored:
        """Replace an object, or its status, by what a client sent."""
        obj = incoming.decode(kind, version, body, options)

        def replace(_: Stored) -> Object:
            return copy.deepcopy(obj)

        return self._change(kind, version, key, replace, subresource, options)

    def patch(
        self,
        kind: Kind,
        version: str,
        key: Key,
        patch: Any,
        content_type: str,
        subresource: str | None,
        options: WriteOptions,
    ) -> tuple[Stored, bool]:
        """Patch or apply; also tells whether the object was created, which only an apply does."""
        if content_type == APPLY:
            return self._apply(kind, version, key, patch, subresource, options)

        def change(stored: Stored) -> Object:
            old = stored.copy(version)
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
                new = patches.strategic_merge(old, patch, {"$ref": kind.definition_in(version)})
            return incoming.decode(kind, version, new, options)

        return self._change(kind, version, key, change, subresource, options), False

    def _apply(
        self, kind: Kind, version: str, key: Key, body: Any, subresource: str | None, options: WriteOptions
    ) -> tuple[Stored, bool]:
        config = incoming.decode(kind, version, body, options, canonical=False)
        metadata = config.setdefault("metadata", {})
        if "managedFields" in metadata:
            raise status.bad_request("metadata.managedFields must be nil")
        if metadata.setdefault("name", key[1]) != key[1]:
            raise status.bad_request(incoming.other_name(metadata["name"], key[1]))
        if key[0]:
            metadata["namespace"] = key[0]
        manager = ownership.Manager(options.manager, "Apply", kind.api_version(version), subresource or "")

        def change(stored: Stored) -> Object:
            managed = ownership.read(stored.obj["metadata"].get("managedFields"))
            merged, owned = applying.apply(kind, stored.copy(), config, managed, manager, force=options.force)
            new = incoming.decode(kind, kind.versions[0], merged, options)
            times = {
                who: managed[who][1] if who in managed and managed[who][0] == fields else incoming.now()
                for who, fields in owned.items()
            }
            self._set_managed(new, {who: (fields, times[who]) for who, fields in owned.items()})
            return new

        while True:
            missing = self._storage.get(kind, key) is None
            try:
                if missing:
                    return self._create_applied(kind, version, key, config, subresource, options), True
                return self._change(kind, version, key, change, subresource, options, applies=True), False
            except status.StatusError as error:
                # Somebody else created or deleted the object meanwhile: look again.
                if error.reason != ("AlreadyExists" if missing else "NotFound"):
                    raise

    def _create_applied(
        self,
        kind: Kind,
        version: str,
        key: Key,
        config: Object,
        subresource: str | None,
        options: WriteOptions,
    ) -> Stored:
        if subresource:
            raise status.not_found(kind.resource, key[1])
        if key[0]:
            self._check_namespace(kind, *key)
        new = incoming.decode(kind, kind.versions[0], config, options)
        new["metadata"].pop("resourceVersion", None)
        return self._create(kind, version, new, options, operation="Apply")

    def _change(
        self,
        kind: Kind,
        version: str,
        key: Key,
        change: Callable[[Stored], Object],
        subresource: str | None,
        options: WriteOptions,
        *,
        applies: bool = False,
    ) -> Stored:
        while True:
            stored = current(self._storage, kind, key)
            new = change(stored)
            incoming.check_identity(kind, key, new, stored)
            old = stored.obj
            metadata = new["metadata"]
            given = metadata.get("managedFields")
            self._prepare(kind, new, old, subresource)
            if not applies:
                managed = ownership.read(given or old["metadata"].get("managedFields"))
                manager = ownership.Manager(
                    options.manager, "Update", kind.api_version(version), subresource or ""
                )
                self._set_managed(
                    new, ownership.after_update(kind, old, new, managed, manager, incoming.now())
                )
            if _same(new, old):
                return stored
            self._admission.review("UPDATE", kind, version, new, old, options)
            if options.dry_run:
                return Stored(kind, new, stored.revision)
            try:
                if is_finished(kind, new):
                    return self._storage.remove(kind, new, stored.revision)
                return self._storage.put(kind, new, stored.revision)
            except StaleError:
                # From the new object: a version that was asked for will not be there any more, which is a 409.
                continue

    def _prepare(self, kind: Kind, new: Object, old: Object | None, subresource: str | None) -> None:
        namespace = new["metadata"].get("namespace")
        home = self._storage.get(NAMESPACE, ("", namespace)) if namespace else None
        incoming.prepare(
            kind,
            new,
            old,
            subresource,
            disabled=self._disabled,
            namespace_labels=home.obj["metadata"].get("labels") or {} if home else {},
        )

    def _set_managed(self, obj: Object, managed: ownership.Managed) -> None:
        entries = ownership.write(managed)
        obj["metadata"].pop("managedFields", None)
        if entries:
            obj["metadata"]["managedFields"] = entries


def _generated(prefix: str) -> str:
    return prefix + "".join(random.choices(_NAME_LETTERS, k=5))  # noqa: S311 - a name


def _same(new: Object, old: Object) -> bool:
    """Whether a write changes nothing; times of field managers alone are no change."""

    def timeless(obj: Object) -> Object:
        metadata = dict(obj["metadata"])
        entries = metadata.pop("managedFields", [])
        metadata["managedFields"] = [{**entry, "time": ""} for entry in entries]
        return {**obj, "metadata": metadata}

    return timeless(new) == timeless(old)

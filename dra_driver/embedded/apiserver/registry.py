"""The write semantics of the Kubernetes API over the plain `storage`.

Order of a write, as in the real server: decode, take over what this endpoint may not change, defaults, drop
fields of disabled gates, validate, admission webhooks, compare-and-swap. Webhooks may call back, so nothing is
locked while they answer; a writer that lost the race starts again from the new object, or gets 409 if it had
named a resourceVersion.
"""

import copy
import random
import time
import uuid
from collections.abc import Callable
from typing import Any

from dra_driver.embedded.apiserver import defaults, gates, ownership, patches, rules, schema, status
from dra_driver.embedded.apiserver.admission import Admission
from dra_driver.embedded.apiserver.kinds import NAMESPACE, POD, Kind
from dra_driver.embedded.apiserver.options import DeleteOptions, WriteOptions
from dra_driver.embedded.apiserver.selectors import Selector
from dra_driver.embedded.apiserver.storage import Key, StaleError, Storage, Stored
from dra_driver.kube.resources import NAMESPACES
from dra_driver.resource.problems import required

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_TRIES = 8
_MAX_GENERATED_PREFIX = 58
APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

Object = dict[str, Any]


def now(offset: int = 0) -> str:
    """The server's time, `offset` seconds from now, as objects carry it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + offset))


class Registry:
    """Create, update, patch, apply and delete; thread-safe. Refusals are StatusError."""

    def __init__(self, storage: Storage, admission: Admission, disabled_features: frozenset[str]) -> None:
        self._storage = storage
        self._admission = admission
        self._disabled = disabled_features

    # Reading

    def current(self, kind: Kind, key: Key) -> Stored:
        stored = self._storage.get(kind, key)
        if stored is None:
            raise status.not_found(kind.resource, key[1])
        return stored

    # Creating

    def create(self, kind: Kind, version: str, namespace: str, body: Any, options: WriteOptions) -> Stored:
        """Create an object from what a client sent."""
        obj = self._decode(kind, version, body, options)
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
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
        metadata.pop("generation", None)
        if kind.has_generation:
            metadata["generation"] = 1
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        for attempt in range(_NAME_TRIES if generated else 1):
            if generated:
                prefix = metadata["generateName"][:_MAX_GENERATED_PREFIX]
                metadata["name"] = prefix + "".join(random.choices(_NAME_LETTERS, k=5))  # noqa: S311 - a name
            if attempt == 0:
                self._prepare(kind, obj, None, None)
                manager = ownership.Manager(options.manager, operation, kind.api_version(version))
                if operation == "Apply":
                    owned = {manager: (frozenset(ownership.leaves(kind, obj)), now())}
                else:
                    owned = ownership.after_update(kind, {}, obj, {}, manager, now())
                self._set_managed(obj, owned)
                self._admission.review("CREATE", kind, version, obj, None, options)
            key = metadata.get("namespace", ""), metadata["name"]
            if self._storage.get(kind, key) is None:
                if options.dry_run:
                    return Stored(kind, obj, 0)
                try:
                    return self._storage.put(kind, obj, None)
                except StaleError:
                    continue
        raise status.already_exists(kind.resource, metadata["name"])

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
        obj = self._decode(kind, version, body, options)

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
        if content_type in APPLY:
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
                new = patches.strategic_merge(old, patch, {"$ref": kind.definition})
            return self._decode(kind, version, new, options)

        return self._change(kind, version, key, change, subresource, options), False

    def _apply(
        self, kind: Kind, version: str, key: Key, body: Any, subresource: str | None, options: WriteOptions
    ) -> tuple[Stored, bool]:
        config = self._decode(kind, version, body, options, canonical=False)
        metadata = config.setdefault("metadata", {})
        if "managedFields" in metadata:
            raise status.bad_request("metadata.managedFields must be nil")
        if metadata.setdefault("name", key[1]) != key[1]:
            raise status.bad_request(_other_name(metadata["name"], key[1]))
        if key[0]:
            metadata["namespace"] = key[0]
        if self._storage.get(kind, key) is None:
            if subresource:
                raise status.not_found(kind.resource, key[1])
            if key[0]:
                self._check_namespace(kind, *key)
            metadata.pop("resourceVersion", None)
            new = self._decode(kind, kind.versions[0], config, options)
            return self._create(kind, version, new, options, operation="Apply"), True
        manager = ownership.Manager(options.manager, "Apply", kind.api_version(version), subresource or "")

        def change(stored: Stored) -> Object:
            managed = ownership.read(stored.obj["metadata"].get("managedFields"))
            merged, owned = ownership.apply(
                kind, stored.copy(), config, managed, manager, force=options.force
            )
            new = self._decode(kind, kind.versions[0], merged, options)
            times = {
                who: managed[who][1] if who in managed and managed[who][0] == fields else now()
                for who, fields in owned.items()
            }
            self._set_managed(new, {who: (fields, times[who]) for who, fields in owned.items()})
            return new

        return self._change(kind, version, key, change, subresource, options, applies=True), False

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
            stored = self.current(kind, key)
            new = change(stored)
            expected = self._check_identity(kind, key, new, stored)
            old = stored.obj
            metadata = new["metadata"]
            given = metadata.get("managedFields")
            self._prepare(kind, new, old, subresource)
            if not applies:
                managed = ownership.read(given or old["metadata"].get("managedFields"))
                manager = ownership.Manager(
                    options.manager, "Update", kind.api_version(version), subresource or ""
                )
                self._set_managed(new, ownership.after_update(kind, old, new, managed, manager, now()))
            if _same(new, old):
                return stored
            self._admission.review("UPDATE", kind, version, new, old, options)
            if options.dry_run:
                return Stored(kind, new, stored.revision)
            try:
                if _is_finished(kind, new):
                    return self._storage.remove(kind, new, stored.revision)
                return self._storage.put(kind, new, stored.revision)
            except StaleError:
                if expected:
                    raise status.conflict(kind.resource, key[1]) from None

    def _check_identity(self, kind: Kind, key: Key, new: Object, stored: Stored) -> str | None:
        """Hold `new` against the object it is to replace; returns the resourceVersion that was asked for."""
        metadata, was = new.setdefault("metadata", {}), stored.obj["metadata"]
        if metadata.setdefault("name", key[1]) != key[1]:
            raise status.bad_request(_other_name(metadata["name"], key[1]))
        if key[0] and metadata.setdefault("namespace", key[0]) != key[0]:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if metadata.get("uid", was["uid"]) != was["uid"]:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {was['uid']}"
            raise status.conflict(kind.resource, key[1], why)
        expected: str | None = metadata.get("resourceVersion")
        if expected and not expected.isdigit():
            raise status.internal(f'strconv.ParseUint: parsing "{expected}": invalid syntax')
        if expected in {None, "", "0"}:
            expected = None
        elif expected != was["resourceVersion"]:
            raise status.conflict(kind.resource, key[1])
        for name in (
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "generateName",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ):
            metadata.pop(name, None)
            if name in was:
                metadata[name] = was[name]
        metadata.pop("selfLink", None)
        return expected

    def _prepare(self, kind: Kind, new: Object, old: Object | None, subresource: str | None) -> None:
        """Bring `new` into the state in which it would be stored, and check it; 422 with all problems."""
        if old is not None:
            rules.merge_on_update(kind, new, old, subresource)
        defaults.fill(kind, new, now())
        if old is None:
            rules.reset_on_create(kind, new)
        gates.drop_disabled(kind, new, old, self._disabled)
        problems = gates.refused(kind, new, self._disabled)
        namespace = new["metadata"].get("namespace")
        home = self._storage.get(NAMESPACE, ("", namespace)) if namespace else None
        labels = home.obj["metadata"].get("labels") or {} if home else {}
        problems += rules.problems(
            kind,
            new,
            old,
            subresource=subresource,
            admin_namespace=labels.get(rules.ADMIN_ACCESS_LABEL) == "true",
        )
        if problems:
            name = new["metadata"].get("name", "")
            raise status.invalid(kind.resource.kind, kind.resource.group, name, problems)
        if old is not None and rules.spec_changed(kind, new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _decode(
        self, kind: Kind, version: str, body: Any, options: WriteOptions, *, canonical: bool = True
    ) -> Object:
        expected_kind, expected_version = kind.resource.kind, kind.api_version(version)
        if not isinstance(body, dict):
            raise status.bad_request(
                f"the object provided is unrecognized (must be of type {expected_kind}): couldn't get version/kind"
            )
        given, given_version = body.get("kind"), body.get("apiVersion")
        if given_version and given_version != expected_version:
            raise status.bad_request(
                f"the API version in the data ({given_version}) does not match the expected API version "
                f"({expected_version})"
            )
        if given and given != expected_kind:
            raise status.bad_request(
                f'{given} in version "{version}" cannot be handled as a {expected_kind}: no kind "{given}" is '
                f'registered for version "{expected_version}" in scheme "pkg/runtime/scheme.go"'
            )
        decoded = schema.decode(body, kind.definition, version, canonical=canonical)
        unknown = [f'unknown field "{path}"' for path in decoded.unknown]
        if unknown and options.field_validation == "Strict":
            raise status.bad_request(
                f'{expected_kind} in version "{version}" cannot be handled as a {expected_kind}: '
                f"strict decoding error: {', '.join(unknown)}"
            )
        if options.field_validation == "Warn":
            options.warnings.extend(text for text in unknown if text not in options.warnings)
        stored_version = kind.api_version(kind.versions[0])
        return {"kind": expected_kind, "apiVersion": stored_version, **_rest(decoded.value)}

    def _set_managed(self, obj: Object, managed: ownership.Managed) -> None:
        entries = ownership.write(managed)
        obj["metadata"].pop("managedFields", None)
        if entries:
            obj["metadata"]["managedFields"] = entries

    # Pods' own endpoints

    def bind(self, key: Key, body: Object, options: WriteOptions) -> None:
        """Assign a Pod to a node, which no update may do."""
        target = (body.get("target") or {}).get("name")
        if not target:
            raise status.invalid("Binding", "", key[1], [required("target.name")])
        while True:
            stored = self.current(POD, key)
            pod = stored.copy()
            if assigned := pod["spec"].get("nodeName"):
                why = f'pod {key[1]} is already assigned to node "{assigned}"'
                raise status.conflict(POD.resource, key[1], why, kind="pods/binding")
            pod["spec"]["nodeName"] = target
            conditions = pod["status"].setdefault("conditions", [])
            conditions[:] = [found for found in conditions if found.get("type") != "PodScheduled"]
            conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now()})
            if options.dry_run:
                return
            try:
                self._storage.put(POD, pod, stored.revision)
            except StaleError:
                continue
            return

    # Deleting

    def delete(self, kind: Kind, key: Key, options: DeleteOptions) -> tuple[Stored, bool]:
        """Delete an object, or mark it for deletion; its last state, and whether it is gone."""
        while True:
            stored = self.current(kind, key)
            self._check_preconditions(kind, stored, options)
            if rules.is_protected(kind, key[1]):
                raise status.forbidden(kind.resource, key[1], "this namespace may not be deleted")
            self._admission.review("DELETE", kind, kind.versions[0], None, stored.obj, options)
            if options.orphan:
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
            gone = _is_finished(kind, new)
            if options.dry_run:
                return stored, gone
            if not gone and new == stored.obj:
                return stored, False
            try:
                if gone:
                    last = (
                        stored.obj
                        if grace == 0 and "deletionTimestamp" not in stored.obj["metadata"]
                        else new
                    )
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
                if _is_finished(kind, new):
                    self._storage.remove(kind, new, stored.revision)
                elif new != stored.obj:
                    self._storage.put(kind, new, stored.revision)
            except StaleError:
                continue
            return


def owners(obj: Object) -> set[str]:
    """The UIDs of the owners of `obj`."""
    return {owner["uid"] for owner in obj["metadata"].get("ownerReferences") or []}


def disown(obj: Object, uid: str) -> None:
    """Remove the owner `uid` from `obj`."""
    metadata = obj["metadata"]
    kept = [owner for owner in metadata.pop("ownerReferences", []) if owner["uid"] != uid]
    if kept:
        metadata["ownerReferences"] = kept


def _rest(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}}


def _other_name(found: str, expected: str) -> str:
    return f"the name of the object ({found}) does not match the name on the URL ({expected})"


def _same(new: Object, old: Object) -> bool:
    """Whether a write changes nothing; times of field managers alone are no change."""

    def timeless(obj: Object) -> Object:
        metadata = dict(obj["metadata"])
        entries = metadata.pop("managedFields", [])
        metadata["managedFields"] = [{**entry, "time": ""} for entry in entries]
        return {**obj, "metadata": metadata}

    return timeless(new) == timeless(old)


def _grace_seconds(kind: Kind, obj: Object, asked: int | None) -> int:
    """How long a Pod that runs has to end; nothing else has any grace."""
    if kind is not POD or not obj["spec"].get("nodeName"):
        return 0
    if (obj.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    seconds = obj["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return max(int(seconds), 0)


def _is_finished(kind: Kind, obj: Object) -> bool:
    """Whether an object that is being deleted has nothing to wait for any more."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind is NAMESPACE:
        return not obj.get("spec", {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")

"""ObjectMeta, and the conditions of a status."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dra_driver.resource.names import (
    check,
    condition_reason,
    label,
    label_key,
    label_value,
    size,
    subdomain,
)
from dra_driver.resource.problems import (
    Problem,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_long,
)

_MAX_ANNOTATIONS = 256 * 1024  # bytes, keys and values together
_MAX_REASON = 1024
_MAX_MESSAGE = 32 * 1024
_DELETE_POLICIES = ("orphan", "foregroundDeletion")


def metadata(meta: Mapping[str, Any], *, namespaced: bool) -> Iterator[Problem]:
    """The metadata of a stored object. A missing namespace passes: the request's path has it."""
    path = "metadata"
    if prefix := meta.get("generateName"):
        # The server appends five characters, so one trailing dash is fine here.
        whole = prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        for reason in subdomain(whole):
            yield invalid(child(path, "generateName"), prefix, reason)
    if name := meta.get("name"):
        yield from check(child(path, "name"), name, subdomain)
    elif not prefix:
        yield required(child(path, "name"), "name or generateName is required")
    if namespace := meta.get("namespace"):
        if namespaced:
            yield from check(child(path, "namespace"), namespace, label)
        else:
            yield forbidden(child(path, "namespace"), "not allowed on this type")
    if (generation := meta.get("generation") or 0) < 0:
        yield invalid(child(path, "generation"), generation, "must be greater than or equal to 0")
    yield from labels_and_annotations(meta, path)
    yield from _owners(meta.get("ownerReferences") or [], child(path, "ownerReferences"))
    yield from _finalizers(meta.get("finalizers") or [], child(path, "finalizers"))


def template_metadata(meta: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """The metadata inside a template: labels and annotations only."""
    yield from labels_and_annotations(meta, path)
    for name, value in meta.items():
        if name not in {"labels", "annotations"} and value not in (None, "", 0, [], {}):
            yield forbidden(child(path, name), "cannot be set")


def labels_and_annotations(meta: Mapping[str, Any], path: str) -> Iterator[Problem]:
    where = child(path, "labels")
    for name, value in (meta.get("labels") or {}).items():
        yield from check(where, name, label_key)
        yield from check(where, value or "", label_value)
    where, total = child(path, "annotations"), 0
    for name, value in (meta.get("annotations") or {}).items():
        for reason in label_key(name.lower()):
            yield invalid(where, name, reason)
        total += size(name) + size(value or "")
    if total > _MAX_ANNOTATIONS:
        yield too_long(where, _MAX_ANNOTATIONS)


def _owners(owners: list[Any], path: str) -> Iterator[Problem]:
    controller = ""
    for owner in (entry or {} for entry in owners):
        _, _, version = (owner.get("apiVersion") or "").rpartition("/")
        if not version:
            yield invalid(
                child(path, "apiVersion"), owner.get("apiVersion") or "", "version must not be empty"
            )
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield invalid(child(path, name), "", "must not be empty")
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            this = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
            if controller:
                rule = "Only one reference can have Controller set to true."
                found = f'Found "true" in references for {controller} and {this}'
                yield invalid(path, owners, f"{rule} {found}")
            controller = controller or this


def _finalizers(finalizers: list[Any], path: str) -> Iterator[Problem]:
    for name in finalizers:
        yield from check(path, name or "", label_key)
    if all(policy in finalizers for policy in _DELETE_POLICIES):
        rule = f"finalizer {_DELETE_POLICIES[0]} and {_DELETE_POLICIES[1]} cannot be both set"
        yield invalid(path, finalizers, rule)


def conditions(entries: list[Any], path: str) -> Iterator[Problem]:
    """metav1.Conditions: a list with one entry a type."""
    seen: set[str] = set()
    for position, entry in enumerate(entry or {} for entry in entries):
        where = index(path, position)
        kind = entry.get("type") or ""
        if kind in seen:
            yield duplicate(child(where, "type"), kind)
        seen.add(kind)
        yield from check(child(where, "type"), kind, label_key)
        if (status := entry.get("status") or "") not in {"True", "False", "Unknown"}:
            yield not_supported(child(where, "status"), status, ("True", "False", "Unknown"))
        if (generation := entry.get("observedGeneration") or 0) < 0:
            rule = "must be greater than or equal to zero"
            yield invalid(child(where, "observedGeneration"), generation, rule)
        if not entry.get("lastTransitionTime"):
            yield required(child(where, "lastTransitionTime"))
        yield from _text(child(where, "reason"), entry.get("reason") or "", _MAX_REASON, condition_reason)
        if size(entry.get("message") or "") > _MAX_MESSAGE:
            yield too_long(child(where, "message"), _MAX_MESSAGE)


def _text(path: str, value: str, limit: int, syntax: Callable[[str], list[str]]) -> Iterator[Problem]:
    if not value:
        yield required(path)
        return
    yield from check(path, value, syntax)
    if size(value) > limit:
        yield too_long(path, limit)

"""What comes in: bodies decoded, held against the object they are to replace, and brought into shape.

These are the steps of a write before anything is asked of others or stored; each refuses with the StatusError
of the real server.
"""

import time
from typing import Any

from dra_driver.embedded.apiserver import defaults, gates, rules, schema, status
from dra_driver.embedded.apiserver.kinds import Kind
from dra_driver.embedded.apiserver.options import WriteOptions
from dra_driver.embedded.apiserver.paths import Target
from dra_driver.embedded.apiserver.storage import Key, Stored

Object = dict[str, Any]

# Of metadata, what an update can never change.
_SYSTEM = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def now(offset: int = 0) -> str:
    """The server's time, `offset` seconds from now, as objects carry it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + offset))


def decode(target: Target, body: Any, options: WriteOptions, *, canonical: bool = True) -> Object:
    """An object of the target's kind from what a client sent, with what is unknown dropped, warned of, or refused."""
    kind, version = target.kind, target.version
    expected_kind, expected_version = kind.resource.kind, target.api_version
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
    decoded = schema.decode(body, kind.definition_in(version), version, canonical=canonical)
    unknown = [f'unknown field "{path}"' for path in decoded.unknown]
    if unknown and options.field_validation == "Strict":
        raise status.bad_request(
            f'{expected_kind} in version "{version}" cannot be handled as a {expected_kind}: '
            f"strict decoding error: {', '.join(unknown)}"
        )
    if options.field_validation == "Warn":
        options.warnings.extend(text for text in unknown if text not in options.warnings)
    rest = {key: value for key, value in decoded.value.items() if key not in {"kind", "apiVersion"}}
    return kind.stored({"kind": expected_kind, "apiVersion": expected_version, **rest})


def check_identity(kind: Kind, key: Key, new: Object, stored: Stored) -> None:
    """Hold `new` against the object it is to replace, and give it the system's fields of that."""
    metadata, was = new.setdefault("metadata", {}), stored.obj["metadata"]
    if metadata.setdefault("name", key[1]) != key[1]:
        raise status.bad_request(other_name(metadata["name"], key[1]))
    if key[0] and metadata.setdefault("namespace", key[0]) != key[0]:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.get("uid", was["uid"]) != was["uid"]:
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {was['uid']}"
        raise status.conflict(kind.resource, key[1], why)
    expected = metadata.get("resourceVersion") or "0"  # which is none
    if not expected.isdigit():
        raise status.internal(f'strconv.ParseUint: parsing "{expected}": invalid syntax')
    if expected not in {"0", was["resourceVersion"]}:
        raise status.conflict(kind.resource, key[1])
    for name in _SYSTEM:
        metadata.pop(name, None)
        if name in was:
            metadata[name] = was[name]
    metadata.pop("selfLink", None)


def prepare(
    target: Target,
    new: Object,
    old: Object | None,
    *,
    disabled: frozenset[str],
    namespace_labels: dict[str, str],
) -> None:
    """Bring `new` into the state in which it would be stored, and check it; 422 with all problems."""
    kind, subresource = target.kind, target.subresource
    if old is not None:
        rules.merge_on_update(kind, new, old, subresource)
    defaults.fill(kind, new, now())
    if old is None:
        rules.reset_on_create(kind, new)
    gates.drop_disabled(kind, new, old, disabled)
    problems = gates.refused(kind, new, disabled)
    problems += rules.problems(
        kind,
        new,
        old,
        subresource=subresource,
        admin_namespace=namespace_labels.get(rules.ADMIN_ACCESS_LABEL) == "true",
    )
    if problems:
        name = new["metadata"].get("name", "")
        raise status.invalid(kind.resource.kind, kind.resource.group, name, problems)
    if old is not None and rules.spec_changed(kind, new, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def other_name(found: str, expected: str) -> str:
    return f"the name of the object ({found}) does not match the name on the URL ({expected})"

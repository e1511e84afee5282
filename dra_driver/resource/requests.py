"""What a claim asks for: the spec that claims and templates share."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from dra_driver.resource.configuration import configuration
from dra_driver.resource.expressions import CompileSelector, selectors
from dra_driver.resource.limits import (
    MAX_CONFIGS,
    MAX_CONSTRAINTS,
    MAX_DERIVED_ATTRIBUTES,
    MAX_REQUESTS,
    MAX_SUBREQUESTS,
)
from dra_driver.resource.names import check, fully_qualified_name, label, subdomain
from dra_driver.resource.problems import (
    Problem,
    child,
    duplicates,
    each,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_many,
)
from dra_driver.resource.taints import tolerations

RequestNames = Mapping[str, frozenset[str]]
"""The requests of a claim, each with its subrequests."""

_REFERENCE_RULE = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_ADMIN_RULE = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label "
    "on the containing namespace"
)


def claim_spec(spec: Mapping[str, Any], path: str, compile_selector: CompileSelector) -> Iterator[Problem]:
    devices, where = spec.get("devices") or {}, child(path, "devices")
    names = request_names(spec)
    for field, limit, check_entry, unique in (
        ("requests", MAX_REQUESTS, partial(_request, compile_selector), "name"),
        ("constraints", MAX_CONSTRAINTS, partial(_constraint, names), None),
        ("config", MAX_CONFIGS, partial(_config, names), None),
    ):
        yield from each(devices.get(field) or [], child(where, field), limit, check_entry, unique=unique)


def _config(names: RequestNames, entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from references(entry.get("requests") or [], child(path, "requests"), names)
    yield from configuration(entry, path)


def admin_access(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """The first admin request, where the namespace does not allow any. The path lacks `exactly`, as upstream's."""
    for position, entry in enumerate((spec.get("devices") or {}).get("requests") or []):
        if ((entry or {}).get("exactly") or {}).get("adminAccess"):
            yield forbidden(f"spec.devices.requests[{position}].adminAccess", _ADMIN_RULE)
            return


def request_names(spec: Mapping[str, Any]) -> RequestNames:
    return {
        (entry or {}).get("name") or "": frozenset(
            (sub or {}).get("name") or "" for sub in (entry or {}).get("firstAvailable") or []
        )
        for entry in (spec.get("devices") or {}).get("requests") or []
    }


def references(entries: list[Any], path: str, names: RequestNames) -> Iterator[Problem]:
    """A list of names of requests, as constraints and configurations have it."""
    if len(entries) > MAX_REQUESTS:
        yield too_many(path, len(entries), MAX_REQUESTS)
        return
    for position, entry in enumerate(entries):
        yield from reference(entry or "", index(path, position), names)
    yield from duplicates(path, entries)


def reference(name: str, path: str, names: RequestNames) -> Iterator[Problem]:
    """`request` or `request/subrequest`."""
    request, *subrequests = name.split("/")
    if len(subrequests) > 1:
        yield invalid(path, name, _REFERENCE_RULE)
        return
    for part in (request, *subrequests):
        yield from check(path, part, label)
    if request not in names or any(sub not in names[request] for sub in subrequests):
        yield invalid(path, name, _REFERENCE_RULE)


def _request(compile_selector: CompileSelector, entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from check(child(path, "name"), entry.get("name") or "", label)
    exactly, alternatives = entry.get("exactly"), entry.get("firstAvailable") or []
    rule = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is not None and alternatives:
        yield invalid(path, None, f"{rule}, but multiple fields are set")
    elif exactly is not None:
        yield from _wish(exactly, child(path, "exactly"), compile_selector)
    elif not alternatives:
        yield required(path, rule)
    else:
        where, subrequest = child(path, "firstAvailable"), partial(_subrequest, compile_selector)
        yield from each(alternatives, where, MAX_SUBREQUESTS, subrequest, unique="name")


def _subrequest(compile_selector: CompileSelector, entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from check(child(path, "name"), entry.get("name") or "", label)
    yield from _wish(entry, path, compile_selector)


def _wish(entry: Mapping[str, Any], path: str, compile_selector: CompileSelector) -> Iterator[Problem]:
    """What `exactly` and each alternative have in common."""
    where = child(path, "deviceClassName")
    if name := entry.get("deviceClassName"):
        yield from check(where, name, subdomain)
    else:
        yield required(where)
    yield from selectors(entry.get("selectors") or [], child(path, "selectors"), compile_selector)
    yield from _allocation_mode(entry, path)
    yield from tolerations(entry.get("tolerations") or [], child(path, "tolerations"))
    derived = entry.get("derivedAttributes") or []
    if len(derived) > MAX_DERIVED_ATTRIBUTES:
        yield too_many(child(path, "derivedAttributes"), len(derived), MAX_DERIVED_ATTRIBUTES)


def _allocation_mode(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    count = entry.get("count") or 0  # zero counts as unset: the default is one
    match entry.get("allocationMode") or "ExactCount":
        case "All":
            if count:
                rule = "must not be specified when allocationMode is 'All'"
                yield invalid(child(path, "count"), count, rule)
        case "ExactCount":
            if count < 0:
                yield invalid(child(path, "count"), count, "must be greater than zero")
        case mode:
            yield not_supported(child(path, "allocationMode"), mode, ("All", "ExactCount"))


def _constraint(names: RequestNames, entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from references(entry.get("requests") or [], child(path, "requests"), names)
    if (match := entry.get("matchAttribute")) is not None:
        yield from fully_qualified_name(child(path, "matchAttribute"), match)
    elif (distinct := entry.get("distinctAttribute")) is not None:
        yield from fully_qualified_name(child(path, "distinctAttribute"), distinct)
    else:
        # The text speaks of several fields where none is set; so does the server's.
        rule = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        yield required(path, rule)

"""Whether an API server would take an object, and why not.

The embedded API server refuses with these answers, the publisher checks each slice before it sends it, and lint
reports them with line numbers. Rules and texts are those of Kubernetes 1.36, held by vectors that a real server
has judged; fields are those of 1.37. An object is judged as if it were created: rules on updates are separate.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.resource import shapes
from dra_driver.resource.allocations import claim_status
from dra_driver.resource.classes import device_class, device_taint_rule
from dra_driver.resource.decoding import Struct, decode
from dra_driver.resource.devices import without_lists
from dra_driver.resource.expressions import CompileSelector, no_compiler
from dra_driver.resource.metadata import metadata, template_metadata
from dra_driver.resource.problems import Problem, not_supported
from dra_driver.resource.requests import admin_access, claim_spec, request_names
from dra_driver.resource.slices import resource_slice

_GROUP = "resource.k8s.io"
_VERSIONS = ("v1", "v1beta2")
_TAINT_RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")


@dataclass(frozen=True, slots=True)
class _Kind:
    shape: Struct
    namespaced: bool
    rules: Callable[[Mapping[str, Any], CompileSelector], Iterator[Problem]]
    versions: tuple[str, ...] = _VERSIONS


def validate(
    obj: Mapping[str, Any],
    *,
    compile_selector: CompileSelector = no_compiler,
    admin_namespace: bool = True,
    lists: bool = False,
    beyond_unknown: bool = False,
) -> list[Problem]:
    """The problems of `obj`, a resource.k8s.io object; none where a server would create it.

    A status is judged as one that is being set, though creation itself would drop it. Problems of decoding come
    alone, since a server stops there; with `beyond_unknown` fields that it does not know are no reason to stop.
    `admin_namespace` tells whether the object's namespace carries the label that permits `adminAccess`. Selectors
    are compiled only with `compile_selector`. Without `lists` the gate DRAListTypeAttributes is off, as by default up to 1.37: a server then takes lists of
    values away before it looks at the attribute.
    """
    kind = _KINDS.get(str(obj.get("kind")))
    if kind is None:
        return [not_supported("kind", str(obj.get("kind") or ""), _KINDS)]
    served = [f"{_GROUP}/{version}" for version in kind.versions]
    if obj.get("apiVersion") not in served:
        return [not_supported("apiVersion", str(obj.get("apiVersion") or ""), served)]
    found = decode(obj, kind.shape)
    if found and not (beyond_unknown and all(problem.stage == "strict" for problem in found)):
        return found
    found += [*metadata(obj.get("metadata") or {}, namespaced=kind.namespaced)]
    if obj["kind"] == "ResourceSlice" and not lists:
        obj = without_lists(obj)
    found += kind.rules(obj, compile_selector)
    if kind.namespaced and not admin_namespace:
        spec = obj.get("spec") or {}
        found += admin_access(spec if obj["kind"] == "ResourceClaim" else spec.get("spec") or {})
    return found


def _claim(obj: Mapping[str, Any], compile_selector: CompileSelector) -> Iterator[Problem]:
    spec = obj.get("spec") or {}
    yield from claim_spec(spec, "spec", compile_selector)
    yield from claim_status(obj.get("status") or {}, "status", request_names(spec))


def _claim_template(obj: Mapping[str, Any], compile_selector: CompileSelector) -> Iterator[Problem]:
    spec = obj.get("spec") or {}
    yield from template_metadata(spec.get("metadata") or {}, "spec.metadata")
    yield from claim_spec(spec.get("spec") or {}, "spec.spec", compile_selector)


def _slice(obj: Mapping[str, Any], _: CompileSelector) -> Iterator[Problem]:
    yield from resource_slice(obj)


def _taint_rule(obj: Mapping[str, Any], _: CompileSelector) -> Iterator[Problem]:
    yield from device_taint_rule(obj)


_KINDS: Mapping[str, _Kind] = {
    "ResourceSlice": _Kind(shapes.RESOURCE_SLICE, namespaced=False, rules=_slice),
    "ResourceClaim": _Kind(shapes.RESOURCE_CLAIM, namespaced=True, rules=_claim),
    "ResourceClaimTemplate": _Kind(shapes.RESOURCE_CLAIM_TEMPLATE, namespaced=True, rules=_claim_template),
    "DeviceClass": _Kind(shapes.DEVICE_CLASS, namespaced=False, rules=device_class),
    "DeviceTaintRule": _Kind(
        shapes.DEVICE_TAINT_RULE, namespaced=False, rules=_taint_rule, versions=_TAINT_RULE_VERSIONS
    ),
}

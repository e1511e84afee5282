"""What each kind allows: what a create resets, what an update may change, and what is valid.

`resource` holds the rules of resource.k8s.io objects as such; here are the rules of transitions (immutable
fields, allocation and reservation), those of the few core kinds as far as DRA touches them, and the split
between an object and its status.
"""

from collections.abc import Iterator
from typing import Any

from dra_driver.embedded.apiserver import conditions
from dra_driver.embedded.apiserver.kinds import (
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    WEBHOOK,
    Kind,
)
from dra_driver.resource.metadata import metadata
from dra_driver.resource.problems import Problem, forbidden, invalid, not_found, required
from dra_driver.resource.validation import validate
from dra_driver.selectors import compile_selector

ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
_POD_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def reset_on_create(kind: Kind, obj: dict[str, Any]) -> None:
    """Drop what a creator may not set, the status of most kinds, and start the life of a namespace."""
    if kind is POD:
        obj["status"] = {"phase": "Pending"}
    elif kind is RESOURCE_CLAIM:
        obj["status"] = {}
    elif kind is NAMESPACE:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}


def merge_on_update(kind: Kind, new: dict[str, Any], old: dict[str, Any], subresource: str | None) -> None:
    """Take over into `new` what this endpoint may not change."""
    if subresource == "status":
        _keep(new, old, "spec")
        if kind is RESOURCE_CLAIM:
            _keep_metadata(
                new, old, "labels", "annotations", "finalizers", "ownerReferences", "managedFields"
            )
            _drop_released_devices(new)
        elif kind is POD:
            _keep_metadata(new, old, "ownerReferences")
    elif kind.has_status:
        _keep(new, old, "status")
        if kind is NAMESPACE:
            _keep(new, old, "spec")


def _keep(new: dict[str, Any], old: dict[str, Any], key: str) -> None:
    new.pop(key, None)
    if key in old:
        new[key] = old[key]


def _keep_metadata(new: dict[str, Any], old: dict[str, Any], *keys: str) -> None:
    for key in keys:
        _keep(new["metadata"], old["metadata"], key)


def _drop_released_devices(claim: dict[str, Any]) -> None:
    """An entry of status.devices goes with the allocation of its device."""
    status = claim.get("status") or {}
    if status.get("devices") and not status.get("allocation"):
        status.pop("devices")


def problems(
    kind: Kind,
    obj: dict[str, Any],
    old: dict[str, Any] | None,
    *,
    subresource: str | None = None,
    admin_namespace: bool = True,
) -> list[Problem]:
    """What is wrong with `obj` as a creation (no `old`) or as an update."""
    if kind.resource.group == "resource.k8s.io":
        # Admin access is asked for once: at creation.
        found = validate(
            obj,
            compile_selector=compile_selector,
            admin_namespace=admin_namespace or old is not None,
            lists=True,  # where the gate is off they are gone by now
        )
    else:
        found = [*metadata(obj["metadata"], namespaced=kind.resource.namespaced)]
        if kind is POD:
            found += _pod(obj.get("spec") or {})
        elif kind is WEBHOOK:
            found += _webhook(obj)
        elif kind in {DEPLOYMENT, JOB}:
            template = (obj.get("spec") or {}).get("template") or {}
            found += (
                Problem(f"spec.template.{problem.path}", problem.message)
                for problem in _pod(template.get("spec") or {})
            )
    if old is not None:
        found += _transition(kind, obj, old, subresource)
    return found


def _transition(
    kind: Kind, new: dict[str, Any], old: dict[str, Any], subresource: str | None
) -> Iterator[Problem]:
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    if "deletionTimestamp" in old["metadata"]:
        known = old["metadata"].get("finalizers") or []
        if added := [name for name in new["metadata"].get("finalizers") or [] if name not in known]:
            listed = ", ".join(f'"{name}"' for name in added)
            text = "no new finalizers can be added if the object is being deleted"
            yield forbidden("metadata.finalizers", f"{text}, found new finalizers []string{{{listed}}}")
    if kind in {RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE} and spec != was:
        yield invalid("spec", spec, "field is immutable")
    if kind is RESOURCE_SLICE:
        for path, now, then in (
            ("spec.driver", spec.get("driver"), was.get("driver")),
            ("spec.pool.name", (spec.get("pool") or {}).get("name"), (was.get("pool") or {}).get("name")),
            ("spec.nodeName", spec.get("nodeName"), was.get("nodeName")),
        ):
            if now != then:
                yield invalid(path, now, "field is immutable")
    if kind is RESOURCE_CLAIM and subresource == "status":
        yield from _claim_status(new, old)
    if kind is POD and subresource is None and _fixed(spec) != _fixed(was):
        yield forbidden("spec", _POD_CHANGES)
    if kind is POD and subresource is None:
        tolerations = spec.get("tolerations") or []
        if any(toleration not in tolerations for toleration in was.get("tolerations") or []):
            yield forbidden(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )


def _fixed(spec: dict[str, Any]) -> dict[str, Any]:
    """The part of a Pod's spec that no update may change."""
    loose = {"activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"}
    fixed = {key: value for key, value in spec.items() if key not in loose}
    for key in ("containers", "initContainers"):
        fixed[key] = [{**container, "image": ""} for container in fixed.get(key) or []]
    return fixed


def _claim_status(new: dict[str, Any], old: dict[str, Any]) -> Iterator[Problem]:
    status, was = new.get("status") or {}, old.get("status") or {}
    allocation, before = status.get("allocation"), was.get("allocation")
    if allocation and before and allocation != before:
        yield invalid("status.allocation", allocation, "field is immutable")
    reserved = status.get("reservedFor") or []
    known = {entry.get("uid") for entry in was.get("reservedFor") or []}
    if new["metadata"].get("deletionTimestamp") and any(entry.get("uid") not in known for entry in reserved):
        yield forbidden(
            "status.reservedFor",
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        )


def _pod(spec: dict[str, Any]) -> Iterator[Problem]:
    claims = spec.get("resourceClaims") or []
    for position, claim in enumerate(claims):
        given = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(name)]
        which = "`resourceClaimName`, `resourceClaimTemplateName`"
        if not given:
            yield invalid(f"spec.resourceClaims[{position}]", claim, f"must specify one of: {which}")
        elif len(given) > 1:
            yield invalid(f"spec.resourceClaims[{position}]", claim, f"must specify at most one of: {which}")
    names = [claim.get("name", "") for claim in claims]
    containers = spec.get("containers") or []
    if not containers:
        yield required("spec.containers")
    for position, container in enumerate(containers):
        path = f"spec.containers[{position}]"
        if not container.get("name"):
            yield required(f"{path}.name")
        if not container.get("image"):
            yield required(f"{path}.image")
        for place, use in enumerate((container.get("resources") or {}).get("claims") or []):
            if use.get("name") not in names:
                known = (
                    f": must be one of the names in pod.spec.resourceClaims: {', '.join(names)}"
                    if names
                    else ""
                )
                problem = not_found(f"{path}.resources.claims[{place}]", use.get("name"))
                yield Problem(problem.path, problem.message + known)


def _webhook(obj: dict[str, Any]) -> Iterator[Problem]:
    for position, webhook in enumerate(obj.get("webhooks") or []):
        path = f"webhooks[{position}]"
        for number, condition in enumerate(webhook.get("matchConditions") or []):
            expression = condition.get("expression", "")
            if why := conditions.refusal(expression):
                yield invalid(f"{path}.matchConditions[{number}].expression", expression, why)
        client = webhook.get("clientConfig") or {}
        if ("url" in client) == ("service" in client):
            yield required(f"{path}.clientConfig", "exactly one of url or service is required")
        if "v1" not in (webhook.get("admissionReviewVersions") or []):
            yield invalid(
                f"{path}.admissionReviewVersions",
                webhook.get("admissionReviewVersions"),
                "must include at least one of v1",
            )


def spec_changed(kind: Kind, new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether metadata.generation moves on."""
    if kind is WEBHOOK:
        return bool(new.get("webhooks") != old.get("webhooks"))
    return kind.has_generation and bool(new.get("spec") != old.get("spec"))

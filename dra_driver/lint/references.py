"""Names that lead to other objects: classes, templates, claims, and the claims of a Pod's containers.

Files are rarely all there is. What is missing from them may be in the cluster, so a missing object is a warning where
the files have others of its kind, else only information; inside a Pod nothing can be elsewhere, so there it is an error.
"""

from collections.abc import Collection, Iterator, Mapping

from dra_driver.lint.claims import Claim
from dra_driver.lint.context import Context
from dra_driver.lint.finding import Finding, Rule, Severity
from dra_driver.lint.manifests import Manifest, as_map
from dra_driver.lint.near import did_you_mean
from dra_driver.lint.pods import PodClaim, Pods, Use

UNKNOWN_CLASS = Rule(
    "unknown-class",
    "warning",
    "A DeviceClass that is not there",
    "A claim for a class that does not exist stays pending without an event that says so.",
)
MISSING_CLAIM = Rule(
    "missing-claim",
    "warning",
    "A Pod names a claim or template that is not there",
    "A Pod finds ResourceClaims and ResourceClaimTemplates of its own namespace only. Until all of them exist, it is not "
    "scheduled, though claims of its other templates are made. If the files have no such objects at all, they may be in "
    "the cluster, and the finding is for information.",
)
UNKNOWN_POD_CLAIM = Rule(
    "unknown-pod-claim",
    "error",
    "A container names a claim that its Pod does not have",
    "`resources.claims` names entries of the Pod's `spec.resourceClaims`, not ResourceClaims. The API server refuses others.",
)
UNUSED_CLAIM = Rule(
    "unused-claim",
    "warning",
    "No container uses a claim of its Pod",
    "The Pod is allocated the devices, and no container gets them: it takes a GPU from others and runs without one.",
)
UNKNOWN_REQUEST = Rule(
    "unknown-request",
    "error",
    "A container names a request that the claim does not have",
    "`request` is the name of a request, also where `firstAvailable` decides which of its alternatives it becomes. With "
    "any other name the container cannot be started.",
)
ADMIN_NAMESPACE = Rule(
    "admin-namespace",
    "info",
    "Admin access outside of an admin's namespace",
    "`adminAccess` is refused in a namespace without the label `resource.kubernetes.io/admin-access: "
    '"true"`. Where the files have the Namespace, and it lacks the label, that is an error.',
)
RULES = (UNKNOWN_CLASS, MISSING_CLAIM, UNKNOWN_POD_CLAIM, UNUSED_CLAIM, UNKNOWN_REQUEST, ADMIN_NAMESPACE)

_LABEL = "resource.kubernetes.io/admin-access"
_UNSUPPORTED = {"vfio.gpu.nvidia.com", "compute-domain-daemon.nvidia.com"}
_UNSUPPORTED |= {"compute-domain-default-channel.nvidia.com"}


def check(context: Context) -> Iterator[Finding]:
    namespaces = {m.name: m for m in context.manifests if m.kind == "Namespace" and m.api_version == "v1"}
    for claim in context.claims:
        yield from _check_classes(context, claim)
        yield from _check_admin(context, claim, namespaces)
    for pods in context.pods:
        for entry in pods.claims:
            yield from _check_claim(context, pods, entry)
        yield from _check_uses(context, pods)


def _check_classes(context: Context, claim: Claim) -> Iterator[Finding]:
    for wish in claim.wishes:
        name = wish.device_class
        if not name or name in context.given_classes:
            continue
        path = f"{wish.path}.deviceClassName"
        if name in _UNSUPPORTED:
            message = f"the class {name} is the official driver's; this driver has no such devices"
            yield context.finding(UNKNOWN_CLASS, claim.manifest, path, message)
        elif context.given_classes or context.has_all_classes:
            own = name in context.classes
            fix = did_you_mean(name, context.given_classes)
            if own:
                fix = "apply deploy/deviceclasses.yaml, which comes with the driver"
            there = ", ".join(sorted(context.given_classes)) or "none"
            message = f"there is no DeviceClass {name}; the {context.source} {there}"
            yield context.finding(UNKNOWN_CLASS, claim.manifest, path, message, fix=fix)
        elif name not in context.classes and (fix := did_you_mean(name, context.classes, 0.8)):
            message = f"there is no DeviceClass {name} that comes with the driver"
            yield context.finding(UNKNOWN_CLASS, claim.manifest, path, message, fix=fix)


def _check_admin(context: Context, claim: Claim, namespaces: Mapping[str, Manifest]) -> Iterator[Finding]:
    for wish in claim.wishes:
        if not wish.admin:
            continue
        where = claim.manifest.namespace
        severity: Severity = "info"
        message = f"admin access needs the label {_LABEL} on the namespace {where}"
        if where in namespaces:
            labels = as_map(as_map(namespaces[where].object.get("metadata")).get("labels"))
            if labels.get(_LABEL) == "true":
                continue
            severity, message = "error", f"the namespace {where} lacks the label {_LABEL}, so this is refused"
        fix = f"kubectl label namespace {where} {_LABEL}=true"
        yield context.finding(
            ADMIN_NAMESPACE,
            claim.manifest,
            f"{wish.path}.adminAccess",
            message,
            fix=fix,
            severity=severity,
        )
        return


def _check_claim(context: Context, pods: Pods, entry: PodClaim) -> Iterator[Finding]:
    kind = "ResourceClaimTemplate" if entry.template else "ResourceClaim"
    name, field = (
        (entry.template, "resourceClaimTemplateName")
        if entry.template
        else (entry.claim, "resourceClaimName")
    )
    if not name or context.claim_of(pods, entry) is not None:
        return
    path = f"{entry.path}.{field}"
    if not pods.manifest.has(path):
        path = f"{entry.path}.source.{field}"
    namespace = pods.manifest.namespace
    same_kind = [claim for claim in context.claims if claim.is_template == bool(entry.template)]
    here = [claim.manifest.name for claim in same_kind if claim.manifest.namespace == namespace]
    elsewhere = [claim.manifest.namespace for claim in same_kind if claim.manifest.name == name]
    message = f"there is no {kind} {name} in namespace {namespace}"
    fix = did_you_mean(name, here)
    if elsewhere:
        fix = f"the one of that name is in namespace {elsewhere[0]}; a Pod uses those of its own"
    elif fix is None and any(
        c.manifest.name == name and c.is_template != bool(entry.template) for c in context.claims
    ):
        other = "resourceClaimName" if entry.template else "resourceClaimTemplateName"
        fix = f"the {context.source} another kind of this name: write {other}"
    severity: Severity | None = None
    if not same_kind and fix is None and not context.has_all_claims:
        severity, message = "info", f"{kind} {name} is not in the files; it must be in namespace {namespace}"
    yield context.finding(MISSING_CLAIM, pods.manifest, path, message, fix=fix, severity=severity)


def _check_uses(context: Context, pods: Pods) -> Iterator[Finding]:
    entries = {entry.name: entry for entry in pods.claims}
    for use in pods.uses:
        entry = entries.get(use.name)
        if entry is None:
            yield _unknown_use(context, pods, use, entries)
        elif use.request and (target := context.claim_of(pods, entry)) is not None:
            yield from _check_request(context, pods, use, target)
    used = {use.name for use in pods.uses}
    for name, entry in entries.items():
        if name and name not in used:
            message = f"no container of {pods.what} uses the claim {name}"
            fix = f"add it to a container: resources: {{claims: [{{name: {name}}}]}}"
            yield context.finding(UNUSED_CLAIM, pods.manifest, entry.path, message, fix=fix)


def _unknown_use(context: Context, pods: Pods, use: Use, names: Collection[str]) -> Finding:
    fix = did_you_mean(use.name, names)
    message = f"container {use.container} names the claim {use.name}, which the Pod does not have in spec.resourceClaims"
    return context.finding(UNKNOWN_POD_CLAIM, pods.manifest, f"{use.path}.name", message, fix=fix)


def _check_request(context: Context, pods: Pods, use: Use, target: Claim) -> Iterator[Finding]:
    requests = target.requests
    if use.request in requests:
        return
    base = use.request.partition("/")[0]
    fix = did_you_mean(use.request, requests)
    if base in requests:
        fix = f"write {base}: containers name the request, whichever alternative it becomes"
    kind, name = target.manifest.kind, target.manifest.name
    message = f"{kind} {name} has no request {use.request}"
    yield context.finding(UNKNOWN_REQUEST, pods.manifest, f"{use.path}.request", message, fix=fix)

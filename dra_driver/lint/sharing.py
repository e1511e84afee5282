"""A template where a shared claim was meant.

A template makes a claim, and with it takes devices, for each Pod. People who come from `replicas: 4` of a device plugin,
or who set time slices, expect the Pods to share.
"""

from collections.abc import Iterator, Sequence

from dra_driver.lint.claims import Claim
from dra_driver.lint.context import Context
from dra_driver.lint.finding import Finding, Rule, Severity
from dra_driver.lint.manifests import as_map
from dra_driver.lint.pods import PodClaim, Pods

TEMPLATE_NOT_SHARED = Rule(
    "template-not-shared",
    "warning",
    "Pods that shall share a GPU use a template",
    "A template gives each Pod a claim, and devices, of its own; time slices inside it divide them among the containers of "
    "one Pod. Pods share devices through one ResourceClaim that all of them name in `resourceClaimName`. Where nothing "
    "but the number of replicas speaks for sharing, the finding is for information.",
)
RULES = (TEMPLATE_NOT_SHARED,)

_WORDS = ("shared", "sharing", "timeslic", "time-slic", "mps")


def check(context: Context) -> Iterator[Finding]:
    users: dict[int, list[tuple[Pods, PodClaim]]] = {}
    for pods in context.pods:
        found = {id(used): entry for entry in pods.claims if (used := context.claim_of(pods, entry))}
        for key, entry in found.items():
            users.setdefault(key, []).append((pods, entry))
    for template in context.claims:
        if template.is_template and id(template) in users:
            yield from _check_template(context, template, users[id(template)])


def _check_template(
    context: Context, template: Claim, users: Sequence[tuple[Pods, PodClaim]]
) -> Iterator[Finding]:
    """The finding stands at the first that uses the template."""
    count = sum(pods.replicas for pods, _ in users)
    if count < 2:
        return
    pods, entry = users[0]
    devices = sum(min(wish.count or 1 for wish in wishes) for wishes in template.requests.values())
    have = _available(context, template)
    why, severity = _reason(template, count * devices, have)
    message = f"each of the {count} Pods gets a claim, and {devices} device{'s' * (devices > 1)}, of its own: {count * devices} in all{why}"
    fix = "to share, make one ResourceClaim and name it in resourceClaimName"
    path = f"{entry.path}.resourceClaimTemplateName"
    yield context.finding(TEMPLATE_NOT_SHARED, pods.manifest, path, message, fix=fix, severity=severity)


def _reason(template: Claim, wanted: int, have: int | None) -> tuple[str, Severity]:
    """What speaks for sharing, and how strongly."""
    if any("sharing" in as_map(config.parameters) for config in template.configs):
        return ", and the sharing that the template configures is inside one Pod", "warning"
    if any(word in template.manifest.name.lower() for word in _WORDS):
        return ", though the template's name speaks of sharing", "warning"
    if have is not None and have < wanted:
        return f", and the slices have {have}", "warning"
    return "", "info"


def _available(context: Context, template: Claim) -> int | None:
    """How many devices of the slices are of the template's classes; None without slices."""
    if not context.has_slices:
        return None
    found = {id(d): d.count for wish in template.wishes for d in context.candidates(wish.device_class) or ()}
    return sum(found.values())

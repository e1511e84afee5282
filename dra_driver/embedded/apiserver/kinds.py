"""The kinds that the embedded API server serves: what discovery says of them and how each is treated.

Objects are stored once, in the shape of the first version of `versions`; the others are views of them.
v1beta2 of resource.k8s.io has the shape of v1, so only `apiVersion` differs.
"""

from dataclasses import dataclass, field
from typing import Any

from dra_driver.kube import resources
from dra_driver.kube.resources import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, its storage version, and its particulars."""

    resource: Resource
    definition: str  # its schema
    versions: tuple[str, ...] = ("v1",)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    has_generation: bool = False
    returns_deleted: bool = True  # the answer to DELETE is the last state, not a Status
    selectable: tuple[str, ...] = ()  # field selectors beside metadata.name and metadata.namespace
    subresources: tuple[str, ...] = field(default=())  # that only take POST

    @property
    def singular(self) -> str:
        return self.resource.kind.lower()

    def api_version(self, version: str) -> str:
        return f"{self.resource.group}/{version}" if self.resource.group else version


def _core(resource: Resource, **particulars: Any) -> Kind:
    return Kind(resource, f"io.k8s.api.core.v1.{resource.kind}", **particulars)


def _dra(resource: Resource, **particulars: Any) -> Kind:
    definition = f"io.k8s.api.resource.v1.{resource.kind}"
    return Kind(resource, definition, versions=("v1", "v1beta2"), **particulars)


NAMESPACE = _core(resources.NAMESPACES, short_names=("ns",), has_status=True, returns_deleted=False)
NODE = _core(
    resources.NODES,
    short_names=("no",),
    has_status=True,
    returns_deleted=False,
    selectable=("spec.unschedulable",),
)
POD = _core(
    resources.PODS,
    short_names=("po",),
    categories=("all",),
    has_status=True,
    has_generation=True,
    selectable=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    subresources=("binding", "eviction"),
)
EVENT = _core(
    resources.EVENTS,
    short_names=("ev",),
    returns_deleted=False,
    selectable=(
        *(
            f"involvedObject.{name}"
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        ),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
)
RESOURCE_SLICE = _dra(
    resources.RESOURCE_SLICES,
    has_generation=True,
    selectable=("spec.nodeName", "spec.driver", "spec.pool.name"),
)
RESOURCE_CLAIM = _dra(resources.RESOURCE_CLAIMS, has_status=True)
RESOURCE_CLAIM_TEMPLATE = _dra(resources.RESOURCE_CLAIM_TEMPLATES)
DEVICE_CLASS = _dra(resources.DEVICE_CLASSES, has_generation=True)
WEBHOOK = Kind(
    WEBHOOKS,
    "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
    categories=("api-extensions",),
    has_generation=True,
    returns_deleted=False,
)

KINDS = (
    NAMESPACE,
    NODE,
    POD,
    EVENT,
    _core(CONFIG_MAPS, short_names=("cm",), returns_deleted=False),
    _core(SECRETS, returns_deleted=False),
    _core(SERVICE_ACCOUNTS, short_names=("sa",)),
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    DEVICE_CLASS,
    Kind(LEASES, "io.k8s.api.coordination.v1.Lease", returns_deleted=False),
    WEBHOOK,
)
_BY_RESOURCE = {(kind.resource.group, kind.resource.plural): kind for kind in KINDS}


def find(group: str, version: str, plural: str) -> Kind | None:
    """The kind behind a request path, None where we serve nothing there."""
    kind = _BY_RESOURCE.get((group, plural))
    return kind if kind is not None and version in kind.versions else None


def groups() -> dict[str, list[str]]:
    """The served versions of each group, best first."""
    found: dict[str, list[str]] = {}
    for kind in KINDS:
        versions = found.setdefault(kind.resource.group, [])
        versions += [version for version in kind.versions if version not in versions]
    return found

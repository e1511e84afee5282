"""The kinds that the embedded API server serves: what discovery says of them and how each is treated.

Objects are stored once, in the shape of the first version of `versions`; the others are views of them.
v1beta2 of resource.k8s.io has the shape of v1, so only `apiVersion` differs; v1beta1 has another.
"""

from dataclasses import dataclass
from typing import Any

from dra_driver.kube import resources
from dra_driver.kube.resources import Resource
from dra_driver.resource.conversion import convert


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind, its storage version, and its particulars. There is one of each, so they are compared by identity."""

    resource: Resource
    definition: str  # its schema, in the storage version
    versions: tuple[str, ...] = ("v1",)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    has_generation: bool = False
    returns_deleted: bool = True  # the answer to DELETE is the last state, not a Status
    selectable: tuple[str, ...] = ()  # field selectors beside metadata.name and metadata.namespace
    subresources: tuple[str, ...] = ()  # that only take POST
    flat_definition: str = ""  # the schema of v1beta1, where there is one

    @property
    def singular(self) -> str:
        return self.resource.kind.lower()

    def api_version(self, version: str) -> str:
        return f"{self.resource.group}/{version}" if self.resource.group else version

    def definition_in(self, version: str) -> str:
        return self.flat_definition if version == "v1beta1" else self.definition

    def served(self, obj: dict[str, Any], version: str) -> dict[str, Any]:
        """An object of the storage version as it is in another."""
        return (
            convert(obj, "v1beta1")
            if version == "v1beta1"
            else {**obj, "apiVersion": self.api_version(version)}
        )

    def stored(self, obj: dict[str, Any]) -> dict[str, Any]:
        """An object of any version, in the storage version."""
        if obj["apiVersion"] == self.api_version("v1beta1"):
            return convert(obj, "v1")
        return {**obj, "apiVersion": self.api_version(self.versions[0])}


def _core(resource: Resource, **particulars: Any) -> Kind:
    return Kind(resource, f"io.k8s.api.core.v1.{resource.kind}", **particulars)


def _dra(resource: Resource, **particulars: Any) -> Kind:
    definitions = [f"io.k8s.api.resource.{version}.{resource.kind}" for version in ("v1", "v1beta1")]
    versions = ("v1", "v1beta2", "v1beta1")
    return Kind(resource, definitions[0], versions, flat_definition=definitions[1], **particulars)


def _workload(resource: Resource, definition: str, **particulars: Any) -> Kind:
    common: dict[str, Any] = {"has_status": True, "has_generation": True, "returns_deleted": False}
    return Kind(resource, definition, categories=("all",), **common, **particulars)


NAMESPACE = _core(resources.NAMESPACES, short_names=("ns",), has_status=True, returns_deleted=False)
NODE = _core(resources.NODES, short_names=("no",), has_status=True, returns_deleted=False)
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
SECRET = _core(resources.SECRETS, returns_deleted=False)
DEVICE_TAINT_RULE = Kind(
    resources.DEVICE_TAINT_RULES,
    "io.k8s.api.resource.v1.DeviceTaintRule",
    versions=("v1", "v1beta2"),
    has_status=True,
    has_generation=True,
)
DEPLOYMENT = _workload(resources.DEPLOYMENTS, "io.k8s.api.apps.v1.Deployment", short_names=("deploy",))
JOB = _workload(resources.JOBS, "io.k8s.api.batch.v1.Job")
LEASE = Kind(resources.LEASES, "io.k8s.api.coordination.v1.Lease", returns_deleted=False)
WEBHOOK = Kind(
    resources.VALIDATING_WEBHOOK_CONFIGURATIONS,
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
    SECRET,
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    DEPLOYMENT,
    JOB,
    LEASE,
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

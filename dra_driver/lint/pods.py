"""Pods, and what makes Pods: which claims they name, and how many Pods there will be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.lint.manifests import Manifest, as_list, as_map, as_text
from dra_driver.resource.problems import child, index

_TEMPLATES = {
    "Pod": ("v1", "spec"),
    "Deployment": ("apps/v1", "spec.template.spec"),
    "ReplicaSet": ("apps/v1", "spec.template.spec"),
    "StatefulSet": ("apps/v1", "spec.template.spec"),
    "DaemonSet": ("apps/v1", "spec.template.spec"),
    "ReplicationController": ("v1", "spec.template.spec"),
    "Job": ("batch/v1", "spec.template.spec"),
    "CronJob": ("batch/v1", "spec.jobTemplate.spec.template.spec"),
}
_REPLICAS = {"Job": "parallelism"}
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of spec.resourceClaims."""

    path: str
    name: str
    claim: str  # the ResourceClaim's name, or empty
    template: str  # the ResourceClaimTemplate's, or empty


@dataclass(frozen=True, slots=True)
class Use:
    """An entry of a container's resources.claims."""

    path: str
    name: str
    request: str  # empty: all of the claim's
    container: str


@dataclass(frozen=True, slots=True)
class Pods:
    """A Pod, or all Pods of a workload."""

    manifest: Manifest
    path: str  # of the Pod's spec
    replicas: int
    claims: tuple[PodClaim, ...]
    uses: tuple[Use, ...]

    @property
    def what(self) -> str:
        return f"{self.manifest.kind} {self.manifest.name}"


def pods_of(manifest: Manifest) -> Pods | None:
    """The Pods that a manifest is, or makes; None where it is nothing of the kind."""
    api_version, path = _TEMPLATES.get(manifest.kind, ("", ""))
    if not path or manifest.api_version != api_version:
        return None
    spec: Mapping[str, Any] = manifest.object
    for step in path.split("."):
        spec = as_map(spec.get(step))
    replicas = as_map(manifest.object.get("spec")).get(_REPLICAS.get(manifest.kind, "replicas"))
    single = (
        manifest.kind in {"Pod", "CronJob"} or not isinstance(replicas, int) or isinstance(replicas, bool)
    )
    return Pods(
        manifest,
        path,
        1 if single else max(0, int(replicas or 0)),
        tuple(_claims(spec, child(path, "resourceClaims"))),
        tuple(_uses(spec, path)),
    )


def _claims(spec: Mapping[str, Any], path: str) -> Iterator[PodClaim]:
    for position, entry in enumerate(map(as_map, as_list(spec.get("resourceClaims")))):
        # `source` is what entries had before Kubernetes 1.31; another rule says so.
        fields = {**as_map(entry.get("source")), **entry}
        yield PodClaim(
            index(path, position),
            as_text(entry.get("name")),
            as_text(fields.get("resourceClaimName")),
            as_text(fields.get("resourceClaimTemplateName")),
        )


def _uses(spec: Mapping[str, Any], path: str) -> Iterator[Use]:
    for field in _CONTAINERS:
        for position, container in enumerate(map(as_map, as_list(spec.get(field)))):
            where = f"{path}.{field}[{position}].resources.claims"
            entries = as_list(as_map(container.get("resources")).get("claims"))
            for number, entry in enumerate(map(as_map, entries)):
                name, request = as_text(entry.get("name")), as_text(entry.get("request"))
                yield Use(index(where, number), name, request, as_text(container.get("name")))

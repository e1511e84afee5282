"""Pods, and what makes Pods: which claims they name, and how many Pods there will be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.lint.manifests import Manifest, as_list, as_map, as_text
from dra_driver.resource.problems import child, index
from dra_driver.resource.workloads import WORKLOADS

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
    kind = manifest.api_version, manifest.kind
    if kind == ("v1", "Pod"):
        path, spec, replicas = "spec", manifest.object.get("spec"), None
    elif (workload := WORKLOADS.get(kind)) is not None:
        path = child(workload.template, "spec")
        spec = as_map(workload.template_of(manifest.object)).get("spec")
        replicas = workload.count_of(manifest.object)
    else:
        return None
    single = not isinstance(replicas, int) or isinstance(replicas, bool)
    return Pods(
        manifest,
        path,
        1 if single else max(0, int(replicas or 0)),
        tuple(_claims(as_map(spec), child(path, "resourceClaims"))),
        tuple(_uses(as_map(spec), path)),
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

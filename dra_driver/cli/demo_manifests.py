"""What the demo applies: the packaged examples, or the user's own files."""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import yaml

from dra_driver.cli.demo_report import Devices
from dra_driver.cli.objects import documents
from dra_driver.cli.worlds import packaged_classes
from dra_driver.embedded.cluster import Cluster
from dra_driver.errors import UsageError
from dra_driver.kube.errors import AlreadyExistsError
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)

_APPLIED = {
    (r.api_version, r.kind): r
    for r in (NAMESPACES, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, PODS)
}
_FOLDER = resources.files("dra_driver.embedded") / "examples"
_EXAMPLES = (
    "by-model",
    "by-memory",
    "by-architecture",
    "nvlink-pair",
    "shared-claim",
    "extended-resource",
    "unsatisfiable",
)
_MEMORY_SHARE = 0.9  # of the largest GPU's memory: what the example asks for


def examples(published: Devices) -> list[dict[str, Any]]:
    """The packaged examples, asking for what is there: the last node's model, the first's architecture."""
    devices = list(published.values())
    memory = max((device.memory.value for device in devices if device.memory), default=0)
    values = {
        "model": devices[-1].text("productName") if devices else "none",
        "architecture": devices[0].text("architecture") if devices else "none",
        "memory": f"{int(memory * _MEMORY_SHARE) >> 20}Mi",
    }
    manifests: list[dict[str, Any]] = []
    for name in _EXAMPLES:
        text = (_FOLDER / f"{name}.yaml").read_text()
        manifests += yaml.safe_load_all(Template(text).substitute(values))
    return manifests


def read_files(files: Iterable[Path]) -> list[dict[str, Any]]:
    """The objects of files and directories, in the order given; UsageError where the demo has no use for one."""
    manifests: list[dict[str, Any]] = []
    for source, manifest in documents([str(file) for file in files]):
        if (manifest.get("apiVersion"), manifest["kind"]) not in _APPLIED:
            known = ", ".join(sorted(kind for _, kind in _APPLIED))
            raise UsageError(
                f"{source}: the demo applies {known} of their v1, not {manifest.get('apiVersion')} {manifest['kind']}"
            )
        if not isinstance(manifest.get("metadata"), dict) or not manifest["metadata"].get("name"):
            raise UsageError(f"{source}: {manifest['kind']} without a name: metadata.name is missing")
        manifests.append(manifest)
    return manifests


def apply(cluster: Cluster, manifests: Iterable[dict[str, Any]]) -> list[str]:
    """Create the objects, and namespaces and the classes where they are missing; the names of what was made."""
    given = list(manifests)
    # A Namespace of the user's own carries labels that matter (admin access), so it comes before those implied.
    given.sort(key=lambda manifest: manifest["kind"] != "Namespace")
    spaces = {m["metadata"]["namespace"] for m in given if m["metadata"].get("namespace")}
    spaces -= {m["metadata"]["name"] for m in given if m["kind"] == "Namespace"}
    implied = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}} for space in sorted(spaces)
    ]
    for manifest in [*implied, *packaged_classes()]:
        _create_missing(cluster, manifest)
    made = [manifest for manifest in given if _create_missing(cluster, manifest)]
    return [f"{manifest['kind']} {manifest['metadata']['name']}" for manifest in made]


def _create_missing(cluster: Cluster, manifest: dict[str, Any]) -> bool:
    resource: Resource = _APPLIED[manifest["apiVersion"], manifest["kind"]]
    namespace = manifest["metadata"].get("namespace", "default") if resource.namespaced else None
    try:
        cluster.client.create(resource, manifest, namespace=namespace)
    except AlreadyExistsError:
        return False
    return True

"""What the demo applies: the packaged examples, or the user's own files."""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import yaml

from dra_driver.cli.demo_report import Devices
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
    """The objects of YAML files and directories, in the order given."""
    manifests: list[dict[str, Any]] = []
    for file in files:
        if not file.exists():
            raise UsageError(f"{file} does not exist")
        for path in sorted(file.glob("*.yaml")) if file.is_dir() else [file]:
            try:
                documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
            except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
                raise UsageError(f"{path} cannot be read: {error}") from error
            for document in documents:
                _check_kind(path, document)
                manifests.append(document)
    return manifests


def _check_kind(path: Path, document: Any) -> None:
    kind = (document.get("apiVersion"), document.get("kind")) if isinstance(document, dict) else (None, None)
    if kind not in _APPLIED:
        known = ", ".join(sorted(kind for _, kind in _APPLIED))
        raise UsageError(f"{path}: the demo applies {known} of their v1, not {kind[0]} {kind[1]}")


def apply(cluster: Cluster, manifests: Iterable[dict[str, Any]]) -> list[str]:
    """Create the objects, and namespaces and the classes where they are missing; the names of what was made."""
    classes = list(yaml.safe_load_all((_FOLDER / "deviceclasses.yaml").read_text()))
    given = list(manifests)
    # A Namespace of the user's own carries labels that matter (admin access), so it comes before those implied.
    given.sort(key=lambda manifest: manifest["kind"] != "Namespace")
    spaces = {m["metadata"]["namespace"] for m in given if m["metadata"].get("namespace")}
    spaces -= {m["metadata"]["name"] for m in given if m["kind"] == "Namespace"}
    implied = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}} for space in sorted(spaces)
    ]
    for manifest in [*implied, *classes]:
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

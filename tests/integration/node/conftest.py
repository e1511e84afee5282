"""An embedded cluster with one node, and ways to use it as a person would."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dra_driver.embedded.cluster import Cluster, ClusterNode
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.resources import DEVICE_CLASSES, NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

_T = TypeVar("_T")
_SECONDS = 30.0


def until(get: Callable[[], _T], what: str) -> _T:
    """The first true value of `get`; fails, naming `what`, if there is none in time."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        if value := get():
            return value
        time.sleep(0.02)
    pytest.fail(f"{what} did not come about")


@dataclass
class Node:
    """One node of a running cluster."""

    cluster: Cluster
    node: ClusterNode

    @property
    def claims_dir(self) -> Path:
        return self.node.directory / "plugins" / "gpu.nvidia.com" / "claims"

    @property
    def cdi_dir(self) -> Path:
        return self.node.directory / "cdi"

    def state(self) -> tuple[list[str], list[str]]:
        """The names of all records, and of all specs, whatever else lies there included."""
        return (
            sorted(path.name for path in self.claims_dir.iterdir()),
            sorted(path.name for path in self.cdi_dir.iterdir()),
        )

    def slices(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.cluster.client.list(RESOURCE_SLICES)["items"]
        return items

    def devices(self) -> list[dict[str, Any]]:
        return [device for s in self.slices() for device in s["spec"].get("devices", ())]

    def published(self, number: int) -> None:
        until(lambda: len(self.devices()) == number, f"a node with {number} devices")

    def run_pod(self, name: str, count: int = 1, *, admin: bool = False) -> None:
        """A Pod with a claim of its own for so many GPUs."""
        exactly = {"deviceClassName": "gpu.nvidia.com", "count": count}
        if admin:
            exactly["adminAccess"] = True
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        }
        self.cluster.client.create(RESOURCE_CLAIMS, claim, namespace="default")
        self.cluster.client.create(PODS, self.pod(name), namespace="default")

    @staticmethod
    def pod(name: str) -> dict[str, Any]:
        container = {"name": "app", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [container],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                "terminationGracePeriodSeconds": 1,
            },
        }

    def phase(self, name: str) -> str:
        return str(self.cluster.client.get(PODS, name, "default").get("status", {}).get("phase"))

    def running(self, name: str) -> None:
        until(lambda: self.phase(name) == "Running", f"a running Pod {name}")

    def delete_pod(self, name: str) -> None:
        """Delete the Pod and its claim, and wait until both are gone."""
        self.cluster.client.delete(PODS, name, namespace="default")
        self.delete_claim(name)

    def delete_claim(self, name: str) -> None:
        """Wait for the end of the Pod, delete the claim and wait for its end."""
        until(lambda: self._gone(PODS, name), f"the end of Pod {name}")
        self.cluster.client.delete(RESOURCE_CLAIMS, name, namespace="default")
        until(lambda: self._gone(RESOURCE_CLAIMS, name), f"the end of claim {name}")

    def _gone(self, resource: Any, name: str) -> bool:
        try:
            self.cluster.client.get(resource, name, "default")
        except NotFoundError:
            return True
        return False

    def restart(self) -> None:
        """A new process of the plugin."""
        self.node.plugin.start()

    def log(self) -> str:
        return self.node.plugin.log.read_text()


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path: sockets below it are limited to 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="dra-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def cluster(directory: Path) -> Iterator[Cluster]:
    with Cluster(directory) as cluster:
        cluster.client.create(
            DEVICE_CLASSES,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "gpu.nvidia.com"},
                "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
            },
        )
        labels = {"resource.kubernetes.io/admin-access": "true"}
        cluster.client.patch(NAMESPACES, "default", {"metadata": {"labels": labels}})
        yield cluster


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return Node(cluster, cluster.add_node("node-a", "l40s"))

"""An API server, a client of it, and objects to put there."""

import copy
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube.client import Client
from dra_driver.kube.resources import EVENTS, NAMESPACES, NODES, Resource

Object = dict[str, Any]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.store.create(NAMESPACES, {"metadata": {"name": "team"}})
        yield server


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    return path


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[Client]:
    client = Client.connect(kubeconfig)
    yield client
    client.close()


@pytest.fixture
def claim() -> Callable[..., Object]:
    def make(name: str = "c", **metadata: Any) -> Object:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "team", **metadata},
            "spec": {"devices": {"requests": [request]}},
        }

    return make


@pytest.fixture
def pod() -> Callable[..., Object]:
    def make(name: str = "p", **spec: Any) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"containers": [{"name": "main", "image": "app:1"}], **spec},
        }

    return make


@pytest.fixture
def slice_of() -> Callable[..., Object]:
    def make(name: str = "s", node: str = "node-a", **spec: Any) -> Object:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": node,
                "pool": {"name": f"{node}/gpu", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0", "capacity": {"memory": {"value": "0.5Gi"}}}],
                **copy.deepcopy(spec),
            },
        }

    return make


@pytest.fixture
def node(server: ApiServer) -> Object:
    return server.store.create(NODES, {"metadata": {"name": "node-a"}})


@pytest.fixture
def until(client: Client) -> Callable[..., Object | None]:
    """Wait for an object to be as a condition says (None: gone), by watching it; returns it as it is then."""

    def wait(
        resource: Resource,
        name: str,
        condition: Callable[[Object | None], object],
        namespace: str | None = "team",
    ) -> Object | None:
        namespace = namespace if resource.namespaced else None
        listed = client.list(resource, namespace=namespace, field_selector=f"metadata.name={name}")
        found: Object | None = listed["items"][0] if listed["items"] else None
        if condition(found):
            return found
        for event in client.watch(
            resource,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            resource_version=listed["metadata"]["resourceVersion"],
            timeout_seconds=90,
            stop=threading.Event(),
        ):
            if event.type == "BOOKMARK":
                continue
            found = None if event.type == "DELETED" else event.object
            if condition(found):
                return found
        raise AssertionError(f"{resource.kind} {name} never came to be so; it is {found}")

    return wait


@pytest.fixture
def first_event(client: Client) -> Callable[[str], Object]:
    """Wait for an Event about a Pod of namespace team."""

    def wait(name: str) -> Object:
        for event in client.watch(
            EVENTS,
            namespace="team",
            field_selector=f"involvedObject.name={name}",
            resource_version="0",
            timeout_seconds=90,
            stop=threading.Event(),
        ):
            return event.object
        raise AssertionError(f"no event about {name}")

    return wait

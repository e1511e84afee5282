"""A cluster of API server, claim controllers and scheduler, with nodes whose slices are written by the test."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.embedded.controllers import Controllers
from dra_driver.embedded.scheduler import Scheduler
from dra_driver.kube.client import Client
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"
_PATIENCE_SECONDS = 90


class Cluster:
    """Objects of namespace `team`, made in one line each, and waiting for what becomes of them."""

    def __init__(self, server: ApiServer, client: Client, scheduler: Scheduler) -> None:
        self.server = server
        self.client = client
        self._scheduler = scheduler
        self._changed = threading.Condition()
        self._copies = {
            resource: Reflector(client, resource, on_event=self._notify)
            for resource in (PODS, RESOURCE_CLAIMS, EVENTS)
        }
        server.store.create(NAMESPACES, {"metadata": {"name": "team"}})

    def start(self) -> None:
        for copy in self._copies.values():
            copy.start()

    def stop(self) -> None:
        for copy in self._copies.values():
            copy.stop()

    def _notify(self, _kind: str, _obj: Object) -> None:
        with self._changed:
            self._changed.notify_all()

    def until(self, resource: Resource, name: str, test: Callable[[Object], Any]) -> Object:
        """The object, once `test` holds for it."""
        copy = self._copies[resource]

        def found() -> Object | None:
            obj = copy.get(name, "team")
            return obj if obj is not None and test(obj) else None

        with self._changed:
            obj = self._changed.wait_for(found, _PATIENCE_SECONDS)
        assert obj is not None, f"{resource.kind} {name}: {copy.get(name, 'team')}"
        return obj

    def create(self, resource: Resource, body: Object) -> Object:
        """The object made, once the scheduler has it in its copy: what it says of a later Pod takes it into account."""
        made = self.client.create(resource, body)
        metadata = made["metadata"]
        give_up = time.monotonic() + _PATIENCE_SECONDS
        for copy in self._scheduler._reflectors:
            while (
                copy.name == resource.plural and copy.get(metadata["name"], metadata.get("namespace")) is None
            ):
                assert time.monotonic() < give_up, (
                    f"the scheduler does not see {resource.kind} {metadata['name']}"
                )
                time.sleep(0.001)
        return made

    def node(self, name: str, *models: str, **spec: Any) -> None:
        """A node with a GPU of each model."""
        self.create(NODES, {"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec})
        if models:
            self.slice(name, *models)

    def slice(self, node: str, *models: str, part: int = 0, parts: int = 1) -> None:
        """One slice of the node's pool, which has so many."""
        devices = [
            {
                "name": f"gpu-{index}",
                "attributes": {"type": {"string": "gpu"}, "productName": {"string": model}},
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for index, model in enumerate(models)
        ]
        pool = {"name": f"{node}/gpu", "generation": 1, "resourceSliceCount": parts}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        self.create(RESOURCE_SLICES, {"metadata": {"name": f"{part}-{node}-{DRIVER}"}, "spec": spec})

    def device_class(self, name: str = DRIVER, **spec: Any) -> None:
        expression = f"device.driver == '{DRIVER}'"
        body = {
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
        }
        self.create(DEVICE_CLASSES, body)

    def claim(self, name: str, expression: str = "true", **exactly: Any) -> Object:
        return self.create(
            RESOURCE_CLAIMS,
            {"metadata": {"name": name, "namespace": "team"}, "spec": _spec(expression, exactly)},
        )

    def template(self, name: str, expression: str = "true", **exactly: Any) -> None:
        body = {"metadata": {"name": name, "namespace": "team"}, "spec": {"spec": _spec(expression, exactly)}}
        self.create(RESOURCE_CLAIM_TEMPLATES, body)

    def pod(self, name: str, *, claim: str = "", template: str = "", **spec: Any) -> Object:
        entry: Object = {"name": "gpu"}
        if claim:
            entry["resourceClaimName"] = claim
        if template:
            entry["resourceClaimTemplateName"] = template
        container = {"name": "main", "image": "app:1"}
        body = {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {
                "containers": [container],
                **({"resourceClaims": [entry]} if claim or template else {}),
                **spec,
            },
        }
        return self.create(PODS, body)

    def bound(self, pod: str) -> str:
        """The node of the Pod, once it has one."""
        return str(self.until(PODS, pod, lambda pod: pod["spec"].get("nodeName"))["spec"]["nodeName"])

    def refusal(self, pod: str, reason: str = "Unschedulable") -> str:
        """What the PodScheduled condition says, once it is false for that reason."""
        found = self.until(PODS, pod, lambda pod: scheduled(pod).get("reason") == reason)
        return str(scheduled(found)["message"])

    def devices(self, claim: str) -> list[str]:
        found = self.until(
            RESOURCE_CLAIMS, claim, lambda claim: (claim.get("status") or {}).get("allocation")
        )
        return [result["device"] for result in found["status"]["allocation"]["devices"]["results"]]

    def made_claim(self, pod: str) -> Object:
        """The claim that was made for the Pod from a template."""
        found = self.until(PODS, pod, lambda pod: (pod.get("status") or {}).get("resourceClaimStatuses"))
        name = found["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        return self.until(RESOURCE_CLAIMS, name, lambda claim: (claim.get("status") or {}).get("allocation"))

    def event(self, pod: str, reason: str) -> Object:
        """The first event about the Pod with that reason."""
        copy = self._copies[EVENTS]

        def found() -> Object | None:
            return next(
                (
                    one
                    for one in copy.snapshot()
                    if one["reason"] == reason and one["involvedObject"]["name"] == pod
                ),
                None,
            )

        with self._changed:
            event = self._changed.wait_for(found, _PATIENCE_SECONDS)
        assert event is not None
        return event


def scheduled(pod: Object) -> Object:
    """The Pod's PodScheduled condition."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def _spec(expression: str, exactly: Object) -> Object:
    request = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": expression}}], **exactly}
    return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        client = Client.connect(tmp_path / "kubeconfig")
        scheduler = Scheduler(client)
        cluster = Cluster(server, client, scheduler)
        parts = (Controllers(client), scheduler, cluster)
        for part in parts:
            part.start()
        yield cluster
        for part in reversed(parts):
            part.stop()
        client.close()

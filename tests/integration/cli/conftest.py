"""A cluster with an API server, controllers and a scheduler, and commands run against it in this process."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra_driver.cli.main import main
from dra_driver.cli.simulated_nodes import nodes
from dra_driver.cli.worlds import packaged_classes
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
)

Object = dict[str, Any]
_RESOURCES = {
    resource.kind: resource
    for resource in (
        DEVICE_CLASSES,
        EVENTS,
        NAMESPACES,
        NODES,
        PODS,
        RESOURCE_CLAIM_TEMPLATES,
        RESOURCE_CLAIMS,
        RESOURCE_SLICES,
    )
}
_PATIENCE_SECONDS = 90


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Cluster:
    """Two nodes of simulated GPUs, this driver's classes, and a namespace `team`."""

    def __init__(
        self,
        client: Client,
        kubeconfig: Path,
        pods: Reflector,
        scheduler: Scheduler,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self._pods = pods
        self._scheduler = scheduler
        self.changed = threading.Condition()
        self._capsys = capsys
        self.create({"kind": "Namespace", "metadata": {"name": "team"}})
        for obj in (*nodes("dgx-h100=1,l40s=1"), *packaged_classes()):
            self.create(obj)

    def create(self, obj: Object) -> Object:
        """The object made, once the scheduler has it in its copy: what it decides on a later Pod takes it into account."""
        resource = _RESOURCES[obj["kind"]]
        namespace = "team" if resource.namespaced else None
        body = {**obj, "apiVersion": resource.api_version}
        made = self.client.create(resource, body, namespace=namespace)
        give_up = time.monotonic() + _PATIENCE_SECONDS
        for copy in self._scheduler._reflectors:
            while copy.name == resource.plural and copy.get(made["metadata"]["name"], namespace) is None:
                assert time.monotonic() < give_up, f"the scheduler does not see {obj['kind']}"
                time.sleep(0.001)
        return made

    def spec(self, expression: str = "true", **exactly: Any) -> Object:
        selectors = [{"cel": {"expression": expression}}]
        request = {"deviceClassName": "gpu.nvidia.com", "selectors": selectors, **exactly}
        return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}

    def claim(self, name: str, expression: str = "true", **exactly: Any) -> None:
        spec = self.spec(expression, **exactly)
        self.create({"kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec})

    def template(self, name: str, expression: str = "true", **exactly: Any) -> None:
        spec = {"spec": self.spec(expression, **exactly)}
        self.create({"kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec})

    def pod(self, name: str, *, claim: str = "", template: str = "", **spec: Any) -> None:
        entry = {
            "name": "gpu",
            **({"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}),
        }
        containers = [{"name": "main", "image": "app"}]
        body = {"containers": containers, "resourceClaims": [entry], **spec}
        self.create({"kind": "Pod", "metadata": {"name": name}, "spec": body})

    def decided(self, name: str) -> Object:
        """The Pod once the scheduler has placed it, or said that it cannot."""

        def test() -> Object | None:
            pod = self._pods.get(name, "team")
            if pod is None:
                return None
            conditions = (pod.get("status") or {}).get("conditions") or ()
            refused = any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
            return pod if refused or pod["spec"].get("nodeName") else None

        with self.changed:
            pod = self.changed.wait_for(test, _PATIENCE_SECONDS)
        assert pod is not None, f"nothing was decided about Pod {name}"
        return pod

    def run(self, *arguments: str) -> Ran:
        code = main([*arguments, "-n", "team", "--kubeconfig", str(self.kubeconfig)])
        printed = self._capsys.readouterr()
        return Ran(code, printed.out, printed.err)


@pytest.fixture
def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cluster]:
    kubeconfig = tmp_path / "kubeconfig"
    # What the cluster logs would be among what the commands print.
    with capture_logs(), ApiServer() as server:
        server.write_kubeconfig(kubeconfig)
        client = Client.connect(kubeconfig)
        notify: list[Callable[[], None]] = []

        def on_event(_kind: str, _obj: Object) -> None:
            for one in notify:
                one()

        pods = Reflector(client, PODS, on_event=on_event)
        scheduler = Scheduler(client)
        parts = (Controllers(client), scheduler, pods)
        for part in parts:
            part.start()
        cluster = Cluster(client, kubeconfig, pods, scheduler, capsys)

        def changed() -> None:
            with cluster.changed:
                cluster.changed.notify_all()

        notify.append(changed)
        yield cluster
        for part in reversed(parts):
            part.stop()
        client.close()

"""A cluster of an API server, a kubelet and scripted drivers, on real sockets below a short directory."""

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.embedded.kubelet import Kubelet, Timing
from dra_driver.kube import resources
from dra_driver.kube.client import Client
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import Resource
from tests.unit.embedded.kubelet.scripted_plugin import ScriptedPlugin

DRIVER = "example.com"
NODE = "node-a"
QUICK = Timing(
    scan=0.02,
    registration_retry=0.02,
    registration_retry_cap=1.0,
    pod_retry=0.02,
    pod_retry_cap=0.1,
    reconcile=0.05,
)
TIMEOUT = 90.0


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory whose path is short enough for unix sockets."""
    path = Path(tempfile.mkdtemp(prefix="k-"))
    yield path
    shutil.rmtree(path)


class Cluster:
    """What the tests do to the API server, the kubelet's directories and drivers."""

    driver = DRIVER

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root = root
        self.cdi = root / "cdi"
        self.cdi.mkdir()
        self._stack = stack
        self.server = ApiServer().start()
        stack.callback(self.server.stop)
        kubeconfig = root / "kubeconfig"
        self.server.write_kubeconfig(kubeconfig)
        self.client = Client.connect(kubeconfig)
        stack.callback(self.client.close)
        self._changed = threading.Condition()
        self._reflectors: dict[Resource, Reflector] = {}
        for resource in (resources.PODS, resources.EVENTS, resources.RESOURCE_SLICES, resources.NODES):
            self._reflectors[resource] = Reflector(self.client, resource, on_event=self._notify)
            self._reflectors[resource].start()
            stack.callback(self._reflectors[resource].stop)

    def _notify(self, _kind: str, _obj: dict[str, Any]) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait(self, resource: Resource, holds: Callable[[list[dict[str, Any]]], Any]) -> Any:
        """What `holds` returns of all objects of a kind, once that is true."""
        reflector = self._reflectors[resource]
        with self._changed:
            found = self._changed.wait_for(lambda: holds(reflector.snapshot()), TIMEOUT)
        assert found, reflector.snapshot()
        return found

    def wait_pod(self, name: str, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The Pod, once `holds` is true of it."""

        def find(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [pod for pod in pods if pod["metadata"]["name"] == name and holds(pod)]

        found: dict[str, Any] = self.wait(resources.PODS, find)[0]
        return found

    def wait_phase(self, name: str, phase: str) -> dict[str, Any]:
        return self.wait_pod(name, lambda pod: pod["status"]["phase"] == phase)

    def wait_gone(self, name: str) -> None:
        self.wait(resources.PODS, lambda pods: all(pod["metadata"]["name"] != name for pod in pods))

    def wait_event(self, reason: str, count: int = 1) -> str:
        """The message of an event that was seen `count` times."""

        def find(events: list[dict[str, Any]]) -> list[str]:
            return [
                event["message"] for event in events if event["reason"] == reason and event["count"] >= count
            ]

        found: str = self.wait(resources.EVENTS, find)[0]
        return found

    def kubelet(self, *, timing: Timing = QUICK, **options: Any) -> Kubelet:
        """A started kubelet; on the same directories each time."""
        kubelet = Kubelet(
            self.client,
            node_name=NODE,
            root=self.root / "kubelet",
            cdi_dirs=[self.cdi],
            timing=timing,
            **options,
        ).start()
        self._stack.callback(kubelet.stop)
        return kubelet

    def plugin(self, name: str = DRIVER, **script: Any) -> ScriptedPlugin:
        """A started driver in the kubelet's directories."""
        base = self.root / "kubelet"
        (base / "plugins_registry").mkdir(parents=True, exist_ok=True)
        plugin = ScriptedPlugin(name, base / "plugins_registry", base / "plugins" / name, **script).start()
        self._stack.callback(plugin.stop)
        return plugin

    def slice(self, name: str, *, node: str = NODE, driver: str = DRIVER) -> None:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        self.client.create(
            resources.RESOURCE_SLICES,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": name},
                "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "dev-0"}]},
            },
        )

    def slices(self) -> list[str]:
        items = self.client.list(resources.RESOURCE_SLICES)["items"]
        return sorted(item["metadata"]["name"] for item in items)

    def claim(
        self, name: str = "claim", *, driver: str = DRIVER, pods: tuple[dict[str, Any], ...] = ()
    ) -> str:
        """An allocated claim that `pods` may use; its UID."""
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "any"}}]}},
        }
        claim = self.client.create(resources.RESOURCE_CLAIMS, body)
        result = {"request": "gpu", "driver": driver, "pool": "node/pool", "device": "dev-0"}
        claim["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [
                {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
                for pod in pods
            ],
        }
        claim = self.client.replace(resources.RESOURCE_CLAIMS, claim, subresource="status")
        uid: str = claim["metadata"]["uid"]
        return uid

    def spec(self, uid: str, **more: Any) -> None:
        """The CDI spec of what a scripted plugin answers for a claim by default, with `more` edits."""
        edits = {
            **more,
            "env": [f"CLAIM={uid}"],
            "deviceNodes": [{"path": "/dev/example", "hostPath": "/dev/null"}],
        }
        device = {"name": f"{uid}-dev-0", "containerEdits": edits}
        body = {"cdiVersion": "0.5.0", "kind": f"{DRIVER}/claim", "devices": [device]}
        (self.cdi / f"{uid}.json").write_text(json.dumps(body))

    def pod(self, name: str = "pod", claim: str | None = "claim", **spec: Any) -> dict[str, Any]:
        """A Pod whose container uses a claim, not bound to a node yet."""
        container: dict[str, Any] = {"name": "main", "image": "image"}
        if claim is not None:
            spec["resourceClaims"] = [{"name": "devices", "resourceClaimName": claim}]
            container["resources"] = {"claims": [{"name": "devices"}]}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container], **spec},
        }
        return self.client.create(resources.PODS, body)

    def bind(self, name: str = "pod") -> None:
        """Bind a Pod to the node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        binding = Resource("", "v1", f"pods/{name}/binding", "Binding", namespaced=True)
        self.client.create(binding, body, namespace="default")

    def run(self, name: str = "pod", **spec: Any) -> str:
        """A bound Pod with a claim of its own ("<name>-claim") and that claim's CDI spec; the claim's UID."""
        pod = self.pod(name, f"{name}-claim", **spec)
        uid = self.claim(f"{name}-claim", pods=(pod,))
        self.spec(uid)
        self.bind(name)
        return uid


@pytest.fixture
def cluster(root: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(root, stack)

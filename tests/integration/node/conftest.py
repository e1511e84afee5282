"""An embedded cluster with one node, and ways to use it as a person would."""

import http.client
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from dra_driver.embedded.cluster import Cluster, ClusterNode, PluginProcess
from dra_driver.embedded.kubelet import ContainerView, Timing
from dra_driver.files import write_atomic
from dra_driver.inventory.faults import faults_file
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_driver.kubelet import sockets
from dra_driver.kubelet.pb import dra_v1_pb2, dra_v1_pb2_grpc

_T = TypeVar("_T")
_SECONDS = 90.0  # a machine that does something else as well
# A slow machine may take its time to answer, and to start a plugin again; what failed is tried again soon all the same.
_QUICK = Timing(
    scan=0.05,
    get_info=10.0,
    notify=10.0,
    registration_retry=0.1,
    registration_retry_cap=1.0,
    wipe=_SECONDS,
    pod_retry=0.1,
    pod_retry_cap=0.5,
    reconcile=0.5,
)
_FLAGS = ("--rescan-seconds=0.2", "--metrics-address=127.0.0.1:0")

Object = dict[str, Any]


def until(get: Callable[[], _T], what: str) -> _T:
    """The first true value of `get`; fails, naming `what`, if there is none in time."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        if value := get():
            return value
        time.sleep(0.02)
    pytest.fail(f"{what} did not come about")


class State(NamedTuple):
    """The names of all files that hold state, whatever else lies there or was set aside included."""

    records: list[str]
    specs: list[str]
    metadata: list[str]


@dataclass
class Node:
    """One node of a running cluster."""

    cluster: Cluster
    node: ClusterNode
    _processes: list[PluginProcess] = field(default_factory=list)  # beside the node's plugin
    _log_begin: int = 0
    until = staticmethod(until)
    seconds = _SECONDS

    @property
    def plugin(self) -> PluginProcess:
        return self.node.plugin

    @property
    def plugin_dir(self) -> Path:
        return self.node.directory / "plugins" / "gpu.nvidia.com"

    @property
    def claims_dir(self) -> Path:
        return self.plugin_dir / "claims"

    @property
    def registry_dir(self) -> Path:
        return self.node.kubelet.registry_dir

    @property
    def cdi_dir(self) -> Path:
        return self.node.directory / "cdi"

    def state(self) -> State:
        frame = {self.claims_dir / "damaged", *self.claims_dir.glob("damaged/*")}
        return State(
            sorted(path.name for path in self.claims_dir.rglob("*") if path not in frame),
            sorted(path.name for path in self.cdi_dir.iterdir()),
            sorted(path.name for path in self.plugin_dir.glob("device-metadata/*")),
        )

    def state_of(self, *claims: str) -> State:
        """The state if these claims, each of one request "gpu", are all that is prepared."""
        uids = sorted(self.claim(name)["metadata"]["uid"] for name in claims)
        return State(
            [f"{uid}.json" for uid in uids],
            [f"k8s.gpu.nvidia.com-claim_{uid}.json" for uid in uids],
            [f"{uid}_gpu.json" for uid in uids],
        )

    # The node as a whole.

    def begin(self) -> None:
        """Wait for a node as `reset` leaves it."""
        if not self.plugin.running():
            self.restart()
        self.ready()
        self.published(4)
        self._log_begin = self.plugin.log.stat().st_size

    def reset(self) -> None:
        """Have it as it was before the test, which may have failed at any point."""
        print(self.log())  # shown for a test that failed
        self.stop_processes()
        self.cluster.server.faults.clear()
        self.simulate("")
        self.registry_dir.mkdir(exist_ok=True)
        if not self.plugin.running():
            self.restart()
        client = self.cluster.client
        for resource in (PODS, RESOURCE_CLAIMS):
            client.delete_collection(resource, namespace="default")
            until(partial(self._none_left, resource), f"the end of all {resource.plural}")
        self.empty()

    def _none_left(self, resource: Resource) -> bool:
        return not self.cluster.client.list(resource, namespace="default")["items"]

    # The plugin's process.

    def restart(self) -> None:
        """A new process of the plugin."""
        self.plugin.start()

    def spawn(self, *command: str) -> PluginProcess:
        """Another process on this node, which ends with the test."""
        process = PluginProcess(command, self.plugin.log).start()
        self._processes.append(process)
        return process

    def stop_processes(self) -> None:
        while self._processes:
            self._processes.pop().stop()

    def log(self) -> str:
        """The plugin's log since the test began."""
        return self.plugin.log.read_bytes()[self._log_begin :].decode()

    def logged(self, text: str) -> None:
        until(lambda: text in self.log(), f"{text!r} in the log")

    def get(self, path: str) -> tuple[int, str]:
        """Status and content of a page of the newest process; 0 while there is none."""
        ports = re.findall(r'"serving metrics and probes".* port=(\d+)', self.plugin.log.read_text())
        if not ports:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode().strip()
        except (OSError, http.client.HTTPException):
            return 0, ""

    def ready(self) -> None:
        until(lambda: self.get("/readyz")[0] == 200, "a plugin that is ready")

    def stopped(self) -> None:
        """Stop the plugin, and wait until the kubelet has noticed: what registers from now on is a new process."""
        self.plugin.stop()
        assert self.node.kubelet.wait_deregistered("gpu.nvidia.com", _SECONDS)

    def registered(self, driver: str = "gpu.nvidia.com") -> None:
        assert self.node.kubelet.wait_registered(driver, _SECONDS), f"{driver} is not registered"

    def simulate(self, faults: str) -> None:
        """Have the simulated hardware be as a fault file says; empty: all is well."""
        path = faults_file(self.plugin_dir / "driver-root")
        if faults:
            write_atomic(path, faults.encode(), sync=False)
        else:
            path.unlink(missing_ok=True)

    # What is published.

    def slices(self) -> list[Object]:
        items: list[Object] = self.cluster.client.list(RESOURCE_SLICES)["items"]
        ours = self.node.name, "gpu.nvidia.com"
        return [item for item in items if (item["spec"].get("nodeName"), item["spec"]["driver"]) == ours]

    def devices(self) -> list[Object]:
        return [device for s in self.slices() for device in s["spec"].get("devices", ())]

    def device_names(self) -> list[str]:
        return sorted(device["name"] for device in self.devices())

    def published(self, number: int) -> list[str]:
        """The names of the node's devices, once there are so many."""
        until(lambda: len(self.devices()) == number, f"a node with {number} devices")
        return self.device_names()

    # Claims and Pods.

    def create_claim(self, name: str, *requests: Object, config: Sequence[Object] = ()) -> Object:
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": list(requests or [self.request()]), "config": list(config)}},
        }
        return self.cluster.client.create(RESOURCE_CLAIMS, claim, namespace="default")

    def claim(self, name: str) -> Object:
        return self.cluster.client.get(RESOURCE_CLAIMS, name, "default")

    def results(self, claim: str) -> list[Object]:
        """What the scheduler gave the claim."""
        allocation = (self.claim(claim).get("status") or {}).get("allocation") or {}
        results: list[Object] = (allocation.get("devices") or {}).get("results") or []
        return results

    @staticmethod
    def request(name: str = "gpu", count: int = 1, *, admin: bool = False) -> Object:
        exactly: Object = {"deviceClassName": "gpu.nvidia.com", "count": count}
        if admin:
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def create_pod(self, name: str, claim: str | None = None, **spec: Any) -> Object:
        """A Pod with a claim that exists, by default the one of its name; `spec` replaces parts of the Pod's."""
        return self.cluster.client.create(PODS, self.pod(name, claim, **spec), namespace="default")

    def run_pod(self, name: str, count: int = 1, *, admin: bool = False) -> None:
        """A Pod with a claim of its own for so many GPUs."""
        self.create_claim(name, self.request(count=count, admin=admin))
        self.create_pod(name)

    @staticmethod
    def pod(name: str, claim: str | None = None, **spec: Any) -> Object:
        container = {"name": "app", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [container],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": claim or name}],
                "terminationGracePeriodSeconds": 1,
                **spec,
            },
        }

    def phase(self, name: str) -> str:
        return str(self.cluster.client.get(PODS, name, "default").get("status", {}).get("phase"))

    def running(self, name: str) -> ContainerView:
        """The Pod's container "app", once the Pod runs."""
        until(lambda: self.phase(name) == "Running" and self._container(name), f"a running Pod {name}")
        return self._container(name)  # type: ignore[return-value] # waited for

    def _container(self, name: str) -> ContainerView | None:
        return self.node.kubelet.views().get(f"default/{name}", {}).get("app")

    def failures(self, name: str) -> set[str]:
        """What the Pod's events say of claims that could not be prepared."""
        return {
            event["message"]
            for event in self.cluster.client.list(EVENTS, namespace="default")["items"]
            if event["involvedObject"]["name"] == name and event["reason"] == "FailedPrepareDynamicResources"
        }

    def failed(self, name: str, text: str) -> None:
        """Wait until an event says that the Pod's claims could not be prepared, with this sentence."""
        until(lambda: any(text in message for message in self.failures(name)), f"an event with {text!r}")

    def prepare(self, name: str, uid: str | None = None) -> Any:
        """The plugin's answer to a kubelet's call for a claim, which has the UID given or its own."""
        return self._call("NodePrepareResources", name, uid)

    def unprepare(self, name: str, uid: str | None = None) -> Any:
        return self._call("NodeUnprepareResources", name, uid)

    def _call(self, method: str, name: str, uid: str | None) -> Any:
        uid = uid or self.claim(name)["metadata"]["uid"]
        request = getattr(dra_v1_pb2, f"{method}Request")(
            claims=[dra_v1_pb2.Claim(namespace="default", name=name, uid=uid)]
        )
        with sockets.connect(self.plugin_dir / "dra.sock") as channel:
            stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
            return getattr(stub, method)(request, timeout=_SECONDS).claims[uid]

    def delete_pod(self, name: str) -> None:
        """Delete the Pod and its claim, and wait until both are gone."""
        self.cluster.client.delete(PODS, name, namespace="default")
        self.delete_claim(name)

    def delete_claim(self, name: str) -> None:
        """Wait for the end of the Pod, delete the claim and wait for its end."""
        self.gone(PODS, name)
        self.cluster.client.delete(RESOURCE_CLAIMS, name, namespace="default")
        self.gone(RESOURCE_CLAIMS, name)

    def gone(self, resource: Resource, name: str) -> None:
        until(lambda: not self.exists(resource, name), f"the end of {resource.kind} {name}")

    def exists(self, resource: Resource, name: str) -> bool:
        try:
            self.cluster.client.get(resource, name, "default")
        except NotFoundError:
            return False
        return True

    def empty(self) -> None:
        """Wait until nothing is prepared, and nothing left of what was."""
        until(lambda: self.state() == self.state_of(), "a node without records and specs")


@contextmanager
def _temporary() -> Iterator[Path]:
    """A short path: sockets below it are limited to 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="dra-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def _cluster(directory: Path) -> Iterator[Cluster]:
    with Cluster(directory) as cluster:
        cluster.client.create(
            DEVICE_CLASSES,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "gpu.nvidia.com"},
                "spec": {
                    "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}],
                    "extendedResourceName": "nvidia.com/gpu",
                },
            },
        )
        labels = {"resource.kubernetes.io/admin-access": "true"}
        cluster.client.patch(NAMESPACES, "default", {"metadata": {"labels": labels}})
        yield cluster


@pytest.fixture
def directory() -> Iterator[Path]:
    with _temporary() as path:
        yield path


@pytest.fixture
def cluster(directory: Path) -> Iterator[Cluster]:
    with _cluster(directory) as cluster:
        yield cluster


@pytest.fixture
def new_node(cluster: Cluster) -> Iterator[Callable[..., Node]]:
    """Makes nodes of a cluster of the test's own: name, profile, further flags; and the kubelet's arguments."""
    nodes: list[Node] = []

    def make(name: str = "node-a", profile: str = "l40s", *flags: str, **kubelet: Any) -> Node:
        added = cluster.add_node(name, profile, *_FLAGS, *flags, **{"timing": _QUICK, **kubelet})
        nodes.append(Node(cluster, added))
        return nodes[-1]

    yield make
    for node in nodes:
        print(node.log())  # shown for a test that failed
        node.stop_processes()


@pytest.fixture(scope="module")
def _shared_node() -> Iterator[Node]:
    with _temporary() as directory, _cluster(directory) as cluster:
        yield Node(cluster, cluster.add_node("node-a", "l40s", *_FLAGS, timing=_QUICK))


@pytest.fixture
def node(_shared_node: Node) -> Iterator[Node]:
    """A node with four GPUs, all free: the tests of a module use it one after the other."""
    _shared_node.begin()
    yield _shared_node
    _shared_node.reset()

"""Why claims and Pods wait, in Events on both, kept true while the cluster changes."""

import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from dra_driver.cli.simulated_nodes import nodes
from dra_driver.cli.worlds import packaged_classes
from dra_driver.controller.cluster import Cluster as View
from dra_driver.controller.config import DEFAULT
from dra_driver.controller.explainer import part
from dra_driver.controller.explainer.inspection import Patience
from dra_driver.controller.explainer.part import Explainer, Pace
from dra_driver.controller.explainer.pending import Subject, subjects
from dra_driver.controller.flags import parse
from dra_driver.controller.part import Surroundings
from dra_driver.embedded.cluster import Cluster
from dra_driver.kube import events
from dra_driver.kube.client import Client
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

Object = dict[str, Any]
NAMESPACE = "dra-driver"
QUICK = Pace(least_rest=0.02, rest=0.0, inspect_every=0.05, idle=0.1)
AT_ONCE = Patience(unreserved=0.0, without_driver=0.0, published_twice=0.0)
LABELS = {"app.kubernetes.io/name": "dra-driver", "app.kubernetes.io/component": "kubelet-plugin"}


class Replica:
    """The explaining half of a controller."""

    def __init__(self, kubeconfig: Path, identity: str, *arguments: str) -> None:
        flags = ["--namespace", NAMESPACE, "--identity", identity, *arguments]
        self.stopped = False
        self.client = Client.connect(kubeconfig)
        self.registry = CollectorRegistry()
        surroundings = Surroundings(parse(flags, {}), DEFAULT, self.client, self.registry)
        self.view = View(self.client, namespace=NAMESPACE)
        self.explainer = Explainer(surroundings, self.view, pace=QUICK, patience=AT_ONCE)
        self.view.start()
        self.explainer.start()

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def stop(self) -> None:
        self.stopped = True
        self.explainer.stop()
        self.view.stop()
        self.client.close()


class Site:
    """A cluster with a scheduler and two kinds of nodes, and replicas of the explainer."""

    def __init__(self, directory: Path) -> None:
        self._closing = contextlib.ExitStack()
        self._replicas: list[Replica] = []
        self.cluster = self._closing.enter_context(Cluster(directory))
        self.client = self.cluster.client
        for name in (NAMESPACE, "team"):
            self.create(NAMESPACES, {"metadata": {"name": name}})
        for one in packaged_classes():
            self.create(DEVICE_CLASSES, one)
        for one in nodes("l40s=1"):
            self.create(NODES if one["kind"] == "Node" else RESOURCE_SLICES, one)

    def replica(self, identity: str = "a", *arguments: str) -> Replica:
        replica = Replica(self.cluster.kubeconfig, identity, *arguments)
        self._closing.callback(replica.stop)
        self._replicas.append(replica)
        return replica

    def create(self, resource: Resource, body: Object) -> Object:
        status = body.get("status")
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        created = self.client.create(resource, typed)
        if status:
            created = self.client.replace(resource, {**created, "status": status}, subresource="status")
        if resource is not PODS:  # what is decided on a later Pod, or said of it, is to take it into account
            wait(lambda: self._is_seen(resource, created))
        return created

    def _is_seen(self, resource: Resource, created: Object) -> bool:
        """Whether the scheduler and the replicas have the object in their copies."""
        views = [replica.view._all for replica in self._replicas if not replica.stopped]
        copies = [copy for view in (self.cluster.scheduler._reflectors, *views) for copy in view]
        name, namespace = created["metadata"]["name"], created["metadata"].get("namespace")
        return all(copy.get(name, namespace) for copy in copies if copy.name == resource.plural)

    def claim(self, name: str, **exactly: Any) -> Object:
        return self.create(
            RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "team"}, "spec": spec(**exactly)}
        )

    def pod(self, name: str, **entry: str) -> Object:
        containers = [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]
        body = {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"containers": containers, "resourceClaims": [{"name": "gpu", **entry}]},
        }
        return self.create(PODS, body)

    def waiting(self, name: str, **exactly: Any) -> None:
        """A Pod with a claim of its own, of the same name."""
        self.claim(name, **exactly)
        self.pod(name, resourceClaimName=name)

    def events(self, reason: str = "ClaimNotSatisfiable", kind: str | None = None) -> list[Object]:
        items: list[Object] = self.client.list(EVENTS, field_selector=f"reason={reason}")["items"]
        return [item for item in items if kind in {None, item["involvedObject"]["kind"]}]

    def event(self, kind: str, name: str, reason: str = "ClaimNotSatisfiable", contains: str = "") -> Object:
        """The one Event of the reason about an object, once it says this."""

        def found() -> Object | None:
            about = [one for one in self.events(reason, kind) if one["involvedObject"]["name"] == name]
            assert len(about) <= 1
            return next((one for one in about if contains in one["message"]), None)

        event: Object = wait(found)
        return event

    def close(self) -> None:
        self._closing.close()


def spec(**exactly: Any) -> Object:
    request = {"deviceClassName": "gpu.nvidia.com", **exactly}
    return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}


def wait(check: Callable[[], Any], seconds: float = 90.0) -> Any:
    """What `check` returns, once it is something."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "it has not come to that"
        threading.Event().wait(0.02)
    return found


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(events, "_REPEAT_SECONDS", 0.0)
    with tempfile.TemporaryDirectory(prefix="dra-") as directory:  # short, for sockets
        site = Site(Path(directory))
        yield site
        site.close()


def test_a_pod_and_its_claim_say_why_they_wait(site: Site) -> None:
    replica = site.replica()
    site.waiting("many", count=20)
    pod, claim = site.event("Pod", "many"), site.event("ResourceClaim", "many")
    assert pod["message"].startswith(
        "cannot be scheduled: request gpu: 20 devices wanted, and no node has more than"
    )
    assert claim["message"].startswith("cannot be allocated: request gpu: 20 devices wanted")
    assert (pod["type"], pod["source"]["component"]) == ("Warning", "gpu.nvidia.com-controller")
    wait(lambda: replica.value("dra_driver_pending_pods", reason="too-few") == 1)
    wait(lambda: replica.value("dra_driver_pending_claims", reason="too-few") == 1)


def test_a_claim_made_from_a_template_says_what_its_pod_says(site: Site) -> None:
    site.replica()
    site.create(
        RESOURCE_CLAIM_TEMPLATES,
        {"metadata": {"name": "t", "namespace": "team"}, "spec": {"spec": spec(count=20)}},
    )
    site.pod("p", resourceClaimTemplateName="t")
    said = site.event("Pod", "p", contains="20 devices wanted")["message"].partition(": ")[2]
    (claim,) = wait(lambda: site.events(kind="ResourceClaim"))
    assert claim["message"] == f"cannot be allocated: {said}"


def test_a_template_that_is_missing_is_told_on_the_pod(site: Site) -> None:
    site.replica()
    site.pod("p", resourceClaimTemplateName="gone")
    message = site.event("Pod", "p")["message"]
    assert "there is no ResourceClaimTemplate team/gone" in message


def test_other_drivers_claims_are_none_of_our_business(site: Site) -> None:
    site.replica()
    other = {"selectors": [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]}
    site.create(DEVICE_CLASSES, {"metadata": {"name": "nic"}, "spec": other})
    site.waiting("foreign", deviceClassName="nic")
    site.waiting("many", count=20)
    site.event("Pod", "many")
    assert {one["involvedObject"]["name"] for one in site.events()} == {"many"}


def test_who_is_satisfied_is_not_spoken_of(site: Site) -> None:
    replica = site.replica()
    site.waiting("one")
    wait(lambda: site.client.get(PODS, "one", "team")["spec"].get("nodeName"))
    site.waiting("many", count=20)
    site.event("Pod", "many")
    assert {one["involvedObject"]["name"] for one in site.events()} == {"many"}
    wait(lambda: replica.value("dra_driver_pending_claims", reason="satisfiable") == 0)


def test_the_event_changes_when_devices_come_and_ends_when_they_suffice(site: Site) -> None:
    replica = site.replica()
    site.client.delete_collection(RESOURCE_SLICES)
    wait(lambda: not site.cluster.scheduler._slices.snapshot())  # else it may still give them away
    site.waiting("one")
    first = site.event("Pod", "one", contains="none of the nodes that are open to it has a device")
    (small,) = (one for one in nodes("l40s=1") if one["kind"] == "ResourceSlice")
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    for device in small["spec"]["devices"]:
        device["taints"] = [taint]
    created = site.create(RESOURCE_SLICES, small)
    second = site.event("Pod", "one", contains="kept out only by a taint")
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["count"] > first["count"]
    for device in created["spec"]["devices"]:
        device.pop("taints")
    site.client.replace(RESOURCE_SLICES, created)
    wait(lambda: site.client.get(PODS, "one", "team")["spec"].get("nodeName"))
    wait(lambda: replica.value("dra_driver_pending_pods", reason="tainted") == 0)
    count = site.event("Pod", "one")["count"]
    site.waiting("many", count=20)
    site.event("Pod", "many")
    assert site.event("Pod", "one")["count"] == count


def test_devices_that_go_while_it_is_worked_out_why_a_claim_waits_are_missing_in_the_event(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = site.replica()

    def late(*looked_at: Any) -> list[Subject]:
        """Who waits, after which the devices go that were looked at."""
        found, version = list(subjects(*looked_at)), replica.view.version(RESOURCE_SLICES)
        if found and replica.view.slices.snapshot():
            site.client.delete_collection(RESOURCE_SLICES)
            wait(lambda: replica.view.version(RESOURCE_SLICES) != version)
        return found

    monkeypatch.setattr(part, "subjects", late)
    site.claim("many", count=20)

    site.event("ResourceClaim", "many", contains="none of the nodes that are open to it has a device")


def test_when_the_leader_ends_the_other_one_goes_on(site: Site) -> None:
    leader = site.replica("a")
    wait(lambda: leader.value("dra_driver_leader") == 1)
    other = site.replica("b")
    site.waiting("first", count=20)
    before = site.event("Pod", "first")
    assert other.value("dra_driver_leader") == 0
    assert other.value("dra_driver_pending_pods", reason="too-few") is None
    leader.stop()
    site.waiting("second", count=20)
    site.event("Pod", "second")
    assert site.event("Pod", "first")["metadata"]["uid"] == before["metadata"]["uid"]
    assert site.client.get(LEASES, "controller", NAMESPACE)["spec"]["holderIdentity"].startswith("b_")


def test_when_the_leader_is_killed_the_other_one_goes_on_within_the_lease(site: Site) -> None:
    def holder() -> str:
        leases = site.client.list(LEASES, namespace=NAMESPACE)["items"]
        return str(leases[0]["spec"]["holderIdentity"]) if leases else ""

    leader = site.cluster.add_controller("a")
    wait(lambda: holder().startswith("a_"))
    site.cluster.add_controller("b")
    leader.stop(signal.SIGKILL)
    site.waiting("many", count=20)
    wait(lambda: holder().startswith("b_"))

    site.event("Pod", "many")


def test_a_server_that_was_away_is_followed_again(site: Site) -> None:
    site.replica()
    site.waiting("first", count=20)
    site.event("Pod", "first")
    faults = site.cluster.server.faults
    away = faults.drop(times=None)
    faults.break_watches()
    assert faults.taken.wait(90)
    faults.remove(away)
    site.waiting("second", count=19)
    site.event("Pod", "second")


def test_a_claim_that_holds_devices_for_nobody_is_told(site: Site) -> None:
    replica = site.replica()
    (slice_,) = site.client.list(RESOURCE_SLICES)["items"]
    pool, device = slice_["spec"]["pool"]["name"], slice_["spec"]["devices"][0]["name"]
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool, "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    claim = {"metadata": {"name": "held", "namespace": "team"}, "spec": spec(), "status": status}
    site.create(RESOURCE_CLAIMS, claim)
    message = site.event("ResourceClaim", "held", "ClaimNotReserved")["message"]
    assert message.startswith(f"holds device {device} and is reserved for no Pod")
    wait(lambda: replica.value("dra_driver_unreserved_claims") == 1)


def test_gpus_that_a_device_plugin_offers_too_are_told_on_the_node(site: Site) -> None:
    site.replica()
    (node,) = site.client.list(NODES)["items"]
    offered = {**node["status"].get("allocatable", {}), "nvidia.com/gpu": "1"}
    status = {**node["status"], "allocatable": offered, "capacity": offered}
    site.client.replace(NODES, {**node, "status": status}, subresource="status")
    message = site.event("Node", node["metadata"]["name"], "DriverConflict")["message"]
    assert message.startswith("a device plugin offers nvidia.com/gpu: 1 on this node")


def plugin_pod(site: Site, name: str, node: str, *, ready: bool) -> Object:
    body = {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": LABELS},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return site.create(PODS, body)


@pytest.mark.parametrize("taint", ["no", "yes"])
def test_a_pool_without_a_driver_is_told_and_tainted_only_on_demand(site: Site, taint: str) -> None:
    replica = site.replica("a", "--taint-pools-without-driver", taint)
    (node,) = (one["metadata"]["name"] for one in site.client.list(NODES)["items"])
    plugin_pod(site, "plugin-elsewhere", "n9", ready=True)
    sick = plugin_pod(site, "plugin", node, ready=False)
    message = site.event("Node", node, "DriverNotRunning")["message"]
    assert message.startswith(f"no node plugin is ready on node {node}, yet pool")
    wait(lambda: replica.value("dra_driver_pools_without_driver") == 1)
    rules = site.client.list(DEVICE_TAINT_RULES)["items"]
    if taint == "no":
        assert not rules
        assert '"kind":"DeviceTaintRule"' in message
        return
    (rule,) = rules
    assert rule["spec"]["taint"]["effect"] == "NoSchedule"
    assert rule["spec"]["deviceSelector"] == {"driver": "gpu.nvidia.com", "pool": f"{node}/gpu"}
    well = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    site.client.replace(PODS, {**sick, "status": well}, subresource="status")
    wait(lambda: not site.client.list(DEVICE_TAINT_RULES)["items"])


def test_where_no_plugin_runs_as_a_pod_nothing_is_said_of_drivers(site: Site) -> None:
    replica = site.replica()
    site.waiting("many", count=20)
    site.event("Pod", "many")
    wait(lambda: replica.value("dra_driver_pools_without_driver") == 0)
    assert not site.events("DriverNotRunning")


def test_the_process_ends_without_threads_left(site: Site) -> None:
    before = set(threading.enumerate())
    replica = site.replica()
    wait(lambda: replica.value("dra_driver_leader") == 1)
    replica.stop()
    ours = {"explain", "election", "record-events", "settle"}
    left = [thread.name for thread in set(threading.enumerate()) - before]
    assert not [name for name in left if name in ours or name.startswith("reflect-")]

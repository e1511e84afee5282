"""Pods on a node: started, refused, deleted, and found again."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.embedded.kubelet import Kubelet
from dra_driver.embedded.kubelet.manager import ClaimManager
from dra_driver.embedded.kubelet.pods import PodWorker
from dra_driver.embedded.kubelet.timing import Timing
from dra_driver.kube import resources
from dra_driver.kube.client import Client

QUICK = Timing(
    scan=0.02,
    registration_retry=0.02,
    registration_retry_cap=1.0,
    pod_retry=0.02,
    pod_retry_cap=0.1,
    reconcile=0.05,
)
NEVER = 3600.0
LONG = 90.0
DRIVER = "example.com"


def methods(plugin: Any) -> list[str]:
    return [call.method for call in plugin.calls]


def condition(pod: dict[str, Any], kind: str) -> str:
    (found,) = [c["status"] for c in pod["status"]["conditions"] if c["type"] == kind]
    return str(found)


@pytest.fixture
def started(cluster: Any) -> tuple[Kubelet, Any]:
    """A kubelet with its driver."""
    kubelet = cluster.kubelet()
    plugin = cluster.plugin()
    assert kubelet.wait_registered(DRIVER, LONG)
    return kubelet, plugin


def test_the_node_is_registered_ready_and_without_gpus(cluster: Any) -> None:
    cluster.kubelet()

    (node,) = cluster.wait(resources.NODES, lambda nodes: nodes)
    conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
    pressures = dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), "False")
    assert {**pressures, "Ready": "True"} == conditions
    assert {"cpu", "memory", "ephemeral-storage", "pods"} == set(node["status"]["allocatable"])


def test_a_node_that_exists_keeps_what_others_wrote(cluster: Any) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "labels": {"mine": "yes"}}}
    cluster.client.create(resources.NODES, body)

    cluster.kubelet()

    node = cluster.client.get(resources.NODES, "node-a")
    assert ("yes", "110") == (node["metadata"]["labels"]["mine"], node["status"]["capacity"]["pods"])


def test_a_pod_with_a_claim_runs_with_its_device(cluster: Any, started: tuple[Kubelet, Any]) -> None:
    kubelet, _ = started

    uid = cluster.run()
    pod = cluster.wait_phase("pod", "Running")

    view = kubelet.views()["default/pod"]["main"]
    assert ({"CLAIM": uid}, (f"example.com/claim={uid}-dev-0",)) == (view.env, view.cdi_ids)
    assert [("/dev/example", "c", 1, 3)] == [(n.path, n.type, n.major, n.minor) for n in view.device_nodes]
    (container,) = pod["status"]["containerStatuses"]
    assert (True, True, ["running"]) == (container["ready"], container["started"], list(container["state"]))
    assert ("True", "True", True) == (
        condition(pod, "Ready"),
        condition(pod, "Initialized"),
        bool(pod["status"]["podIP"]),
    )
    for reason, text in (("Created", "Container created"), ("Started", "Container started")):
        assert text == cluster.wait_event(reason)


def test_a_pod_without_claims_runs_and_pods_of_other_nodes_do_not(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    kubelet, plugin = started
    cluster.pod("elsewhere", None, nodeName="node-b")

    cluster.pod("plain", None, nodeName="node-a")
    cluster.wait_phase("plain", "Running")

    assert (["default/plain"], []) == (list(kubelet.views()), plugin.calls)


def test_the_schedulers_condition_stays_in_the_status(cluster: Any, started: tuple[Kubelet, Any]) -> None:
    cluster.run()

    assert "True" == condition(cluster.wait_phase("pod", "Running"), "PodScheduled")


def test_a_pod_whose_claim_fails_says_so_in_an_event_and_runs_once_it_can(cluster: Any) -> None:
    kubelet = cluster.kubelet()
    plugin = cluster.plugin(prepare=lambda refs: {refs[0].uid: {"error": "GPU 0 is busy"}})
    assert kubelet.wait_registered(DRIVER, LONG)

    cluster.run()
    text = cluster.wait_event("FailedPrepareDynamicResources", count=2)
    waiting = cluster.wait_pod("pod", lambda pod: pod["status"].get("containerStatuses"))
    plugin.prepare = None
    cluster.wait_phase("pod", "Running")

    assert (
        "Failed to prepare dynamic resources: prepare dynamic resources: "
        "NodePrepareResources failed for ResourceClaim pod-claim: GPU 0 is busy"
    ) == text
    assert "Pending" == waiting["status"]["phase"]
    assert {"waiting": {"reason": "ContainerCreating"}} == waiting["status"]["containerStatuses"][0]["state"]


def test_a_pod_whose_driver_comes_later_waits_for_it(cluster: Any) -> None:
    cluster.kubelet()

    cluster.run()
    text = cluster.wait_event("FailedPrepareDynamicResources")
    cluster.plugin()
    cluster.wait_phase("pod", "Running")

    prefix = "Failed to prepare dynamic resources: prepare dynamic resources: "
    assert f"{prefix}DRA driver {DRIVER} is not registered" == text


def test_a_claim_that_is_missing_is_named_in_the_api_servers_words(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    cluster.pod()
    cluster.bind()

    text = cluster.wait_event("FailedPrepareDynamicResources")

    prefix = "Failed to prepare dynamic resources: prepare dynamic resources: fetch ResourceClaim claim: "
    assert f'{prefix}resourceclaims.resource.k8s.io "claim" not found' == text


def test_a_device_without_a_spec_fails_the_container_but_not_for_ever(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    _, plugin = started
    pod = cluster.pod()
    uid = cluster.claim(pods=(pod,))
    cluster.bind()
    text = cluster.wait_event("Failed")
    state = cluster.wait_pod(
        "pod", lambda p: "CreateContainerError" in str(p["status"].get("containerStatuses"))
    )["status"]["containerStatuses"][0]["state"]

    cluster.spec(uid)
    cluster.wait_phase("pod", "Running")

    reason = f"CDI device injection failed: unresolvable CDI devices example.com/claim={uid}-dev-0"
    message = f"failed to create containerd container: {reason}"
    assert f"Error: {message}" == text
    assert {"waiting": {"reason": "CreateContainerError", "message": message}} == state
    assert ["Prepare"] == methods(plugin)  # the sandbox was there already


def test_a_process_that_cannot_start_waits_with_another_reason(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    pod = cluster.pod()
    uid = cluster.claim(pods=(pod,))
    cluster.spec(uid, mounts=[{"hostPath": "/no/such", "containerPath": "/x", "options": ["rbind"]}])

    cluster.bind()
    text = cluster.wait_event("Failed")
    cluster.wait_pod("pod", lambda p: "RunContainerError" in str(p["status"].get("containerStatuses")))

    assert text.endswith("failed to fulfil mount request: open /no/such: no such file or directory")
    assert "Container created" == cluster.wait_event("Created")


def test_a_deleted_pod_is_unprepared_before_it_goes(cluster: Any, started: tuple[Kubelet, Any]) -> None:
    kubelet, plugin = started
    cluster.run()
    cluster.wait_phase("pod", "Running")
    seen: list[Any] = []

    def look(refs: list[Any]) -> dict[str, Any]:
        pod = cluster.client.get(resources.PODS, "pod", "default")
        seen.append((pod["status"]["phase"], kubelet.views()))
        return {ref.uid: {} for ref in refs}

    plugin.unprepare = look
    cluster.client.delete(resources.PODS, "pod", namespace="default")
    cluster.wait_gone("pod")

    assert ([("Running", {})], ["Prepare", "Unprepare"]) == (seen, methods(plugin))
    assert "Stopping container main" == cluster.wait_event("Killing")


def test_a_pod_that_somebody_else_holds_is_let_go_of_once(cluster: Any, started: tuple[Kubelet, Any]) -> None:
    _, plugin = started
    cluster.run()
    cluster.wait_phase("pod", "Running")
    finalizers = {"metadata": {"finalizers": ["example.com/hold"]}}
    cluster.client.patch(resources.PODS, "pod", finalizers, namespace="default")
    cluster.client.delete(resources.PODS, "pod", namespace="default")
    cluster.wait_pod("pod", lambda pod: pod["metadata"].get("deletionGracePeriodSeconds") == 0)

    cluster.client.patch(resources.PODS, "pod", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    cluster.run("next")
    cluster.wait_phase("next", "Running")  # what changed before has been looked at

    held = cluster.client.get(resources.PODS, "pod", "default")
    assert ("Succeeded", ["Prepare", "Unprepare", "Prepare"]) == (held["status"]["phase"], methods(plugin))
    cluster.client.patch(resources.PODS, "pod", {"metadata": {"finalizers": None}}, namespace="default")
    cluster.wait_gone("pod")


def test_a_pod_that_cannot_be_unprepared_stays_terminating(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    _, plugin = started
    cluster.run()
    cluster.wait_phase("pod", "Running")
    plugin.unprepare = lambda refs: {refs[0].uid: {"error": "GPU is stuck"}}

    cluster.client.delete(resources.PODS, "pod", namespace="default")
    plugin.wait_for(lambda p: methods(p).count("Unprepare") >= 2)
    pod = cluster.wait_pod("pod", lambda p: "terminated" in str(p["status"]["containerStatuses"]))
    plugin.unprepare = None
    cluster.wait_gone("pod")

    assert ("Running", "False") == (pod["status"]["phase"], condition(pod, "Ready"))


def test_a_pod_that_the_kubelet_cannot_make_sense_of_can_be_deleted(cluster: Any) -> None:
    cluster.kubelet()
    cluster.pod("pod", None)
    odd: dict[str, Any] = {
        "status": {"extendedResourceClaimStatus": {"requestMappings": []}}
    }  # which names no claim
    cluster.client.patch(resources.PODS, "pod", odd, namespace="default", subresource="status")
    cluster.bind("pod")
    cluster.wait_pod("pod", lambda pod: pod["status"].get("startTime"))

    cluster.client.delete(resources.PODS, "pod", namespace="default")

    cluster.wait_gone("pod")


def test_a_pod_that_could_never_be_prepared_can_be_deleted(cluster: Any) -> None:
    cluster.kubelet()
    cluster.run()
    cluster.wait_event("FailedPrepareDynamicResources")

    cluster.client.delete(resources.PODS, "pod", namespace="default")

    cluster.wait_gone("pod")


def test_a_shared_claim_stays_prepared_until_the_last_pod_went(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    _, plugin = started
    pods = (cluster.pod("one"), cluster.pod("two"))
    cluster.spec(cluster.claim(pods=pods))
    cluster.bind("one")
    cluster.wait_phase("one", "Running")
    cluster.bind("two")
    cluster.wait_phase("two", "Running")

    cluster.client.delete(resources.PODS, "one", namespace="default")
    cluster.wait_gone("one")
    after_one = methods(plugin)
    cluster.client.delete(resources.PODS, "two", namespace="default")
    cluster.wait_gone("two")

    assert (["Prepare"], ["Prepare", "Unprepare"]) == (after_one, methods(plugin))


def test_a_shared_claim_that_is_being_unprepared_is_prepared_anew_for_the_next_pod(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    kubelet, plugin = started
    release = threading.Event()

    def slow(refs: list[Any]) -> dict[str, Any]:
        assert release.wait(LONG)
        return {ref.uid: {} for ref in refs}

    plugin.unprepare = slow
    uid = cluster.claim(pods=(cluster.pod("one"), cluster.pod("two")))
    cluster.spec(uid)
    cluster.bind("one")
    cluster.wait_phase("one", "Running")
    cluster.client.delete(resources.PODS, "one", namespace="default")
    plugin.wait_for(lambda p: "Unprepare" in methods(p))

    cluster.bind("two")
    text = cluster.wait_event("FailedPrepareDynamicResources")
    release.set()
    cluster.wait_gone("one")
    cluster.wait_phase("two", "Running")

    assert text.endswith(": ResourceClaim claim is being unprepared for another Pod")
    assert ["Prepare", "Unprepare", "Prepare"] == methods(plugin)
    assert {"CLAIM": uid} == kubelet.views()["default/two"]["main"].env


def test_a_shared_claim_that_may_have_been_unprepared_is_prepared_again_for_the_next_pod(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    _, plugin = started
    cluster.spec(cluster.claim(pods=(cluster.pod("one"), cluster.pod("two"))))
    cluster.bind("one")
    cluster.wait_phase("one", "Running")
    plugin.unprepare = lambda refs: {refs[0].uid: {"error": "GPU is stuck"}}
    cluster.client.delete(resources.PODS, "one", namespace="default")
    plugin.wait_for(lambda p: "Unprepare" in methods(p))

    cluster.bind("two")
    cluster.wait_phase("two", "Running")
    cluster.wait_gone("one")  # which is not the last any more

    assert (["Prepare", "Prepare"], "Prepare") == (
        [method for method in methods(plugin) if method == "Prepare"],
        methods(plugin)[-1],
    )


def test_a_pod_that_comes_while_the_kubelet_looks_for_those_that_went_stays_prepared(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, known = threading.Event(), threading.Event()
    pods = ClaimManager.pods

    def slowly(manager: ClaimManager) -> set[str]:
        """What is noted once the Pod has been, whatever else was looked at before."""
        looked.set()
        assert known.wait(LONG)
        return pods(manager)

    monkeypatch.setattr(ClaimManager, "pods", slowly)
    kubelet = cluster.kubelet()
    plugin = cluster.plugin()
    assert kubelet.wait_registered(DRIVER, LONG)
    assert looked.wait(LONG)
    cluster.run()
    cluster.wait_phase("pod", "Running")

    looked.clear()
    known.set()
    assert looked.wait(LONG)  # another round, so the one before is over

    assert ["Prepare"] == methods(plugin)


def test_a_kubelet_that_stops_while_it_looks_for_pods_that_went_leaves_the_others_prepared(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, emptied = threading.Event(), threading.Event()
    pods, stop = ClaimManager.pods, PodWorker.stop

    def slowly(manager: ClaimManager) -> set[str]:
        """What is noted, once the kubelet has let go of its Pods."""
        if found := pods(manager):
            looked.set()
            assert emptied.wait(LONG)
        return found

    def stop_late(worker: PodWorker) -> None:
        """After everything that the kubelet was about."""
        emptied.set()
        for thread in kubelet._threads:
            thread.join(LONG)
        stop(worker)

    monkeypatch.setattr(ClaimManager, "pods", slowly)
    monkeypatch.setattr(PodWorker, "stop", stop_late)
    kubelet = cluster.kubelet()
    plugin = cluster.plugin()
    assert kubelet.wait_registered(DRIVER, LONG)
    cluster.run()
    cluster.wait_phase("pod", "Running")
    assert looked.wait(LONG)

    kubelet.stop()

    assert ["Prepare"] == methods(plugin)


def test_a_pod_that_was_deleted_by_force_is_unprepared(cluster: Any, started: tuple[Kubelet, Any]) -> None:
    kubelet, plugin = started
    cluster.run()
    cluster.wait_phase("pod", "Running")

    cluster.client.delete(resources.PODS, "pod", namespace="default", grace_period_seconds=0)
    plugin.wait_for(lambda p: "Unprepare" in methods(p))

    assert {} == kubelet.views()


def test_our_own_status_does_not_cut_the_time_between_two_attempts_short(cluster: Any) -> None:
    kubelet = cluster.kubelet(timing=dataclasses.replace(QUICK, pod_retry=NEVER, pod_retry_cap=NEVER))
    plugin = cluster.plugin(prepare=lambda refs: {refs[0].uid: {"error": "no"}})
    assert kubelet.wait_registered(DRIVER, LONG)
    cluster.run()
    cluster.wait_event("FailedPrepareDynamicResources")

    patch = {"metadata": {"labels": {"news": "yes"}}}
    cluster.client.patch(resources.PODS, "pod", patch, namespace="default")
    cluster.client.delete(resources.PODS, "pod", namespace="default")
    cluster.wait_gone("pod")

    assert ["Prepare", "Unprepare"] == methods(plugin)


def test_a_slow_driver_holds_up_no_other_pod(cluster: Any) -> None:
    release = threading.Event()

    def slow(refs: list[Any]) -> dict[str, Any]:
        if refs[0].name == "slow-claim":
            release.wait(LONG)
        ids = [f"example.com/claim={refs[0].uid}-dev-0"]
        return {refs[0].uid: {"devices": [{"pool_name": "p", "device_name": "d", "cdi_device_ids": ids}]}}

    kubelet = cluster.kubelet()
    cluster.plugin(prepare=slow)
    assert kubelet.wait_registered(DRIVER, LONG)

    cluster.run("slow")
    cluster.run("quick")
    cluster.wait_phase("quick", "Running")
    before = list(kubelet.views())
    release.set()
    cluster.wait_phase("slow", "Running")

    assert ["default/quick"] == before


def test_a_kubelet_stops_though_a_driver_does_not_answer(cluster: Any) -> None:
    asked, release = threading.Event(), threading.Event()

    def stuck(_refs: list[Any]) -> dict[str, Any]:
        asked.set()
        release.wait(LONG)
        return {}

    kubelet = cluster.kubelet()
    cluster.plugin(prepare=stuck)
    assert kubelet.wait_registered(DRIVER, LONG)
    cluster.run()
    assert asked.wait(LONG)

    kubelet.stop()  # returns long before the deadline of the call
    was_released = release.is_set()
    release.set()

    events = cluster.client.list(resources.EVENTS)["items"]
    assert (False, []) == (was_released, events)


def test_init_containers_end_before_the_others_and_sidecars_run_on(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    kubelet, _ = started
    init = {"name": "init", "image": "image"}
    sidecar = {"name": "sidecar", "image": "image", "restartPolicy": "Always"}

    cluster.run(initContainers=[init, sidecar])
    pod = cluster.wait_phase("pod", "Running")

    states = [(c["name"], list(c["state"])) for c in pod["status"]["initContainerStatuses"]]
    assert [("init", ["terminated"]), ("sidecar", ["running"])] == states
    assert {"sidecar", "main"} == set(kubelet.views()["default/pod"])


def test_a_kubelet_that_was_restarted_prepares_running_pods_again_and_restarts_them(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    first, plugin = started
    cluster.run()
    cluster.wait_phase("pod", "Running")
    first.stop()

    second = cluster.kubelet()
    pod = cluster.wait_pod("pod", lambda p: p["status"]["containerStatuses"][0]["restartCount"] == 1)

    assert (["Prepare", "Prepare"], "Running") == (methods(plugin), pod["status"]["phase"])
    assert 1 == len(second.views()["default/pod"]["main"].cdi_ids)


def test_a_pod_that_went_while_the_kubelet_was_away_is_unprepared(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    first, plugin = started
    cluster.run()
    cluster.wait_phase("pod", "Running")
    first.stop()
    cluster.client.delete(resources.PODS, "pod", namespace="default", grace_period_seconds=0)

    cluster.kubelet()

    plugin.wait_for(lambda p: methods(p) == ["Prepare", "Unprepare"])


def test_a_new_pod_of_the_same_name_is_another_pod(cluster: Any, started: tuple[Kubelet, Any]) -> None:
    kubelet, plugin = started
    cluster.run()
    old = cluster.wait_phase("pod", "Running")["metadata"]["uid"]
    cluster.client.delete(resources.PODS, "pod", namespace="default", grace_period_seconds=0)
    cluster.client.delete(resources.RESOURCE_CLAIMS, "pod-claim", namespace="default")

    uid = cluster.run()
    cluster.wait_pod("pod", lambda p: p["metadata"]["uid"] != old and p["status"]["phase"] == "Running")

    assert {"CLAIM": uid} == kubelet.views()["default/pod"]["main"].env
    assert 2 == methods(plugin).count("Prepare")


def test_a_kubelet_starts_without_an_api_server_and_joins_when_it_comes(cluster: Any, root: Path) -> None:
    cluster.server.stop()
    port = int(cluster.server.url.rpartition(":")[2])
    cluster.kubelet()

    later = ApiServer(port=port).start()
    client = Client.connect(root / "kubeconfig")
    try:
        _until(lambda: client.list(resources.NODES)["items"])
    finally:
        client.close()
        later.stop()


def _until(holds: Callable[[], Any]) -> None:
    pause = threading.Event()
    for _ in range(1800):
        if holds():
            return
        pause.wait(0.05)
    raise AssertionError


def test_events_that_cannot_be_written_keep_no_pod_from_running(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    cluster.server.faults.refuse(500, "create", resources.EVENTS, times=None)

    cluster.run()

    cluster.wait_phase("pod", "Running")
    assert [] == cluster.client.list(resources.EVENTS)["items"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_writes_that_get_lost_are_made_again(cluster: Any, started: tuple[Kubelet, Any], done: bool) -> None:
    _, plugin = started
    cluster.server.faults.drop("patch", resources.PODS, times=2, done=done)
    cluster.run()
    cluster.wait_phase("pod", "Running")

    cluster.server.faults.drop("patch", resources.PODS, done=done)
    cluster.client.delete(resources.PODS, "pod", namespace="default")
    cluster.wait_gone("pod")

    assert ["Prepare", "Unprepare"] == methods(plugin)


def test_a_claim_that_cannot_be_fetched_now_is_fetched_later(
    cluster: Any, started: tuple[Kubelet, Any]
) -> None:
    cluster.server.faults.refuse(503, "get", resources.RESOURCE_CLAIMS)

    cluster.run()

    cluster.wait_phase("pod", "Running")
    assert "fetch ResourceClaim pod-claim: " in cluster.wait_event("FailedPrepareDynamicResources")


def test_events_of_a_pod_are_in_order_of_time_by_name(cluster: Any, started: tuple[Kubelet, Any]) -> None:
    cluster.run()
    cluster.wait_event("Started")

    events = sorted(cluster.client.list(resources.EVENTS)["items"], key=lambda e: e["metadata"]["name"])

    assert ["Pulled", "Created", "Started"] == [event["reason"] for event in events]
    assert {"spec.containers{main}"} == {event["involvedObject"]["fieldPath"] for event in events}

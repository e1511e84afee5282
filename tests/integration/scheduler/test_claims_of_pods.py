"""Pods get their claims allocated, reserved, and a node."""

from typing import Any

from dra_driver.kube.resources import PODS, RESOURCE_CLAIMS

CLIQUE = "device.attributes['gpu.nvidia.com'].productName == 'H100'"


def test_a_pod_without_claims_is_just_bound(cluster: Any) -> None:
    cluster.node("n1")
    cluster.pod("p")

    assert cluster.bound("p") == "n1"
    assert cluster.event("p", "Scheduled")["message"] == "Successfully assigned team/p to n1"


def test_pods_go_to_the_node_with_the_fewest(cluster: Any) -> None:
    cluster.node("n1")
    cluster.node("n2")
    for name in ("p1", "p2"):
        cluster.pod(name)
        cluster.bound(name)

    assert [cluster.bound(name) for name in ("p1", "p2")] == ["n1", "n2"]


def test_a_claim_is_allocated_reserved_and_protected_before_its_pod_is_bound(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "L4")
    cluster.node("n2", "H100")
    cluster.claim("c", CLIQUE)
    pod = cluster.pod("p", claim="c")

    assert cluster.bound("p") == "n2"
    claim = cluster.until(RESOURCE_CLAIMS, "c", lambda claim: claim["status"].get("reservedFor"))
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["status"]["reservedFor"] == [
        {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    ]
    allocation = claim["status"]["allocation"]
    assert allocation["devices"]["results"] == [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n2/gpu", "device": "gpu-0"}
    ]
    assert "allocationTimestamp" in allocation


def test_a_claim_from_a_template_is_waited_for(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "H100")
    cluster.template("t", CLIQUE)
    cluster.pod("p", template="t")

    assert cluster.bound("p") == "n1"
    assert cluster.made_claim("p")["status"]["reservedFor"][0]["name"] == "p"


def test_each_pod_of_a_template_gets_devices_of_its_own(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "H100", "H100")
    cluster.template("t")
    for name in ("p1", "p2"):
        cluster.pod(name, template="t")
        cluster.bound(name)

    claims = [cluster.made_claim(name) for name in ("p1", "p2")]
    assert sorted(claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in claims) == [
        "gpu-0",
        "gpu-1",
    ]


def test_a_shared_claim_takes_its_second_pod_to_the_same_node(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "H100")
    cluster.node("n2")
    cluster.claim("c")
    for name in ("p1", "p2"):
        cluster.pod(name, claim="c")

    assert [cluster.bound(name) for name in ("p1", "p2")] == ["n1", "n1"]
    claim = cluster.until(
        RESOURCE_CLAIMS, "c", lambda claim: len(claim["status"].get("reservedFor", ())) == 2
    )
    assert {consumer["name"] for consumer in claim["status"]["reservedFor"]} == {"p1", "p2"}


def test_a_claim_that_nobody_uses_moves_with_its_pod(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "H100")
    cluster.claim("c")
    cluster.pod("p1", claim="c")
    cluster.bound("p1")
    cluster.client.delete(PODS, "p1", namespace="team", grace_period_seconds=0)
    cluster.until(RESOURCE_CLAIMS, "c", lambda claim: not (claim.get("status") or {}).get("reservedFor"))
    cluster.node("n2", "H100")
    cluster.pod("p2", claim="c", nodeSelector={"zone": "n2"})

    assert cluster.bound("p2") == "n2"
    assert cluster.devices("c") == ["gpu-0"]


def test_a_pod_of_another_scheduler_or_with_gates_is_left_alone(cluster: Any) -> None:
    cluster.node("n1")
    cluster.pod("foreign", schedulerName="other")
    cluster.pod("gated", schedulingGates=[{"name": "wait"}])
    cluster.pod("p")

    cluster.bound("p")
    pods = [cluster.client.get(PODS, name, "team") for name in ("foreign", "gated")]
    assert ["nodeName" in pod["spec"] for pod in pods] == [False, False]

"""A Pod that cannot be placed says why in kube-scheduler's words, and is tried again when something changes."""

from typing import Any

import pytest

from dra_driver.kube.resources import PODS, RESOURCE_CLAIMS

NO_VICTIMS = "No preemption victims found for incoming pod."
NOT_HELPFUL = "Preemption is not helpful for scheduling."


def test_claims_that_fit_on_no_node(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "L4")
    cluster.node("n2")
    cluster.claim("c", count=2)
    cluster.pod("p", claim="c")

    expected = (
        "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable,"
        f" preemption: 0/2 nodes are available: 2 {NO_VICTIMS}"
    )
    assert cluster.refusal("p") == expected
    event = cluster.event("p", "FailedScheduling")
    assert (event["type"], event["message"]) == ("Warning", expected)


def test_nodes_are_counted_by_reason(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "L4", unschedulable=True)
    cluster.node("n2", "L4", taints=[{"key": "maintenance", "effect": "NoSchedule"}])
    cluster.node("n3")
    cluster.claim("c")
    cluster.pod("p", claim="c")

    assert cluster.refusal("p") == (
        "0/3 nodes are available: 1 cannot allocate all claims, 1 node(s) had untolerated taint {maintenance: },"
        " 1 node(s) were unschedulable. still not schedulable,"
        f" preemption: 0/3 nodes are available: 1 {NO_VICTIMS}, 2 {NOT_HELPFUL}"
    )


def test_a_class_that_does_not_exist(cluster: Any) -> None:
    cluster.node("n1", "L4")
    cluster.claim("c", deviceClassName="missing")
    cluster.pod("p", claim="c")

    assert cluster.refusal("p") == (
        "0/1 nodes are available: request gpu: device class missing does not exist. still not schedulable,"
        f" preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}"
    )


def test_a_claim_that_does_not_exist(cluster: Any) -> None:
    cluster.node("n1")
    cluster.pod("p", claim="c")

    assert 'resourceclaim "c" not found' in cluster.refusal("p")


def test_a_selector_that_fails_is_an_error(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "L4")
    cluster.claim("c", "device.attributes['gpu.nvidia.com'].model == 'L4'")
    cluster.pod("p", claim="c")

    assert cluster.refusal("p", "SchedulerError") == (
        'running "DynamicResources" filter plugin: claim team/c: selector #0: CEL runtime error:'
        " no such key: model"
    )


def test_a_pool_that_is_invalid_is_no_error_on_other_nodes(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1")
    cluster.node("n2")
    for part in (0, 1):
        cluster.slice("n1", "L4", part=part, parts=2)  # the same device twice
    cluster.claim("c")
    cluster.pod("p", claim="c")

    assert cluster.refusal("p") == (
        "0/2 nodes are available: 1 cannot allocate all claims, 1 invalid resource pools were encountered."
        f" still not schedulable, preemption: 0/2 nodes are available: 2 {NO_VICTIMS}"
    )


def test_a_claim_in_use_elsewhere_is_not_available(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "L4")
    cluster.node("n2", "L4")
    cluster.claim("c")
    cluster.pod("p1", claim="c")
    other = {"n1": "n2", "n2": "n1"}[cluster.bound("p1")]
    cluster.pod("p2", claim="c", nodeSelector={"zone": other})

    assert "1 resourceclaim not available on the node" in cluster.refusal("p2")


def test_without_nodes_there_is_nothing_to_count(cluster: Any) -> None:
    cluster.pod("p")

    assert cluster.refusal("p") == "no nodes available to schedule pods"


def add_slice(cluster: Any) -> None:
    cluster.slice("n1", "L4", "L4")


def add_class(cluster: Any) -> None:
    cluster.device_class("late")


def add_claim(cluster: Any) -> None:
    cluster.claim("late")


def add_node(cluster: Any) -> None:
    cluster.node("n9", "L4", "L4")


@pytest.mark.parametrize(
    ("claim", "class_name", "change"),
    [
        ("c", "gpu.nvidia.com", add_slice),
        ("c", "late", add_class),
        ("late", "gpu.nvidia.com", add_claim),
        ("c", "gpu.nvidia.com", add_node),
    ],
    ids=["slice", "class", "claim", "node"],
)
def test_a_change_gets_the_pod_tried_again(cluster: Any, claim: str, class_name: str, change: Any) -> None:
    cluster.device_class()
    cluster.node("n1", *(["L4", "L4"] if change in {add_class, add_claim} else []))
    cluster.claim("c", deviceClassName=class_name)
    cluster.pod("p", claim=claim)
    cluster.refusal("p")

    change(cluster)

    assert cluster.bound("p")


def test_a_device_that_is_given_back_goes_to_the_pod_that_waits(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "L4")
    for name in ("p1", "p2"):
        cluster.claim(f"c-{name}")
        cluster.pod(name, claim=f"c-{name}")
        cluster.bound(name) if name == "p1" else cluster.refusal(name)

    cluster.client.delete(PODS, "p1", namespace="team", grace_period_seconds=0)

    assert cluster.bound("p2") == "n1"


def test_a_pod_that_waits_is_not_written_again(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1")
    cluster.claim("c")
    cluster.pod("p", claim="c")
    cluster.refusal("p")
    version = cluster.client.get(PODS, "p", "team")["metadata"]["resourceVersion"]

    cluster.pod("q")  # a change, after which every waiting Pod is looked at
    cluster.bound("q")

    assert cluster.client.get(PODS, "p", "team")["metadata"]["resourceVersion"] == version


def test_a_claim_written_by_somebody_else_meanwhile_is_tried_again(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1")
    cluster.claim("c")
    cluster.pod("p", claim="c")
    cluster.refusal("p")

    cluster.client.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"x": "y"}}}, namespace="team")
    cluster.slice("n1", "L4")

    assert cluster.bound("p") == "n1"

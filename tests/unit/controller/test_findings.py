"""What is held by nobody, offered by nobody, or offered twice."""

from typing import Any

import pytest

from dra_driver.controller.explainer import findings
from dra_driver.controller.explainer.findings import Lasting
from dra_driver.kube.events import Reference

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"


def claim(name: str = "c", driver: str = DRIVER, **status: Any) -> Object:
    results = [{"request": "gpu", "driver": driver, "pool": "n1/gpu", "device": "gpu-0"}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": results}}, **status},
    }


def slice_(node: str = "n1", driver: str = DRIVER) -> Object:
    return {"spec": {"driver": driver, "nodeName": node, "pool": {"name": f"{node}/gpu"}, "devices": [{}]}}


def node(name: str = "n1", **allocatable: str) -> Object:
    offered = {key.replace("_", "/"): value for key, value in allocatable.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "status": {"allocatable": offered},
    }


def plugin(name: str, ready: str = "True") -> Object:
    return {"spec": {"nodeName": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def test_a_claim_that_nobody_uses_is_found_with_what_it_holds() -> None:
    ((about, text),) = findings.unreserved([claim()], DRIVER).items()
    assert about == Reference("resource.k8s.io/v1", "ResourceClaim", "c", "team", "uid-c")
    assert text == (
        "holds device gpu-0 and is reserved for no Pod; delete it if nobody needs it (kubectl delete resourceclaim"
        " -n team c)"
    )


@pytest.mark.parametrize(
    "fine",
    [
        claim(reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}]),
        claim(driver="nic.example.com"),
        claim(allocation=None),
        {**claim(), "metadata": {**claim()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
    ids=["used", "another driver's", "pending", "going"],
)
def test_other_claims_are_fine(fine: Object) -> None:
    assert findings.unreserved([fine], DRIVER) == {}


def test_a_pool_whose_plugin_is_not_ready_or_not_there_has_no_driver() -> None:
    slices = [slice_("n1"), slice_("n2"), slice_("n3"), slice_("n2", "nic.example.com")]
    nodes = {"n1": node("n1"), "n2": node("n2")}
    plugins = [plugin("n1"), plugin("n2", "False")]
    assert findings.pools_without_driver(slices, nodes, plugins, DRIVER) == {
        ("n2", "n2/gpu"): "no node plugin is ready on node n2",
        ("n3", "n3/gpu"): "no node plugin is ready on node n3, and the node is gone",
    }


def test_nothing_is_said_of_drivers_where_no_plugin_is_known() -> None:
    assert findings.pools_without_driver([slice_()], {"n1": node()}, [], DRIVER) == {}


def test_a_rule_taints_one_pool_and_is_known_again() -> None:
    rule = findings.taint_rule(DRIVER, "n1/gpu")
    assert rule["spec"] == {
        "deviceSelector": {"driver": DRIVER, "pool": "n1/gpu"},
        "taint": {"key": "gpu.nvidia.com/driver-not-running", "effect": "NoSchedule"},
    }
    assert rule["metadata"]["name"] != findings.taint_rule(DRIVER, "n2/gpu")["metadata"]["name"]
    assert findings.is_ours(rule, DRIVER)
    assert not findings.is_ours(rule, "other.example.com")
    assert not findings.is_ours({**rule, "metadata": {"name": "by-hand"}}, DRIVER)


def test_gpus_of_a_device_plugin_beside_ours_are_found() -> None:
    nodes = [node("n1", **{"nvidia.com_gpu": "8"}), node("n2", **{"nvidia.com_gpu": "0"}), node("n3")]
    ((about, text),) = findings.published_twice(
        [slice_("n1"), slice_("n2"), slice_("n3")], nodes, DRIVER
    ).items()
    assert about.name == "n1"
    assert text.startswith(
        "a device plugin offers nvidia.com/gpu: 8 on this node, and gpu.nvidia.com publishes"
    )


def test_a_device_plugin_alone_on_its_node_is_fine() -> None:
    assert findings.published_twice([slice_("n2")], [node("n1", **{"nvidia.com_gpu": "8"})], DRIVER) == {}


def test_what_lasts_is_told_and_what_comes_back_begins_anew() -> None:
    lasting: Lasting[str] = Lasting(60.0)
    assert lasting.of(["a"], 0.0) == set()
    assert lasting.of(["a", "b"], 60.0) == {"a"}
    assert lasting.of(["b"], 100.0) == set()
    assert lasting.of(["a", "b"], 121.0) == {"b"}

"""What is kept of objects: all that is read, and equal values once."""

import copy
from typing import Any

from dra_driver.allocation import Snapshot
from dra_driver.cli.simulated_nodes import nodes
from dra_driver.cli.worlds import packaged_classes
from dra_driver.controller import compact

Object = dict[str, Any]


def objects() -> tuple[list[Object], list[Object]]:
    """Slices and nodes of two machines."""
    found = list(nodes("dgx-h100=2"))
    return [o for o in found if o["kind"] == "ResourceSlice"], [o for o in found if o["kind"] == "Node"]


def claim(**status: Any) -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "c",
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "7",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu", "other": "x"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu", "controller": True}
            ],
        },
        "spec": {"devices": {"requests": [request]}},
        "status": status,
    }


def test_a_slice_keeps_all_that_it_says() -> None:
    for slice_ in objects()[0]:
        before = copy.deepcopy(slice_)
        assert compact.slice_(slice_)["spec"] == before["spec"]
        assert slice_ == before


def test_what_is_equal_in_two_slices_is_one_object() -> None:
    first, second = (compact.slice_(one)["spec"]["devices"][0] for one in objects()[0])
    assert first["capacity"] is second["capacity"]
    assert first["attributes"]["productName"] is second["attributes"]["productName"]
    assert first["attributes"]["uuid"] != second["attributes"]["uuid"]


def test_attributes_that_look_alike_keep_their_types() -> None:
    (slice_, _), _ = objects()
    attributes = {"a": {"bool": True}, "b": {"int": 1}, "c": {"string": "1"}, "d": {"version": "1.0.0"}}
    slice_["spec"]["devices"][0]["attributes"] = attributes
    kept = compact.slice_(slice_)["spec"]["devices"][0]["attributes"]
    assert kept == attributes
    assert [type(next(iter(value.values()))) for value in kept.values()] == [bool, int, str, str]


def test_the_allocator_does_not_notice() -> None:
    slices, machines = objects()
    snapshots = [
        Snapshot(some, classes, ())
        for some, classes in (
            (slices, packaged_classes()),
            (map(compact.slice_, slices), map(compact.device_class, packaged_classes())),
        )
    ]
    whole, small = (snapshot.allocate([claim()], node=machines[0]) for snapshot in snapshots)
    assert whole == small
    assert whole is not None


def test_a_claim_keeps_who_has_made_it_and_what_it_holds() -> None:
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": "g"}
    allocation = {
        "devices": {"results": [result], "config": [{"source": "FromClaim"}]},
        "nodeSelector": {"x": []},
    }
    reserved = [{"resource": "pods", "name": "p", "uid": "pu"}]
    kept = compact.claim(claim(allocation=allocation, reservedFor=reserved, devices=[{"data": "x" * 1000}]))
    assert kept["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert kept["metadata"]["ownerReferences"] == [{"kind": "Pod", "name": "p", "uid": "pu"}]
    assert kept["status"] == {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"x": []}},
        "reservedFor": reserved,
    }
    assert "managedFields" not in kept["metadata"]


def test_a_pod_keeps_what_it_asks_for_and_where_it_may_run() -> None:
    spec = {
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"x": 1}, "podAffinity": {"y": 1}},
        "tolerations": [{"operator": "Exists"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "A"}], "resources": {"limits": {"x": "1"}}}
        ],
        "volumes": [{"name": "v"}],
    }
    metadata = {"name": "p", "namespace": "team", "uid": "u", "labels": {"app": "x"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"},
    }
    kept = compact.pod(pod)
    assert kept["spec"] == {
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"x": 1}},
        "tolerations": [{"operator": "Exists"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        "containers": [{"name": "c", "resources": {"limits": {"x": "1"}}}],
    }
    assert kept["metadata"] == {"name": "p", "namespace": "team", "uid": "u"}


def test_a_node_keeps_labels_taints_and_what_plugins_offer() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "uid": "u", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": {"cpu": "8", "nvidia.com/gpu": "0"},
            "capacity": {"cpu": "8", "nvidia.com/gpu": "8"},
            "images": [{"names": ["x"]}],
        },
    }
    kept = compact.node(node)
    assert kept["metadata"] == {"name": "n", "uid": "u", "labels": {"zone": "a"}}
    assert kept["spec"] == {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    assert kept["status"] == {
        "allocatable": {"nvidia.com/gpu": "0"},
        "capacity": {"nvidia.com/gpu": "8"},
    }

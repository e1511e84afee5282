"""nvidia.com/gpu: 1, answered by a DeviceClass through a claim of the scheduler's own."""

from typing import Any

from dra_driver.kube.resources import PODS, RESOURCE_CLAIMS


def container(name: str, resource: str, amount: str) -> dict[str, Any]:
    return {"name": name, "image": "app:1", "resources": {"limits": {resource: amount}}}


def special_claim(cluster: Any, pod: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = cluster.until(PODS, pod, lambda pod: (pod.get("status") or {}).get("extendedResourceClaimStatus"))
    status = found["status"]["extendedResourceClaimStatus"]
    return status, cluster.until(RESOURCE_CLAIMS, status["resourceClaimName"], lambda claim: claim["status"])


def test_a_class_answers_for_its_extended_resource(cluster: Any) -> None:
    cluster.device_class(extendedResourceName="nvidia.com/gpu")
    cluster.node("n1", "H100", "H100")
    pod = cluster.pod("p", containers=[container("a", "nvidia.com/gpu", "2"), container("b", "cpu", "1")])

    assert cluster.bound("p") == "n1"
    status, claim = special_claim(cluster, "p")
    assert status["requestMappings"] == [
        {"containerName": "a", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
    ]
    assert claim["metadata"]["generateName"] == "p-extended-resources-"
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", pod["metadata"]["uid"], True)
    assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]
    results = claim["status"]["allocation"]["devices"]["results"]
    assert [result["device"] for result in results] == ["gpu-0", "gpu-1"]


def test_every_class_has_an_implicit_resource(cluster: Any) -> None:
    cluster.device_class()
    cluster.node("n1", "H100")
    name = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
    cluster.pod("p", containers=[container("a", name, "1")])

    assert cluster.bound("p") == "n1"
    status, _ = special_claim(cluster, "p")
    assert status["requestMappings"][0]["resourceName"] == name


def test_no_claim_is_made_where_the_devices_do_not_suffice(cluster: Any) -> None:
    cluster.device_class(extendedResourceName="nvidia.com/gpu")
    cluster.node("n1", "H100")
    cluster.pod("p", containers=[container("a", "nvidia.com/gpu", "2")])

    assert cluster.refusal("p").startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    assert cluster.client.list(RESOURCE_CLAIMS)["items"] == []


def test_a_resource_that_nobody_offers_is_insufficient(cluster: Any) -> None:
    cluster.node("n1")
    cluster.pod("p", containers=[container("a", "nvidia.com/gpu", "1")])

    assert cluster.refusal("p") == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption:"
        " 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )

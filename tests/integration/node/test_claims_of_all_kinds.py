"""Every way to ask for GPUs, from the Pod to the container's devices."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dra_driver.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_driver.kubelet.registration import V1BETA1
from tests.unit.embedded.kubelet.scripted_plugin import ScriptedPlugin

OTHER = "nic.example.com"


def devices(view: Any) -> list[str]:
    """The names of the devices in a container's CDI ids, which are `<kind>=<claim uid>-<device>`."""
    return [cdi_id.partition("=")[2][37:] for cdi_id in view.cdi_ids]


FREED = {"status": {"allocation": None, "reservedFor": None}}


def allocated(node: Any, claim: str, request: str | None = None) -> list[str]:
    return [result["device"] for result in node.results(claim) if request in {None, result["request"]}]


def container(name: str, **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "app", "resources": resources}


def test_each_container_gets_the_request_that_it_names(node: Any) -> None:
    node.create_claim("a", node.request("one", 2), node.request("two", 1))
    containers = [
        container("app", claims=[{"name": "gpu", "request": "one"}]),
        container("side", claims=[{"name": "gpu", "request": "two"}]),
    ]

    node.create_pod("a", containers=containers)

    view = node.running("a")
    assert allocated(node, "a", "one") == devices(view)
    side = node.node.kubelet.views()["default/a"]["side"]
    assert allocated(node, "a", "two") == devices(side)
    assert 3 == len(set(allocated(node, "a")))


def test_a_container_has_the_nodes_of_its_gpus_alone(node: Any) -> None:
    node.run_pod("a", count=2)

    view = node.running("a")

    gpus = [n.path for n in view.device_nodes if n.path.removeprefix("/dev/nvidia").isdigit()]
    assert (2, "void") == (len(gpus), view.env["NVIDIA_VISIBLE_DEVICES"])


def test_the_first_alternative_that_is_there_answers_under_the_name_of_its_request(node: Any) -> None:
    many = {"name": "many", "deviceClassName": "gpu.nvidia.com", "count": 5}
    few = {"name": "few", "deviceClassName": "gpu.nvidia.com", "count": 2}
    node.create_claim("a", {"name": "gpu", "firstAvailable": [many, few]})

    node.create_pod("a", containers=[container("app", claims=[{"name": "gpu", "request": "gpu"}])])

    view = node.running("a")
    assert allocated(node, "a", "gpu/few") == devices(view)
    assert [["gpu"], ["gpu"]] == [list(device.request_names) for device in node.prepare("a").devices]


def test_admin_access_sees_what_others_hold_and_takes_nothing(node: Any) -> None:
    node.run_pod("a", count=4)
    node.running("a")

    node.run_pod("admin", count=4, admin=True)

    assert allocated(node, "a") == devices(node.running("admin"))
    node.delete_pod("admin")
    assert 4 == len(node.devices())
    assert "" == node.prepare("a").error


@pytest.fixture
def other_driver(node: Any) -> Iterator[ScriptedPlugin]:
    """A second driver on the node, with a device and a class."""
    client = node.cluster.client
    metadata = {"name": "nic"}
    pool = {"name": "nics", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "nic-0"}]
    spec = {"driver": OTHER, "nodeName": node.node.name, "pool": pool, "devices": devices}
    selector = {"cel": {"expression": f"device.driver == '{OTHER}'"}}
    client.create(
        RESOURCE_SLICES,
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec},
    )
    client.create(
        DEVICE_CLASSES,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": OTHER},
            "spec": {"selectors": [selector]},
        },
    )
    answer = [{"pool_name": "nics", "device_name": "nic-0", "request_names": ["nic"]}]
    with ScriptedPlugin(
        OTHER,
        node.registry_dir,
        node.node.kubelet.plugins_dir / OTHER,
        prepare=lambda refs: {ref.uid: {"devices": answer} for ref in refs},
    ) as plugin:
        node.registered(OTHER)
        yield plugin
        for name in node.cluster.client.list(PODS, namespace="default")["items"]:
            node.delete_pod(name["metadata"]["name"])
    client.delete(DEVICE_CLASSES, OTHER)
    client.delete(RESOURCE_SLICES, "nic")


def test_of_a_claim_for_two_drivers_each_prepares_its_own_part(
    node: Any, other_driver: ScriptedPlugin
) -> None:
    nic = {"name": "nic", "exactly": {"deviceClassName": OTHER, "count": 1}}
    node.create_claim("a", nic, node.request())

    node.create_pod("a")

    view = node.running("a")
    assert allocated(node, "a", "gpu") == devices(view)
    uid = node.claim("a")["metadata"]["uid"]
    assert [[uid]] == [[ref.uid for ref in call.claims] for call in other_driver.calls]
    assert ["gpu"] == [request for device in node.prepare("a").devices for request in device.request_names]


def test_a_shared_claim_is_kept_until_its_last_pod_has_ended(node: Any) -> None:
    node.create_claim("shared")
    for name in ("a", "b"):
        node.create_pod(name, "shared")
    assert devices(node.running("a")) == devices(node.running("b"))
    before = node.state()

    node.cluster.client.delete(PODS, "a", namespace="default")

    node.gone(PODS, "a")
    assert before == node.state()
    assert node.running("b").cdi_ids
    node.cluster.client.delete(PODS, "b", namespace="default")
    node.empty()


def test_a_new_claim_of_the_same_name_is_another_claim(node: Any) -> None:
    node.run_pod("a", count=4)
    node.running("a")
    old = node.claim("a")["metadata"]["uid"]
    node.delete_pod("a")

    node.run_pod("a", count=4)

    new = node.claim("a")["metadata"]["uid"]
    assert all(cdi_id.partition("=")[2].startswith(new) for cdi_id in node.running("a").cdi_ids)
    assert "claim default/a was replaced by a new claim of the same name" in node.prepare("a", old).error
    assert "" == node.unprepare("a", old).error
    assert node.state_of("a") == node.state()


def test_a_plain_pod_of_old_gets_its_gpus_by_the_extended_resource(node: Any) -> None:
    limits = {"nvidia.com/gpu": "2"}

    node.create_pod("a", containers=[container("app", limits=limits)], resourceClaims=None)

    assert 2 == len(set(devices(node.running("a"))))
    node.cluster.client.delete(PODS, "a", namespace="default")
    node.empty()


def test_a_pod_deleted_by_force_gives_its_gpus_to_the_next(node: Any) -> None:
    node.run_pod("a", count=4)
    node.running("a")
    client = node.cluster.client
    client.delete(PODS, "a", namespace="default", grace_period_seconds=0)
    client.delete(RESOURCE_CLAIMS, "a", namespace="default")

    node.run_pod("b", count=4)

    assert 4 == len(node.running("b").cdi_ids)
    assert node.state_of("b") == node.state()


def test_gpus_of_a_claim_that_is_gone_wait_for_its_pod(node: Any) -> None:
    """What force-deletion can lead to: the API server has freed the GPUs, and a container still has them."""
    node.run_pod("a", count=4)
    node.running("a")
    a = node.claim("a")["metadata"]["uid"]
    node.cluster.client.patch(RESOURCE_CLAIMS, "a", FREED, namespace="default", subresource="status")
    node.create_claim("b", node.request(count=4))

    node.create_pod("b")

    text = "is held by claim default/a, whose Pods have to be gone from the node before claim default/b can have it"
    node.failed("b", text)
    node.unprepare("a", a)
    assert 4 == len(node.running("b").cdi_ids)


def test_a_kubelet_that_knows_v1beta1_alone_is_served(new_node: Callable[..., Any]) -> None:
    node = new_node(supported_versions=(V1BETA1,))
    node.run_pod("a", count=2)

    view = node.running("a")

    (plugin,) = node.node.kubelet.registered()["gpu.nvidia.com"]
    assert V1BETA1 == plugin.service
    assert allocated(node, "a") == devices(view)
    node.delete_pod("a")
    node.empty()

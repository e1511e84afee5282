"""Others on the same node: a second instance, a driver of another name, a device plugin."""

import sys
from pathlib import Path
from typing import Any

from dra_driver.kube.resources import NODES, RESOURCE_SLICES

_HURRIED = Path(__file__).parent / "hurried_plugin.py"


def advertise(node: Any, gpus: str | None) -> None:
    """Have the Node's status say that a device plugin offers so many GPUs; None: there is no device plugin."""
    status = {"status": {"capacity": {"nvidia.com/gpu": gpus}, "allocatable": {"nvidia.com/gpu": gpus}}}
    node.cluster.client.patch(NODES, node.node.name, status, subresource="status")


def test_a_second_instance_ends_and_names_the_first(node: Any) -> None:
    second = node.spawn(*node.plugin.command)

    assert 2 == second.wait(node.seconds)

    holder = (
        f"runs already: process {node.plugin.pid} holds {node.plugin_dir}/plugin.lock; stop that one first"
    )
    assert f"the kubelet plugin of gpu.nvidia.com {holder}" in node.log()
    node.ready()
    node.run_pod("a")
    node.running("a")


def test_two_driver_names_live_on_one_node(node: Any) -> None:
    name = "other.example.com"
    other = node.spawn(*node.plugin.command, f"--driver-name={name}", "--metrics-address=")
    node.registered(name)
    listed = f"spec.driver={name}"
    (published,) = node.until(
        lambda: node.cluster.client.list(RESOURCE_SLICES, field_selector=listed)["items"], "its slice"
    )

    node.run_pod("a")

    assert 4 == len(published["spec"]["devices"])
    (cdi_id,) = node.running("a").cdi_ids
    assert cdi_id.startswith("k8s.gpu.nvidia.com/claim=")
    assert [0, True] == [other.stop(), node.plugin.running()]
    node.cluster.client.delete_collection(RESOURCE_SLICES, field_selector=listed)


def test_nothing_is_published_while_a_device_plugin_hands_out_the_gpus(node: Any) -> None:
    node.run_pod("a")
    node.running("a")
    ((held, *_),) = [[result["device"] for result in node.results("a")]]
    node.plugin.stop()
    advertise(node, "8")

    node.spawn(sys.executable, str(_HURRIED), *node.plugin.command[4:])

    node.until(lambda: [held] == node.device_names(), "only the device that is held")
    answer = 503, "a device plugin hands out the GPUs of this node, so none is published"
    node.until(lambda: answer == node.get("/readyz"), "a plugin that says why it is not ready")
    node.logged("a device plugin hands out the GPUs of this node")
    node.delete_pod("a")
    node.published(0)
    advertise(node, None)
    node.published(4)
    node.ready()


def test_a_device_plugin_that_comes_later_ends_the_publishing(node: Any) -> None:
    node.plugin.stop()
    node.spawn(sys.executable, str(_HURRIED), *node.plugin.command[4:])
    node.ready()

    advertise(node, "4")

    node.published(0)
    advertise(node, "0")  # as the kubelet says once that plugin is gone
    node.published(4)

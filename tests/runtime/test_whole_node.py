"""From a Pod's claim to a real container: the plugin's process, registered with a kubelet, writes what containerd reads."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from dra_driver.embedded.cluster import Cluster
from dra_driver.kube.resources import DEVICE_CLASSES
from tests.integration.node.conftest import Node
from tests.runtime.containerd import Containerd
from tests.runtime.cri import Pod
from tests.runtime.test_containers import nvidia_nodes
from tests.runtime.test_hooks import HookProgram

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_HOOK = "/simulated/nvidia-cdi-hook"  # below the driver root, in the directory that is the user's
_FLAGS = ("--rescan-seconds=0.2", f"--nvidia-cdi-hook-path={_HOOK}")
_GPU_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}


@pytest.fixture
def cluster_node(containerd: Containerd) -> Iterator[Node]:
    """A node with four GPUs, whose container runtime is a real one too."""
    directory = Path(tempfile.mkdtemp(prefix="dra-"))  # short, for the sockets below it
    try:
        with Cluster(directory) as cluster:
            cluster.client.create(DEVICE_CLASSES, _GPU_CLASS)
            added = cluster.add_node("node-a", "l40s", *_FLAGS, cdi_dir=containerd.cdi_dir)
            node = Node(cluster, added)
            node.published(4)
            yield node
    finally:
        shutil.rmtree(directory)


def test_containers_of_pods_have_the_nodes_and_libraries_of_their_claims(
    cluster_node: Node, pod: Pod
) -> None:
    for name, count in (("a", 2), ("b", 1)):
        cluster_node.run_pod(name, count)
    uuids = {device["name"]: device["attributes"]["uuid"]["string"] for device in cluster_node.devices()}

    for name in ("a", "b"):
        view = cluster_node.running(name)
        container = pod.start(view.cdi_ids)
        assert {node.path: (node.major, node.minor) for node in view.device_nodes} == nvidia_nodes(container)
        listed = re.findall(r"UUID: (\S+)\)", container.run("nvidia-smi -L"))
        assert [uuids[result["device"]] for result in cluster_node.results(name)] == listed
        assert "\x7fELF" == container.run("head -c4 /usr/lib64/libcuda.so.1")


def test_with_its_pod_a_claims_devices_end_and_those_of_others_stay(
    containerd: Containerd, cluster_node: Node, pod: Pod
) -> None:
    for name in ("a", "b"):
        cluster_node.run_pod(name)
    ids = {name: cluster_node.running(name).cdi_ids for name in ("a", "b")}

    cluster_node.delete_pod("b")
    cluster_node.until(lambda: len(list(containerd.cdi_dir.iterdir())) == 1, "the end of its spec")

    assert pod.start(ids["a"])
    with pytest.raises(grpc.RpcError, match="unresolvable CDI devices"):
        pod.start(ids["b"])


def test_a_pod_starts_once_what_was_missing_on_the_node_is_there(cluster_node: Node, pod: Pod) -> None:
    control = cluster_node.plugin_dir / "driver-root/dev/nvidiactl"
    away = cluster_node.plugin_dir / "driver-root/simulated/nvidiactl"
    away.parent.mkdir(exist_ok=True)
    control.rename(away)
    cluster_node.run_pod("a")
    cluster_node.failed("a", f"/dev/nvidiactl does not exist under {control.parent.parent} on the node")

    away.rename(control)

    view = cluster_node.running("a")
    assert "/dev/nvidiactl" in nvidia_nodes(pod.start(view.cdi_ids))


def test_the_hook_program_of_the_flag_is_run_for_the_containers(cluster_node: Node, pod: Pod) -> None:
    program = HookProgram(Path(f"{cluster_node.plugin_dir}/driver-root{_HOOK}").parent)
    cluster_node.run_pod("a")

    container = pod.start(cluster_node.running("a").cdi_ids)

    assert "libcuda.so.1\n" == container.run("readlink /usr/lib/x86_64-linux-gnu/libcuda.so")
    assert "create-symlinks" in {command for command, *_ in program.calls()}

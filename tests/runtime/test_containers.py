"""What a container gets of a prepared claim, as containerd and runc make it, asked for through CRI."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import grpc
import pytest

from tests.runtime.conftest import NewNode
from tests.runtime.containerd import Containerd
from tests.runtime.cri import Container, Pod
from tests.runtime.gpu_node import GpuNode

pytestmark = [pytest.mark.root, pytest.mark.runtime]

CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_GROUP = 44201
_USER = 1000
_LIBRARIES = {
    "libcuda.so.580.95.05": ("libcuda.so.1", "libcuda.so"),
    "libnvidia-ml.so.580.95.05": ("libnvidia-ml.so.1",),
    "libnvidia-glcore.so.580.95.05": (),
}
_MIG_PROFILE = """\
description: A node with one GPU that is cut in two
driver: {version: 580.95.05, cuda: 13.0}
defaults:
  name: NVIDIA A100-SXM4-40GB
  architecture: Ampere
  computeCapability: 8.0
  memoryMiB: 40960
gpus:
  - pci: 0000:07:00.0
    mig:
      table: a100-40
      enabled: true
      devices: [{profile: 1g.5gb, start: 4}, {profile: 3g.20gb, start: 0}]
"""


def of_gpus(*indexes: int) -> tuple[str, ...]:
    """The nodes of these GPUs, as they are numbered on a node where that is the order of everything."""
    return tuple(name for i in indexes for name in (f"nvidia{i}", f"dri/card{i}", f"dri/renderD{128 + i}"))


def nvidia_nodes(container: Container) -> dict[str, tuple[int, int]]:
    """Every device node of the container that no container has by itself, with its numbers."""
    listed = container.run("find /dev -type c -o -type b | grep -v /dev/pts/ | xargs stat -c '%n %t %T'")
    nodes = (line.split() for line in listed.splitlines())
    usual = {"full", "null", "ptmx", "random", "tty", "urandom", "zero", "console"}
    return {
        path: (int(major, 16), int(minor, 16))
        for path, major, minor in nodes
        if path.removeprefix("/dev/") not in usual
    }


def open_nodes(container: Container, paths: Iterable[str]) -> dict[str, str]:
    """What the kernel says when the container opens these nodes: no driver of the host has their numbers."""
    said = {path: container.run(f"head -c1 {path} || true").strip() for path in paths}
    return {path: text.rpartition(": ")[2] for path, text in said.items()}


def test_the_container_has_the_nodes_of_its_gpus_with_their_numbers_and_no_others(
    node: GpuNode, pod: Pod
) -> None:
    node.prepare("other", node.gpu(0))
    container = pod.start(node.prepare("a", node.gpu(1), node.gpu(3)))

    assert node.numbers(*CONTROL, *of_gpus(1, 3)) == nvidia_nodes(container)


def test_containers_of_two_claims_have_one_gpu_each(node: GpuNode, pod: Pod) -> None:
    claims = {i: node.prepare(f"claim-{i}", node.gpu(i)) for i in (0, 2)}

    containers = {i: pod.start(ids) for i, ids in claims.items()}

    for i, container in containers.items():
        assert node.numbers(*CONTROL, *of_gpus(i)) == nvidia_nodes(container)


def test_a_container_of_two_claims_has_the_gpus_of_both(node: GpuNode, pod: Pod) -> None:
    container = pod.start([*node.prepare("a", node.gpu(0)), *node.prepare("b", node.gpu(3))])

    assert node.numbers(*CONTROL, *of_gpus(0, 3)) == nvidia_nodes(container)
    assert [node.gpus[i].uuid for i in (0, 3)] == re.findall(r"UUID: (\S+)\)", container.run("nvidia-smi -L"))


def test_a_container_without_a_claim_has_nothing(node: GpuNode, pod: Pod) -> None:
    node.prepare("a", node.gpu(0))

    assert {} == nvidia_nodes(pod.start([]))


def test_the_kernel_lets_the_container_use_its_own_gpu_alone(node: GpuNode, pod: Pod) -> None:
    container = pod.start(node.prepare("a", node.gpu(1)))
    major, minor = node.numbers("nvidia0")["/dev/nvidia0"]

    container.run(f"mknod /tmp/foreign c {major} {minor}")

    expected = {"/dev/nvidia1": "No such device or address", "/tmp/foreign": "Operation not permitted"}
    assert expected == open_nodes(container, expected)


@pytest.mark.parametrize("directory", ["/usr/lib64", "/usr/lib/x86_64-linux-gnu"])
def test_libraries_are_there_under_every_name_read_only(node: GpuNode, pod: Pod, directory: str) -> None:
    container = pod.start(node.prepare("a", node.gpu(0)))

    for file, others in _LIBRARIES.items():
        installed = node.driver_root / "usr/lib/x86_64-linux-gnu" / file
        expected = hashlib.sha256(installed.read_bytes()).hexdigest()
        paths = [f"{directory}/{name}" for name in (file, *others)]
        found = [line.split()[0] for line in container.run(f"sha256sum {' '.join(paths)}").splitlines()]
        assert [expected] * len(paths) == found
        assert "Read-only file system" in container.run(f"touch {paths[-1]} || true")


def test_configuration_and_firmware_are_at_their_places(node: GpuNode, pod: Pod) -> None:
    container = pod.start(node.prepare("a", node.gpu(0)))

    for path in (
        "etc/vulkan/icd.d/nvidia_icd.json",
        "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
        "lib/firmware/nvidia/580.95.05/gsp_ga10x.bin",
    ):
        assert (node.driver_root / path).read_text() == container.run(f"cat /{path}")


def test_the_environment_is_the_images_and_keeps_other_injections_away(node: GpuNode, pod: Pod) -> None:
    container = pod.start(node.prepare("a", node.gpu(0)))

    names = dict(line.split("=", 1) for line in container.run("env").splitlines())

    assert "void" == names["NVIDIA_VISIBLE_DEVICES"]
    assert "LD_LIBRARY_PATH" not in names
    assert "/bin:/usr/bin" == names["PATH"]


def test_the_attributes_of_its_devices_can_be_read(node: GpuNode, pod: Pod) -> None:
    container = pod.start(node.prepare("a", node.gpu(2)))

    folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/a/gpu"
    newest, *_ = container.run(f"cat {folder}/gpu.nvidia.com-metadata.json").splitlines()

    (request,) = json.loads(newest)["requests"]
    assert [node.gpu(2)] == [device["name"] for device in request["devices"]]


def test_nvidia_smi_lists_the_claimed_gpus(node: GpuNode, pod: Pod) -> None:
    container = pod.start(node.prepare("a", node.gpu(1), node.gpu(2)))

    listed = re.findall(r"UUID: (\S+)\)", container.run("nvidia-smi -L"))

    assert [node.gpus[1].uuid, node.gpus[2].uuid] == listed


def test_mig_capabilities_are_made_by_number_where_the_host_has_no_nodes(
    new_node: NewNode, pod: Pod, tmp_path: Path
) -> None:
    profile = tmp_path / "cut.yaml"
    profile.write_text(_MIG_PROFILE)
    node = new_node(str(profile))
    capabilities = node.driver_root / "dev/nvidia-caps"
    known = node.numbers(*(f"nvidia-caps/{path.name}" for path in capabilities.iterdir()))
    for path in capabilities.iterdir():
        path.unlink()
    capabilities.rmdir()

    containers = [pod.start(node.prepare(f"claim-{name}", name)) for name in node.mig_devices()]

    minors = _minors(node)
    for name, container in zip(node.mig_devices(), containers, strict=True):
        own = [f"/dev/nvidia-caps/nvidia-cap{minors[access]}" for access in _accesses(node, name)]
        expected = node.numbers(*CONTROL, "nvidia0") | {path: known[path] for path in own}
        assert expected == nvidia_nodes(container)
        assert dict.fromkeys(own, "No such device or address") == open_nodes(container, own)


def _minors(node: GpuNode) -> dict[str, str]:
    """The driver's own list of capabilities, of those that could exist too."""
    listed = (node.driver_root / "proc/driver/nvidia-caps/mig-minors").read_text()
    return dict(line.split() for line in listed.splitlines())


def _accesses(node: GpuNode, name: str) -> tuple[str, str]:
    """What the driver calls the capabilities of a published MIG device."""
    device = node.devices.get(name)
    mig = node.gpus[0].mig
    assert device is not None
    assert mig is not None
    (found,) = [m for m in mig.devices if m.uuid == device.target.uuid]
    instance = f"gpu0/gi{found.gpu_instance}"
    return f"{instance}/access", f"{instance}/ci{found.compute_instance}/access"


def test_a_user_gets_into_the_group_that_may_open_the_nodes(node: GpuNode, pod: Pod) -> None:
    for name in ("nvidiactl", "nvidia-modeset", "nvidia0"):
        path = node.driver_root / "dev" / name
        os.chown(path, 0, _GROUP)
        path.chmod(0o660)

    container = pod.start(node.prepare("a", node.gpu(0)), user=_USER)

    assert [str(_USER), str(_GROUP)] == container.run("id -G").split()
    opened = open_nodes(container, ["/dev/nvidia0", "/dev/nvidiactl"])
    assert {"No such device or address"} == set(opened.values())


def test_the_end_of_one_claim_of_a_shared_gpu_leaves_the_others(node: GpuNode, pod: Pod) -> None:
    first = node.prepare("first", node.gpu(0), share_id="share-1")
    second = node.prepare("second", node.gpu(0), share_id="share-2")
    containers = [pod.start(first), pod.start(second)]
    containers[0].stop()

    node.unprepare("first")

    expected = node.numbers(*CONTROL, *of_gpus(0))
    assert expected == nvidia_nodes(containers[1])
    assert expected == nvidia_nodes(pod.start(second))
    with pytest.raises(grpc.RpcError, match=f"unresolvable CDI devices {re.escape(first[0])}"):
        pod.start(first)


def test_a_container_starts_again_with_the_same_devices(node: GpuNode, pod: Pod) -> None:
    ids = node.prepare("a", node.gpu(1))
    pod.start(ids).stop()

    node.start()

    assert ids == node.prepare("a", node.gpu(1))
    assert node.numbers(*CONTROL, *of_gpus(1)) == nvidia_nodes(pod.start(ids))


def test_a_container_outlives_the_runtime_and_starts_again_after_it(
    containerd: Containerd, node: GpuNode, pod: Pod
) -> None:
    ids = node.prepare("a", node.gpu(1))
    container = pod.start(ids)

    containerd.restart()

    expected = node.numbers(*CONTROL, *of_gpus(1))
    assert expected == nvidia_nodes(container)
    container.stop()
    assert expected == nvidia_nodes(pod.start(ids))


def test_a_device_that_was_not_prepared_is_refused(node: GpuNode, pod: Pod) -> None:
    known = node.prepare("a", node.gpu(0))
    unknown = "k8s.gpu.nvidia.com/claim=0f2a-b-gpu"

    with pytest.raises(
        grpc.RpcError, match=f"CDI device injection failed: unresolvable CDI devices {unknown}"
    ):
        pod.start([*known, unknown])


def test_a_broken_spec_of_somebody_else_is_no_trouble(
    containerd: Containerd, node: GpuNode, pod: Pod
) -> None:
    (containerd.cdi_dir / "broken.json").write_text('{"cdiVersion": "0.5.0", "kind": ')
    (containerd.cdi_dir / "future.json").write_text('{"cdiVersion": "9.0.0", "kind": "a.b/c", "devices": []}')

    container = pod.start(node.prepare("a", node.gpu(0)))

    assert node.numbers(*CONTROL, *of_gpus(0)) == nvidia_nodes(container)

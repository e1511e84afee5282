"""What containers get of a driver that was upgraded under a claim that is prepared."""

import time
from pathlib import Path

import grpc
import pytest

from dra_driver.node.machine import FRESH_SECONDS
from tests.runtime.cri import Container, Pod
from tests.runtime.gpu_node import GpuNode
from tests.runtime.test_containers import CONTROL, nvidia_nodes, of_gpus

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_OLD, _NEW = "580.95.05", "590.44.01"


def upgrade(root: Path) -> None:
    """Another version in place of the one that is there, down to the kernel module, and since long enough to be seen."""
    for path in sorted(root.rglob(f"*.so.{_OLD}")):
        path.rename(path.with_name(path.name.replace(_OLD, _NEW)))
    (root / "sys/module/nvidia/version").write_text(f"{_NEW}\n")
    time.sleep(FRESH_SECONDS)


def started(pod: Pod, cdi_ids: list[str]) -> Container:
    """A container, once the runtime has noticed that the spec is another: it hears of it a moment later."""
    give_up = time.monotonic() + 60
    while True:
        try:
            return pod.start(cdi_ids)
        except grpc.RpcError as error:
            if f"so.{_OLD}: no such file or directory" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def test_after_an_upgrade_a_container_starts_again_once_its_claim_is_prepared_again(
    node: GpuNode, pod: Pod
) -> None:
    old = node.prepare("a", node.gpu(1))
    pod.start(old).stop()
    upgrade(node.driver_root)

    with pytest.raises(grpc.RpcError, match=f"so.{_OLD}: no such file or directory"):
        pod.start(old)

    assert old == node.prepare("a", node.gpu(1))
    container = started(pod, old)
    assert node.numbers(*CONTROL, *of_gpus(1)) == nvidia_nodes(container)
    listed = container.run("ls /usr/lib64").split()
    assert (f"libcuda.so.{_NEW}" in listed, f"libcuda.so.{_OLD}" in listed) == (True, False)

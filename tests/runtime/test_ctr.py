"""`ctr run --device`, as on the command line of a node; containerd 1.7's `ctr` does not know CDI."""

import pytest

from tests.runtime.containerd import Containerd
from tests.runtime.gpu_node import GpuNode

pytestmark = [pytest.mark.root, pytest.mark.runtime]


def test_ctr_gives_a_container_the_claims_gpus(containerd_2: Containerd, node_of_ctr: GpuNode) -> None:
    ids = node_of_ctr.prepare("a", node_of_ctr.gpu(0), node_of_ctr.gpu(3))

    ran = containerd_2.ctr_run("a", ids, "cd /dev; stat -c '%n %t:%T' nvidia?; nvidia-smi -L | grep -c UUID")

    numbers = node_of_ctr.numbers("nvidia0", "nvidia3")
    nodes = [f"{path.removeprefix('/dev/')} {major:x}:{minor:x}" for path, (major, minor) in numbers.items()]
    assert [*nodes, "2"] == ran.stdout.splitlines(), ran.stderr


def test_ctr_refuses_a_device_that_is_not_prepared_any_more(
    containerd_2: Containerd, node_of_ctr: GpuNode
) -> None:
    ids = node_of_ctr.prepare("a", node_of_ctr.gpu(0))
    node_of_ctr.unprepare("a")

    ran = containerd_2.ctr_run("b", ids, "true")

    assert (1, "") == (ran.returncode, ran.stdout)
    assert f"unresolvable CDI devices {ids[0]}" in ran.stderr


def test_ctr_of_containerd_1_takes_the_name_for_a_path(containerd_1: Containerd) -> None:
    ran = containerd_1.ctr_run("c", ["k8s.gpu.nvidia.com/claim=a"], "true")

    assert (1, "") == (ran.returncode, ran.stdout)
    assert "no such file or directory" in ran.stderr

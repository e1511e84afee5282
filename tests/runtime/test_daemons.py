"""What containers get of the driver's daemons and of NVSwitches, as containerd and runc make it."""

import socket
from pathlib import Path

import pytest

from tests.runtime.conftest import NewNode
from tests.runtime.cri import Pod
from tests.runtime.gpu_node import GpuNode
from tests.runtime.test_containers import nvidia_nodes

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_SWITCHES = (
    "nvidia-nvswitch0",
    "nvidia-nvswitch1",
    "nvidia-nvswitch2",
    "nvidia-nvswitch3",
    "nvidia-nvswitchctl",
)


@pytest.mark.parametrize("name", ["nvidia-persistenced", "nvidia-fabricmanager"])
def test_a_container_has_the_sockets_of_the_drivers_daemons_as_they_are_on_the_host(
    node: GpuNode, pod: Pod, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = f"/run/{name}/socket"
    on_host = Path(f"{node.driver_root}{path}")
    on_host.parent.mkdir(parents=True)
    monkeypatch.chdir(on_host.parent)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    container = pod.start(node.prepare("a", node.gpu(0)))

    found = container.run(f"stat -c '%F %i' {path}; grep ' {path} ' /proc/mounts").split()

    assert ["socket", str(on_host.lstat().st_ino)] == found[:2]
    assert {"rw", "nosuid", "nodev", "noexec"} <= set(found[5].split(","))


def test_a_container_can_use_the_pipes_of_a_hosts_mps_daemon_and_run_nothing_there(
    node: GpuNode, pod: Pod
) -> None:
    pipes = node.driver_root / "tmp/nvidia-mps"
    pipes.mkdir(parents=True)
    (pipes / "control").touch()
    container = pod.start(node.prepare("a", node.gpu(0)))

    container.run("echo get_server_list > /tmp/nvidia-mps/control; cp /bin/busybox /tmp/nvidia-mps/sh")

    assert "get_server_list\n" == (pipes / "control").read_text()
    assert "Permission denied" in container.run("/tmp/nvidia-mps/sh 2>&1 || true")


def test_nvswitches_are_in_containers_that_monitor_and_in_no_other(new_node: NewNode, pod: Pod) -> None:
    node = new_node("dgx-h100")
    program = pod.start(node.prepare("program", node.gpu(0)))
    monitor = pod.start(node.prepare("monitor", node.gpu(0), admin=True))

    assert node.numbers(*_SWITCHES).items() <= nvidia_nodes(monitor).items()
    assert not any("nvswitch" in path for path in nvidia_nodes(program))

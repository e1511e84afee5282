"""Specs have the host's paths, whatever the driver root is, and wherever the plugin sees it."""

import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import Root
from tests.runtime.cri import Pod
from tests.runtime.gpu_node import GpuNode
from tests.runtime.test_containers import CONTROL, nvidia_nodes, of_gpus

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_LIBRARIES = "usr/lib/x86_64-linux-gnu"


def on_the_host(root: Path, seen: Path) -> Root:
    return Root(PurePosixPath(root), seen)


def driver_container(root: Path, seen: Path) -> Root:
    """All of it in a root of its own, device nodes too."""
    driver = root / "run/nvidia/driver"
    driver.mkdir(parents=True)
    for name in ("usr", "lib", "etc", "dev"):
        (root / name).rename(driver / name)
    return Root(PurePosixPath(driver), seen / "run/nvidia/driver")


def gke(root: Path, seen: Path) -> Root:
    """A root of libraries, programs, firmware and what Vulkan reads alone."""
    driver = root / "home/kubernetes/bin/nvidia"
    driver.mkdir(parents=True)
    for name, place in (
        (_LIBRARIES, "lib64"),
        ("usr/bin", "bin"),
        ("lib/firmware", "firmware"),
        ("etc/vulkan", "vulkan"),
    ):
        (root / name).rename(driver / place)
    told = root / "sys/module/firmware_class/parameters/path"
    told.parent.mkdir(parents=True)
    told.write_text(f"{driver}/firmware")
    return Root(PurePosixPath(driver), seen / "home/kubernetes/bin/nvidia")


@pytest.mark.parametrize("layout", [on_the_host, driver_container, gke], ids=lambda layout: layout.__name__)
def test_a_container_has_its_gpu_and_its_libraries(
    node: GpuNode, pod: Pod, tmp_path: Path, layout: Callable[[Path, Path], Root]
) -> None:
    numbers = node.numbers(*CONTROL, *of_gpus(2))
    root, seen = node.driver_root, tmp_path / "host"
    seen.symlink_to(root)  # the plugin sees the host here, and the runtime does not look at it
    host = Root(PurePosixPath(root), seen)
    node.start(lambda: DriverEdits(layout(root, seen), host=host, proc=seen / "proc", sysfs=seen / "sys"))

    container = pod.start(node.prepare("a", node.gpu(2)))

    assert numbers == nvidia_nodes(container)
    for directory in ("/usr/lib64", f"/{_LIBRARIES}"):
        assert "\x7fELF" == container.run(f"head -c4 {directory}/libcuda.so.1")
    assert node.gpus[2].uuid in container.run("nvidia-smi -L")
    assert "libGLX_nvidia.so.0" in container.run("cat /etc/vulkan/icd.d/nvidia_icd.json")
    assert "firmware" in container.run("cat /lib/firmware/nvidia/580.95.05/gsp_ga10x.bin")
    assert str(seen) not in str(node.spec("a"))


def test_under_wsl_a_container_has_the_one_node_and_windows_driver(node: GpuNode, pod: Pod) -> None:
    def windows() -> DriverEdits:
        host = Root(PurePosixPath(root), root)
        wsl = root / "usr/lib/wsl"
        wsl.mkdir()
        (root / _LIBRARIES).rename(wsl / "drivers")
        (wsl / "lib").mkdir()
        for name, file in (
            ("libcuda.so.1", "libcuda"),
            ("libnvidia-ml.so.1", "libnvidia-ml"),
            ("libdxcore.so", "libcuda"),
        ):
            (wsl / "lib" / name).symlink_to(f"../drivers/{file}.so.580.95.05")
        (root / "dev").rename(root / "linux")
        (root / "dev").mkdir()
        os.mknod(root / "dev/dxg", stat.S_IFCHR | 0o666, os.makedev(240, 7))
        return DriverEdits(host, host=host, proc=root / "proc", sysfs=root / "sys")

    root = node.driver_root
    node.start(windows)

    container = pod.start(node.prepare("a", node.gpu(0)))

    assert {"/dev/dxg": (240, 7)} == nvidia_nodes(container)
    for path in ("/usr/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", f"/{_LIBRARIES}/libcuda.so.1"):
        assert "\x7fELF" == container.run(f"head -c4 {path}")

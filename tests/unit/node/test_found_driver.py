"""The driver is looked for where distributions put it; what containers get is from where NVML was found."""

from pathlib import Path, PurePosixPath

import pytest

from dra_driver.cdi.edits import NodeEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.devices.build import build_devices
from dra_driver.inventory.fake_elf import shared_library
from dra_driver.inventory.nvml import NvmlBackend
from dra_driver.node.machine import _FoundDriver
from tests.unit.inventory.nvml.fake_gpu import FakeGpu
from tests.unit.inventory.nvml.fake_nvml import FakeNvml

_VERSION = "580.95.05"


class Host:
    """A host with one GPU, seen below `path`."""

    def __init__(self, path: Path, minor: int | None) -> None:
        self.path = path
        self.root = Root(PurePosixPath("/"), path, PLACEHOLDERS)
        nvml = FakeNvml([FakeGpu("GPU-1", "00000000:10:00.0", minor=minor)])
        self.backend = NvmlBackend(host=path, sysfs=path / "sys", nvml=nvml, load_library=lambda _: object())
        self.edits = _FoundDriver(self.backend, None, self.root, None)

    def add(self, *paths: str) -> None:
        for name in paths:
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                shared_library(path.name.partition(".so")[0] + ".so.1", "x86_64") if ".so" in name else b""
            )

    def remove(self, *paths: str) -> None:
        for name in paths:
            (self.path / name).unlink()

    def prepare(self) -> tuple[NodeEdits, list[str]]:
        """The edits of any device as things are now, and the nodes of the one GPU."""
        inventory = self.backend.scan()
        (device,) = build_devices(inventory)
        now = self.edits.now()
        return now, [node.path for node in now.device(device.target, inventory.gpus[0]).device_nodes]


def libraries(root: str) -> list[str]:
    return [f"{root}lib64/{name}.so.{_VERSION}" for name in ("libcuda", "libnvidia-ml")]


@pytest.mark.parametrize("root", ["", "run/nvidia/driver/", "home/kubernetes/bin/nvidia/", "usr/local/"])
def test_files_are_of_the_root_where_nvml_is(tmp_path: Path, root: str) -> None:
    host = Host(tmp_path, minor=0)
    host.add(*libraries(root), "dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm")

    now, nodes = host.prepare()

    sources = {mount.container_path: mount.host_path for mount in now.common.mounts}
    assert (["/dev/nvidia0"], f"/{root}lib64/libcuda.so.{_VERSION}") == (
        nodes,
        sources["/usr/lib64/libcuda.so.1"],
    )


def test_a_driver_that_moves_is_followed(tmp_path: Path) -> None:
    host = Host(tmp_path, minor=0)
    host.add(*libraries("usr/local/"), "dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm")
    host.prepare()

    host.backend.close()  # a driver can only be unloaded when nobody uses it
    host.remove(*libraries("usr/local/"))
    host.add(*libraries("run/nvidia/driver/"))
    now, _ = host.prepare()

    assert {mount.host_path.partition("lib64")[0] for mount in now.common.mounts} == {"/run/nvidia/driver/"}


def test_under_wsl_a_gpu_without_minor_number_is_published_by_uuid_and_prepared(tmp_path: Path) -> None:
    host = Host(tmp_path, minor=None)
    drivers = "usr/lib/wsl/drivers/nv_dispi.inf_amd64_1"
    host.add(
        f"{drivers}/libcuda.so.1.1", f"{drivers}/libnvidia-ml.so.1", "usr/lib/wsl/lib/libdxcore.so", "dev/dxg"
    )
    for name, target in (("libcuda.so.1", "libcuda.so.1.1"), ("libnvidia-ml.so.1", "libnvidia-ml.so.1")):
        (host.path / "usr/lib/wsl/lib" / name).symlink_to(f"../drivers/nv_dispi.inf_amd64_1/{target}")

    now, nodes = host.prepare()

    (device,) = build_devices(host.backend.scan())
    assert ("gpu-0000-10-00-0", "GPU-1") == (device.name, device.attributes["uuid"])
    assert ["/dev/dxg"] == nodes
    assert f"/{drivers}/libcuda.so.1.1" in {mount.host_path for mount in now.common.mounts}

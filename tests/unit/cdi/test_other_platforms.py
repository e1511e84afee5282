"""WSL2, and Tegra modules: sensibly, or not at all and with a reason."""

from pathlib import Path
from typing import Any

import pytest

from dra_driver.cdi.spec import DeviceNode
from dra_driver.cdi.validate import validate
from dra_driver.devices.model import Target
from dra_driver.errors import HardwareError
from dra_driver.inventory.fake_elf import shared_library
from dra_driver.inventory.model import Gpu

TARGET = Target("gpu", "GPU-1", "GPU-1", "0000:01:00.0")
WITHOUT_MINOR = Gpu("GPU-1", "0000:01:00.0", 0, None, "NVIDIA RTX 4090", None, None, None, None)


@pytest.fixture
def wsl(driver: Any) -> Any:
    """The host is a Linux inside Windows, and there is no other driver."""
    for node in (driver.local / "dev").iterdir():
        node.unlink()
    driver.local.rename(driver.local.parent / "gone")
    driver.add("dxg", host=True)
    for name in ("libcuda.so.1", "libcuda.so", "libdxcore.so", "libnvidia-ml.so.1"):
        driver.add_file(f"/usr/lib/wsl/lib/{name}", shared_library(name, "x86_64"), host=True)
    driver.add_file("/usr/lib/wsl/lib/nvidia-smi", host=True)
    driver.add_file("/usr/lib/wsl/lib/readme.so.txt", host=True)
    driver.add_file("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1/libcuda.so.1.1", host=True)
    return driver


def test_under_wsl_a_gpu_is_the_one_node_of_all_gpus(wsl: Any) -> None:
    now = wsl.edits().now()

    assert now.device(TARGET, WITHOUT_MINOR).device_nodes == (DeviceNode("/dev/dxg"),)
    assert now.common.env == ("NVIDIA_VISIBLE_DEVICES=void",)


def test_under_wsl_the_drivers_directory_and_its_libraries_are_mounted(wsl: Any) -> None:
    mounts = {mount.container_path: mount.host_path for mount in wsl.edits().now().common.mounts}

    names = ("libcuda.so", "libcuda.so.1", "libdxcore.so", "libnvidia-ml.so.1")
    assert mounts == {
        "/usr/lib/wsl": "/usr/lib/wsl",
        "/usr/bin/nvidia-smi": "/usr/lib/wsl/lib/nvidia-smi",
        **{f"/usr/lib64/{name}": f"/usr/lib/wsl/lib/{name}" for name in names},
        **{f"/usr/lib/x86_64-linux-gnu/{name}": f"/usr/lib/wsl/lib/{name}" for name in names},
    }


@pytest.mark.parametrize("name", ["libcuda.so.1", "libdxcore.so", "libnvidia-ml.so.1"])
@pytest.mark.parametrize("content", [None, b"no library"])
def test_under_wsl_a_driver_that_is_not_whole_is_told(wsl: Any, name: str, content: bytes | None) -> None:
    library = wsl.host_local / "usr/lib/wsl/lib" / name
    if content is None:
        library.unlink()
        library.symlink_to("../drivers/gone")
    else:
        library.write_bytes(content)

    with pytest.raises(
        HardwareError, match=f"no {name} can be read in /usr/lib/wsl/lib on the node; install"
    ):
        wsl.edits().now()


def test_under_wsl_a_node_that_is_none_is_told(wsl: Any, strict: Any) -> None:
    now = wsl.edits(nodes=strict).now()

    with pytest.raises(
        HardwareError, match="GPU GPU-1 cannot be given to a container: /dev/dxg is no device"
    ):
        now.device(TARGET, WITHOUT_MINOR)


def test_the_edits_under_wsl_are_a_valid_spec(wsl: Any) -> None:
    now = wsl.edits().now()
    device = {"name": "a", "containerEdits": now.device(TARGET, WITHOUT_MINOR).as_dict()}

    body = {"cdiVersion": "0.3.0", "kind": "k8s.gpu.nvidia.com/claim", "devices": [device]}
    assert validate({**body, "containerEdits": now.common.as_dict()}) == []


@pytest.mark.parametrize("has_libraries", [False, True])
def test_a_tegra_module_is_refused_with_what_to_use_instead(driver: Any, has_libraries: bool) -> None:
    driver.add_file("/etc/nv_tegra_release", b"# R36", host=True)
    if not has_libraries:
        (driver.local / driver.libraries).rename(driver.local / "tegra")

    with pytest.raises(HardwareError, match=r"part of a Tegra module, .* use the NVIDIA container runtime"):
        driver.edits().now().device(TARGET, WITHOUT_MINOR)


def test_another_gpu_without_minor_number_is_refused_with_where_to_look(driver: Any) -> None:
    with pytest.raises(HardwareError, match="look at /proc/driver/nvidia/gpus on the node"):
        driver.edits().now().device(TARGET, WITHOUT_MINOR)


def test_a_dxg_node_beside_an_nvidia_driver_is_no_wsl(driver: Any, tmp_path: Path) -> None:
    driver.add("dxg", host=True)

    assert "/dev/nvidiactl" in [node.path for node in driver.edits().now().common.device_nodes]

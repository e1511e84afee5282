"""Which nodes and environment a container is given."""

import re
import shutil
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.spec import DeviceNode
from dra_driver.devices.model import Target
from dra_driver.errors import HardwareError
from dra_driver.inventory.model import Gpu, Mig, MigDevice, MigProfile

PROFILE = MigProfile(19, "1g.5gb", 5 << 30, 1, 14, 1, 0, 0, 0, 0, 7, (0, 1, 2, 3, 4, 5, 6), 1)
GPU = Target("gpu", "GPU-1", "GPU-1", "0000:65:00.0")
MIG = Target("mig", "MIG-1", "GPU-1", "0000:65:00.0")


def gpu(minor: int | None = 1, mig: Mig | None = None) -> Gpu:
    return Gpu("GPU-1", "0000:65:00.0", 0, minor, "NVIDIA A100", None, None, None, None, mig=mig)


def mig_gpu() -> Gpu:
    return gpu(0, Mig(enabled=True, pending=True, devices=(MigDevice("MIG-1", 9, 2, PROFILE, 3),)))


def test_a_gpu_is_its_own_node_and_no_other(driver: Any) -> None:
    edits = driver.edits().now().device(GPU, gpu(1))

    assert edits.device_nodes == (DeviceNode("/dev/nvidia1", host_path="/run/nvidia/driver/dev/nvidia1"),)


def test_edits_stay_one_object_while_nothing_changes_and_no_longer(driver: Any) -> None:
    source = driver.edits()
    first, again = (source.now().device(GPU, gpu(1)) for _ in range(2))
    driver.add("nvidia2")

    assert again is first
    assert [node.path for node in source.now().device(GPU, gpu(2)).device_nodes] == ["/dev/nvidia2"]


def test_within_one_look_a_gpu_that_was_scanned_anew_is_looked_at_anew(driver: Any) -> None:
    driver.add("nvidia2")
    now = driver.edits().now()

    paths = [now.device(GPU, gpu(minor)).device_nodes[0].path for minor in (1, 2)]

    assert paths == ["/dev/nvidia1", "/dev/nvidia2"]


def test_host_path_is_left_out_where_it_is_the_same(driver: Any) -> None:
    shutil.rmtree(driver.local / "dev")
    driver.add("nvidia1", "nvidiactl", "nvidia-uvm", host=True)

    assert driver.edits().now().device(GPU, gpu(1)).device_nodes == (DeviceNode("/dev/nvidia1"),)


def test_nodes_are_the_hosts_where_the_driver_root_has_no_dev(driver: Any) -> None:
    shutil.rmtree(driver.local / "dev")
    driver.add("nvidiactl", "nvidia-modeset", host=True)

    paths = [node.path for node in driver.edits().now().common.device_nodes]

    assert paths == ["/dev/nvidiactl", "/dev/nvidia-modeset"]


def test_common_edits_are_the_control_nodes_that_exist_and_void(driver: Any) -> None:
    driver.add("nvidia-uvm-tools")

    edits = driver.edits().now().common

    assert edits.env == ("NVIDIA_VISIBLE_DEVICES=void",)
    assert [node.path for node in edits.device_nodes] == [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
    ]


def test_all_missing_nodes_are_named_with_the_place(driver: Any) -> None:
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (driver.local / "dev" / name).unlink()

    with pytest.raises(
        HardwareError,
        match=r"GPU-1 .*: /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm do not exist under /run/nvidia/driver ",
    ):
        driver.edits().now().device(GPU, gpu(0))


def test_a_node_that_appears_later_is_found_by_the_next_call(driver: Any) -> None:
    edits: DriverEdits = driver.edits()
    with pytest.raises(HardwareError, match="/dev/nvidia7 does not exist"):
        edits.now().device(GPU, gpu(7))

    driver.add("nvidia7")

    assert [node.path for node in edits.now().device(GPU, gpu(7)).device_nodes] == ["/dev/nvidia7"]


def test_a_gpu_without_minor_number_is_refused(driver: Any) -> None:
    with pytest.raises(HardwareError, match="GPU-1 has no minor number"):
        driver.edits().now().device(GPU, gpu(None))


def test_a_mig_device_is_its_parent_and_both_capabilities(driver: Any) -> None:
    driver.add_capability(0, "gi9", 30)
    driver.add_capability(0, "gi9/ci2", 31, mode=256)

    nodes = driver.edits().now().device(MIG, mig_gpu()).device_nodes

    assert nodes == (
        DeviceNode("/dev/nvidia0", host_path="/run/nvidia/driver/dev/nvidia0"),
        DeviceNode("/dev/nvidia-caps/nvidia-cap30", type="c", major=234, minor=30, file_mode=292),
        DeviceNode("/dev/nvidia-caps/nvidia-cap31", type="c", major=234, minor=31, file_mode=256),
    )


def test_a_mig_device_that_is_gone_is_refused(driver: Any) -> None:
    with pytest.raises(HardwareError, match="MIG device MIG-1 does not exist on GPU GPU-1 any more"):
        driver.edits().now().device(MIG, gpu(0))


def test_a_capability_that_the_driver_does_not_list_is_refused_with_its_path(driver: Any) -> None:
    driver.add_capability(0, "gi9", 30)

    with pytest.raises(
        HardwareError, match=re.escape("gi9/ci2/access cannot be read (No such file or directory)")
    ):
        driver.edits().now().device(MIG, mig_gpu())


@pytest.mark.parametrize("text", ["", "DeviceFileMinor: x\nDeviceFileMode: 292\n", "DeviceFileMinor: 3\n"])
def test_a_capability_file_of_another_form_is_refused(driver: Any, text: str) -> None:
    driver.add_capability(0, "gi9", 30)
    (driver.proc / "driver/nvidia/capabilities/gpu0/mig/gi9/access").write_text(text)

    with pytest.raises(HardwareError, match="does not tell a capability's minor and mode"):
        driver.edits().now().device(MIG, mig_gpu())


def test_a_kernel_without_the_capability_driver_is_refused(driver: Any) -> None:
    (driver.proc / "devices").write_text(
        "Character devices:\n195 nvidia\n\nBlock devices:\n234 nvidia-caps\n"
    )

    with pytest.raises(HardwareError, match="lists no nvidia-caps"):
        driver.edits().now().device(MIG, mig_gpu())


def test_placeholders_are_accepted_and_said_to_prove_nothing_once(driver: Any) -> None:
    edits: DriverEdits = driver.edits()

    with capture_logs() as logs:
        for _ in range(2):
            assert edits.now().device(GPU, gpu(1)).device_nodes

    said = [(line["log_level"], line["dev_root"]) for line in logs if "not proven" in line["event"]]
    assert said == [("warning", "/run/nvidia/driver")]

"""Groups, numbers and types of device nodes, and which GPU's nodes these are."""

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dra_driver.cdi.root import CHARACTER_DEVICES, PLACEHOLDERS, is_restricted_to_group
from dra_driver.cdi.spec import DeviceNode
from dra_driver.devices.model import Target
from dra_driver.errors import HardwareError
from dra_driver.inventory.model import Gpu, Mig, MigDevice, MigProfile, NvLink, RemoteType

PCI = "0000:65:00.0"
GPU = Target("gpu", "GPU-1", "GPU-1", PCI)
MIG = Target("mig", "MIG-1", "GPU-1", PCI)
A100 = Gpu("GPU-1", PCI, 0, 1, "NVIDIA A100", None, None, None, None)
SWITCHED = replace(A100, nvlinks=(NvLink(0, RemoteType.SWITCH, "0000:c4:00.0"),))
PROFILE = MigProfile(19, "1g.5gb", 5 << 30, 1, 14, 1, 0, 0, 0, 0, 7, (0, 1, 2), 1)
# A major for local use, so that these nodes lead to no device.
MAJOR = 240


def cut(profile: str) -> Gpu:
    devices = (MigDevice("MIG-1", 1, 0, replace(PROFILE, name=profile), 0),)
    return replace(A100, mig=Mig(enabled=True, pending=True, devices=devices))


def add_drm(driver: Any, *names: str, pci: str = PCI) -> None:
    for name in names:
        (driver.sysfs / "bus/pci/devices" / pci / "drm" / name).mkdir(parents=True)
        (driver.local / "dev/dri").mkdir(exist_ok=True)
        (driver.local / "dev/dri" / name).touch()


def paths(nodes: tuple[DeviceNode, ...]) -> list[str]:
    return [node.path for node in nodes]


def test_a_gpu_has_the_drm_nodes_of_its_pci_address(driver: Any) -> None:
    add_drm(driver, "card1", "renderD129")
    add_drm(driver, "card0", "renderD128", pci="0000:17:00.0")

    nodes = driver.edits().now().device(GPU, A100).device_nodes

    assert paths(nodes) == ["/dev/nvidia1", "/dev/dri/card1", "/dev/dri/renderD129"]
    assert nodes[1].host_path == "/run/nvidia/driver/dev/dri/card1"


def test_drm_nodes_that_do_not_exist_and_other_entries_are_left_out(driver: Any) -> None:
    add_drm(driver, "card1", "renderD129")
    (driver.sysfs / "bus/pci/devices" / PCI / "drm/version").touch()
    (driver.local / "dev/dri/renderD129").unlink()

    assert paths(driver.edits().now().device(GPU, A100).device_nodes) == ["/dev/nvidia1", "/dev/dri/card1"]


def test_drm_nodes_are_looked_up_anew_after_a_reload_of_their_module(driver: Any) -> None:
    add_drm(driver, "card1", "renderD129")
    edits = driver.edits()
    edits.now().device(GPU, A100)

    old = driver.sysfs / "bus/pci/devices" / PCI / "drm"
    old.rename(old.parent / "gone")
    add_drm(driver, "card2", "renderD130")

    assert paths(edits.now().device(GPU, A100).device_nodes)[1:] == ["/dev/dri/card2", "/dev/dri/renderD130"]


def test_with_a_hook_program_drm_nodes_get_their_links(driver: Any) -> None:
    add_drm(driver, "card1", "renderD129")
    driver.add_hook()

    (hook,) = driver.edits().now().device(GPU, A100).hooks

    assert hook.args[-1] == f"../renderD129::/dev/dri/by-path/pci-{PCI}-render"


@pytest.mark.parametrize(("profile", "has_drm"), [("1g.5gb", False), ("1g.24gb+gfx", True)])
def test_a_mig_device_has_drm_nodes_only_if_it_can_draw(driver: Any, profile: str, has_drm: bool) -> None:
    add_drm(driver, "card1", "renderD129")
    driver.add_capability(1, "gi1", 30)
    driver.add_capability(1, "gi1/ci0", 31)

    nodes = paths(driver.edits().now().device(MIG, cut(profile)).device_nodes)

    assert ("/dev/dri/card1" in nodes) == has_drm


@pytest.mark.parametrize(
    ("gpu", "admin", "expected"),
    [
        (SWITCHED, True, ["/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitch1", "/dev/nvidia-nvswitchctl"]),
        (SWITCHED, False, []),
        (A100, True, []),
    ],
    ids=["for monitoring", "for a program", "of a GPU without switches"],
)
def test_nvswitches_are_for_claims_with_admin_access(
    driver: Any, gpu: Gpu, admin: bool, expected: list[str]
) -> None:
    driver.add("nvidia-nvswitch0", "nvidia-nvswitch1", "nvidia-nvswitchctl")

    nodes = driver.edits().now().device(GPU, gpu, admin_access=admin).device_nodes

    assert paths(nodes)[1:] == expected


def status(mode: int, gid: int) -> os.stat_result:
    return os.stat_result((stat.S_IFCHR | mode, 0, 0, 1, 0, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "gid", "restricted"),
    [
        (0o660, 44, True),
        (0o664, 44, True),
        (0o666, 44, False),
        (0o660, 0, False),
        (0o600, 44, False),
        (0o640, 44, False),
    ],
)
def test_a_node_is_restricted_where_a_group_may_open_it_and_not_everybody(
    mode: int, gid: int, restricted: bool
) -> None:
    assert is_restricted_to_group(status(mode, gid)) == restricted


@pytest.mark.root
def test_containers_join_the_groups_that_may_open_their_nodes(driver: Any) -> None:
    add_drm(driver, "card1", "renderD129")
    for name, gid in (("nvidia1", 101), ("dri/card1", 44), ("dri/renderD129", 101)):
        os.chown(driver.local / "dev" / name, 0, gid)
        (driver.local / "dev" / name).chmod(0o660)

    now = driver.edits().now()
    edits = now.device(GPU, A100)

    assert [node.gid for node in edits.device_nodes] == [101, 44, 101]
    assert (set(edits.additional_gids), now.common.additional_gids) == ({101, 44}, ())


def test_files_are_no_device_nodes_where_nothing_is_simulated(driver: Any) -> None:
    with pytest.raises(
        HardwareError,
        match=r"GPU-1 cannot be given to a container: /dev/nvidia1, /dev/nvidiactl, /dev/nvidia-uvm are no device "
        r"nodes under /run/nvidia/driver on the node; remove what is wrong there, and run nvidia-modprobe -c0 -u",
    ):
        driver.edits(nodes=CHARACTER_DEVICES).now().device(GPU, A100)


def test_what_is_missing_and_what_is_wrong_are_told_apart(driver: Any) -> None:
    (driver.local / "dev/nvidia1").unlink()

    with pytest.raises(
        HardwareError, match=r"/dev/nvidia1 does not exist and /dev/nvidiactl, /dev/nvidia-uvm are"
    ):
        driver.edits(nodes=CHARACTER_DEVICES).now().device(GPU, A100)


@pytest.mark.parametrize("content", ["empty", "not empty", "directory", "link to nothing"])
def test_only_an_empty_file_is_a_placeholder(driver: Any, content: str) -> None:
    node = driver.local / "dev/nvidia1"
    node.unlink()
    if content == "directory":
        node.mkdir()
    elif content == "link to nothing":
        node.symlink_to("none")
    else:
        node.write_text("" if content == "empty" else "x")

    assert (driver.root(PLACEHOLDERS).find_node("/dev/nvidia1") is not None) == (content == "empty")


def test_a_node_that_appears_is_found_though_a_look_was_taken_for_true_before(driver: Any) -> None:
    edits = driver.edits()
    edits._look._fresh_seconds = 3600
    (driver.local / "dev/nvidia-uvm").unlink()
    with pytest.raises(HardwareError, match="/dev/nvidia-uvm does not exist"):
        edits.now().device(GPU, A100)

    driver.add("nvidia-uvm")

    assert edits.now().device(GPU, A100)


def make_nodes(driver: Any, **majors: int) -> None:
    """Character devices, and a kernel that lists the drivers of these."""
    for name, minor in (("nvidia1", 1), ("nvidiactl", 255), ("nvidia-uvm", 0)):
        path = driver.local / "dev" / name
        path.unlink()
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(MAJOR, minor))
    lines = [f"{major} {name.replace('_', '-')}" for name, major in majors.items()]
    (driver.proc / "devices").write_text("\n".join(["Character devices:", *lines, "", "Block devices:", ""]))


@pytest.mark.root
@pytest.mark.parametrize("names", [("nvidia", "nvidia_uvm"), ("nvidia_frontend", "nvidia_uvm"), ()])
def test_nodes_with_the_drivers_numbers_are_taken(driver: Any, names: tuple[str, ...]) -> None:
    make_nodes(driver, **dict.fromkeys(names, MAJOR))

    edits = driver.edits(nodes=CHARACTER_DEVICES).now().device(GPU, A100)

    assert edits.device_nodes == (DeviceNode("/dev/nvidia1", host_path="/run/nvidia/driver/dev/nvidia1"),)


@pytest.mark.root
def test_a_node_that_a_reload_of_the_driver_left_behind_is_refused(driver: Any) -> None:
    make_nodes(driver, nvidia=MAJOR, nvidia_uvm=MAJOR + 1)

    with pytest.raises(HardwareError, match="/dev/nvidia-uvm has not the numbers of the loaded driver under"):
        driver.edits(nodes=CHARACTER_DEVICES).now().device(GPU, A100)


@pytest.mark.root
@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (
            {"mem": 1},
            "/dev/nvidia1, /dev/nvidiactl, /dev/nvidia-uvm are of kernel modules that are not loaded",
        ),
        ({"nvidia": MAJOR}, "/dev/nvidia-uvm is of a kernel module that is not loaded"),
    ],
    ids=["nvidia", "nvidia-uvm"],
)
def test_nodes_that_outlived_their_kernel_module_are_refused_until_it_is_loaded(
    driver: Any, listed: dict[str, int], words: str
) -> None:
    make_nodes(driver, **listed)
    edits = driver.edits(nodes=CHARACTER_DEVICES)

    with pytest.raises(HardwareError, match=f"{words} under .*; wait until the NVIDIA driver is up, or run"):
        edits.now().device(GPU, A100)

    make_nodes(driver, nvidia=MAJOR, nvidia_uvm=MAJOR)
    assert edits.now().device(GPU, A100)


@pytest.mark.root
def test_a_kernel_module_that_is_loaded_under_a_new_name_is_loaded(driver: Any) -> None:
    make_nodes(driver, nvidia_newfangled=MAJOR, nvidia_uvm=MAJOR)
    driver.load(driver.version)

    assert driver.edits(nodes=CHARACTER_DEVICES).now().device(GPU, A100)


def test_a_gpu_that_was_numbered_anew_is_refused_until_it_is_looked_at_again(driver: Any) -> None:
    driver.add("nvidia2")
    information = driver.proc / "driver/nvidia/gpus" / PCI / "information"
    information.parent.mkdir(parents=True)
    information.write_text("Model: \t\t NVIDIA A100\nDevice Minor: \t 2\nGPU Excluded:\t No\n")
    edits = driver.edits()

    with pytest.raises(
        HardwareError,
        match=r"GPU-1 cannot be given .*: it is /dev/nvidia2 on the node now, and was /dev/nvidia1 when",
    ):
        edits.now().device(GPU, A100)

    assert paths(edits.now().device(GPU, replace(A100, minor=2)).device_nodes) == ["/dev/nvidia2"]


@pytest.mark.parametrize("text", ["", "Device Minor: \t x\n", "Device Minor:"])
def test_a_driver_that_does_not_tell_a_gpus_number_is_believed(driver: Any, text: str) -> None:
    information = driver.proc / "driver/nvidia/gpus" / PCI / "information"
    information.parent.mkdir(parents=True)
    information.write_text(text)

    assert driver.edits().now().device(GPU, A100)


@pytest.mark.root
def test_the_node_of_another_gpu_under_this_name_is_refused(driver: Any) -> None:
    make_nodes(driver, nvidia=MAJOR, nvidia_uvm=MAJOR)
    path: Path = driver.local / "dev/nvidia1"
    path.unlink()
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(MAJOR, 0))

    with pytest.raises(HardwareError, match="/dev/nvidia1 has not the numbers of the loaded driver"):
        driver.edits(nodes=CHARACTER_DEVICES).now().device(GPU, A100)


@pytest.mark.root
def test_nodes_that_are_not_needed_and_were_left_behind_are_left_out(driver: Any) -> None:
    make_nodes(driver, nvidia=MAJOR, nvidia_uvm=MAJOR, nvidia_nvswitch=MAJOR)
    names = ("nvidia-uvm-tools", "nvidia-modeset", "nvidia-nvswitch0", "nvidia-nvswitch1")
    for name in names:
        major = MAJOR if name in {"nvidia-modeset", "nvidia-nvswitch1"} else MAJOR + 1
        os.mknod(driver.local / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(major, 1))

    now = driver.edits(nodes=CHARACTER_DEVICES).now()

    assert paths(now.common.device_nodes) == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset"]
    nodes = now.device(GPU, SWITCHED, admin_access=True).device_nodes
    assert paths(nodes) == ["/dev/nvidia1", "/dev/nvidia-nvswitch1"]

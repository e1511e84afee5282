"""All that containers get of an installed driver, and how long it is taken for true."""

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from dra_driver.cdi.driver_files import DriverFiles, Found
from dra_driver.cdi.kernel import Kernel
from dra_driver.cdi.root import Root
from dra_driver.cdi.spec import Mount
from dra_driver.errors import HardwareError
from dra_driver.inventory.fake_elf import shared_library

READ_ONLY = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET = ("nosuid", "nodev", "rbind", "rprivate", "noexec")


class Finder:
    """`DriverFiles` on a clock that a test sets."""

    def __init__(self, driver: Any) -> None:
        self.time = 0.0
        self.driver = driver
        host = Root(PurePosixPath("/"), driver.host_local)
        kernel = Kernel(driver.proc, driver.sysfs)
        self.files = DriverFiles(driver.root(), host, kernel, clock=lambda: self.time)

    def find(self) -> Found:
        return self.files.find()

    def mounts(self) -> dict[str, Mount]:
        return {mount.container_path: mount for mount in self.find().edits.mounts}

    def settle(self) -> None:
        """Until what was changed is old enough for a look to be kept."""
        newest = max(path.stat().st_ctime_ns for path in self.driver.local.rglob("*"))
        probe = self.driver.proc / "probe"
        probe.touch()
        while probe.stat().st_ctime_ns < newest + 60_000_000:
            probe.chmod(0o600)


@pytest.fixture
def finder(driver: Any) -> Finder:
    return Finder(driver)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/OpenCL/vendors/nvidia.icd",
        "/etc/vulkan/icd.d/nvidia_icd.json",
        "/usr/share/vulkan/icd.d/nvidia_icd.json",
        "/usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
        "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
        "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
        "/usr/share/egl/egl_external_platform.d/99_nvidia_future.json",
        "/usr/share/nvidia/nvoptix.bin",
        "/usr/share/X11/xorg.conf.d/10-nvidia.conf",
        "/usr/lib/xorg/modules/drivers/nvidia_drv.so",
        "/usr/lib64/xorg/modules/extensions/libglxserver_nvidia.so.580.95.05",
        "/usr/lib64/xorg/modules/updates/extensions/libglxserver_nvidia.so.580.95.05",
        "/usr/lib/x86_64-linux-gnu/nvidia/xorg/nvidia_drv.so",
        "/usr/lib/aarch64-linux-gnu/nvidia/xorg/libglxserver_nvidia.so.580.95.05",
    ],
)
def test_configuration_keeps_its_path(driver: Any, finder: Finder, path: str) -> None:
    driver.add_file(path)

    assert finder.mounts()[path] == Mount(f"/run/nvidia/driver{path}", path, READ_ONLY)


@pytest.mark.parametrize(
    "path", ["/vulkan/icd.d/nvidia_icd.json", "/vulkan/implicit_layer.d/nvidia_layers.json"]
)
def test_what_gke_has_for_vulkan_goes_where_programs_look(driver: Any, finder: Finder, path: str) -> None:
    driver.add_file(path)

    assert finder.mounts()[f"/etc{path}"] == Mount(f"/run/nvidia/driver{path}", f"/etc{path}", READ_ONLY)
    assert path not in finder.mounts()


def test_the_x_servers_module_is_known_without_its_version_too(driver: Any, finder: Finder) -> None:
    path = "/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so"
    driver.add_file(f"{path}.580.95.05")

    assert finder.mounts()[path].host_path == f"/run/nvidia/driver{path}.580.95.05"


@pytest.mark.parametrize("name", ["nvidia\udcff.json", "nvidia\U0001f600.json"])
def test_configuration_whose_name_no_spec_can_say_is_left_alone(
    driver: Any, finder: Finder, name: str
) -> None:
    directory = "/usr/share/egl/egl_external_platform.d"
    for file in (name, "10_nvidia.json"):
        driver.add_file(f"{directory}/{file}")

    found = [path for path in finder.mounts() if path.startswith(directory)]

    assert found == [f"{directory}/10_nvidia.json"]


@pytest.mark.parametrize("path", ["/usr/share/vulkan/icd.d/radeon_icd.json", "/etc/OpenCL/vendors/mesa.icd"])
def test_configuration_of_others_is_left_alone(driver: Any, finder: Finder, path: str) -> None:
    driver.add_file(path)

    assert path not in finder.mounts()


@pytest.mark.parametrize("directory", ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin"])
def test_programs_go_to_a_directory_on_the_path(driver: Any, finder: Finder, directory: str) -> None:
    for name in ("nvidia-smi", "nvidia-cuda-mps-control", "other"):
        driver.add_file(f"{directory}/{name}")

    mounts = finder.mounts()

    assert mounts["/usr/bin/nvidia-smi"] == Mount(
        f"/run/nvidia/driver{directory}/nvidia-smi", "/usr/bin/nvidia-smi", READ_ONLY
    )
    assert ("/usr/bin/nvidia-cuda-mps-control" in mounts, "/usr/bin/other" in mounts) == (True, False)


@pytest.mark.parametrize(
    "base",
    [
        "/lib/firmware/updates/{release}",
        "/lib/firmware/updates",
        "/lib/firmware/{release}",
        "/lib/firmware",
    ],
)
def test_firmware_of_the_version_is_found_in_the_kernels_order(
    driver: Any, finder: Finder, base: str
) -> None:
    base = base.format(release=os.uname().release)
    for name in ("580.95.05/gsp_ga10x.bin", "580.95.05/gsp_tu10x.bin", "570.0/gsp_ga10x.bin", "580.95.05/x"):
        driver.add_file(f"{base}/nvidia/{name}")
    driver.add_file("/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin", b"another")

    mounts = {path: m.host_path for path, m in finder.mounts().items() if "firmware" in path}

    assert mounts["/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin"] == (
        f"/run/nvidia/driver{base}/nvidia/580.95.05/gsp_ga10x.bin"
    )
    assert {path.rpartition("/")[2] for path in mounts} == {"gsp_ga10x.bin", "gsp_tu10x.bin"}


@pytest.mark.parametrize("told", ["/run/nvidia/driver/opt/firmware", "/opt/firmware", "/opt/firmware/"])
def test_firmware_is_first_looked_for_where_the_kernel_was_told(
    driver: Any, finder: Finder, told: str
) -> None:
    parameter = driver.sysfs / "module/firmware_class/parameters/path"
    parameter.parent.mkdir(parents=True)
    parameter.write_text(f"{told}\n")
    driver.add_file("/opt/firmware/nvidia/580.95.05/gsp_ga10x.bin")
    driver.add_file("/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin")

    path = "/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin"
    assert finder.mounts()[path].host_path == (
        "/run/nvidia/driver/opt/firmware/nvidia/580.95.05/gsp_ga10x.bin"
    )


@pytest.mark.parametrize("on_host", [False, True])
def test_sockets_of_daemons_are_mounted_writable_from_where_they_are(
    driver: Any, finder: Finder, monkeypatch: pytest.MonkeyPatch, on_host: bool
) -> None:
    directory = (driver.host_local if on_host else driver.local) / "run/nvidia-persistenced"
    directory.mkdir(parents=True)
    monkeypatch.chdir(directory)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")

    path = "/run/nvidia-persistenced/socket"
    assert finder.mounts()[path] == Mount(f"{'' if on_host else '/run/nvidia/driver'}{path}", path, SOCKET)


def test_a_file_in_place_of_a_socket_is_not_mounted(driver: Any, finder: Finder) -> None:
    driver.add_file("/run/nvidia-fabricmanager/socket")

    assert "/run/nvidia-fabricmanager/socket" not in finder.mounts()


def test_the_pipes_of_an_mps_daemon_on_the_host_are_mounted(driver: Any, finder: Finder) -> None:
    (driver.host_local / "tmp/nvidia-mps").mkdir(parents=True)

    assert finder.mounts()["/tmp/nvidia-mps"] == Mount("/tmp/nvidia-mps", "/tmp/nvidia-mps", SOCKET)


@pytest.mark.parametrize("target", ["/etc", "../etc", "nvidia-mps", "/tmp/other"])
def test_a_link_in_place_of_the_pipes_is_not_mounted(driver: Any, finder: Finder, target: str) -> None:
    for name in ("etc", "tmp/other"):
        (driver.host_local / name).mkdir(parents=True)
    (driver.host_local / "tmp/nvidia-mps").symlink_to(target)

    assert "/tmp/nvidia-mps" not in finder.mounts()


@pytest.mark.root
def test_pipes_that_any_user_made_are_not_mounted(driver: Any, finder: Finder) -> None:
    (driver.host_local / "tmp/nvidia-mps").mkdir(parents=True)
    os.chown(driver.host_local / "tmp/nvidia-mps", 65534, 65534)

    assert "/tmp/nvidia-mps" not in finder.mounts()


def test_pipes_are_mounted_where_tmp_is_a_link(driver: Any, finder: Finder) -> None:
    (driver.host_local / "var/tmp/nvidia-mps").mkdir(parents=True)
    (driver.host_local / "tmp").symlink_to("var/tmp")

    assert finder.mounts()["/tmp/nvidia-mps"].host_path == "/var/tmp/nvidia-mps"


def test_the_same_object_is_given_while_nothing_changes(finder: Finder) -> None:
    finder.settle()
    first = finder.find()
    finder.time = 5.0

    assert finder.find() is first


CHANGES: dict[str, Callable[[Any], object]] = {
    "a library appears": lambda driver: driver.add_library("libnvcuvid", "libnvcuvid.so.1"),
    "a library goes": lambda driver: (driver.local / driver.libraries / "libnvidia-x.so.580.95.05").unlink(),
    "a hook program appears": lambda driver: driver.add_hook(),
    "a Vulkan file appears": lambda driver: driver.add_file("/etc/vulkan/icd.d/nvidia_icd.json"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_files_is_noticed(driver: Any, finder: Finder, change: str) -> None:
    driver.add_library("libnvidia-x", "libnvidia-x.so.1")
    finder.settle()
    before = finder.find()

    CHANGES[change](driver)
    finder.time = 1.0

    assert finder.find().edits != before.edits


def test_a_change_beside_libcuda_is_noticed_at_once(driver: Any, finder: Finder) -> None:
    finder.settle()
    finder.find()

    (driver.local / driver.libraries / "libnvidia-ml.so.580.95.05").unlink()

    with pytest.raises(HardwareError, match=re.escape("libnvidia-ml.so.580.95.05 does not exist under")):
        finder.find()


def test_another_file_in_place_of_libcuda_is_read_anew_at_once(driver: Any, finder: Finder) -> None:
    finder.settle()
    before = finder.find()
    library = driver.local / driver.libraries / "libcuda.so.580.95.05"

    (driver.local / "new").write_bytes(shared_library("libcuda.so.2", "x86_64"))
    (driver.local / "new").rename(library)

    assert before != finder.find()
    assert "/usr/lib64/libcuda.so.2" in finder.mounts()


def test_a_library_that_was_half_copied_is_found_when_it_is_whole(driver: Any, finder: Finder) -> None:
    library = driver.add_library("libnvcuvid", "libnvcuvid.so.1")
    whole = library.read_bytes()
    library.write_bytes(whole[:100])
    finder.settle()
    assert "/usr/lib64/libnvcuvid.so.1" not in finder.mounts()

    library.write_bytes(whole)  # no directory changes
    finder.time = 1.0

    assert "/usr/lib64/libnvcuvid.so.1" in finder.mounts()


def test_a_reload_of_the_driver_is_noticed_at_once(driver: Any, finder: Finder) -> None:
    driver.install(version="570.86.15")
    driver.load("580.95.05")
    finder.settle()
    assert "/usr/lib64/libcuda.so.580.95.05" in finder.mounts()

    driver.load("570.86.15")

    mounts = finder.mounts()
    assert "/usr/lib64/libcuda.so.570.86.15" in mounts
    assert "/usr/lib64/libcuda.so.580.95.05" not in mounts


def test_a_hook_program_that_is_written_over_in_place_is_asked_again(driver: Any, finder: Finder) -> None:
    hook = driver.add_hook()
    finder.settle()
    found = finder.find()
    assert (found.hook is not None, finder.find() is found) == (True, True)

    hook.write_bytes(b"nothing of use")

    assert finder.find().hook is None


def test_what_was_missing_is_found_by_the_next_call(driver: Any, finder: Finder) -> None:
    (driver.local / driver.libraries).rename(driver.local / "away")
    with pytest.raises(HardwareError):
        finder.find()

    (driver.local / "away").rename(driver.local / driver.libraries)

    assert finder.find().edits.mounts


def missing_library(driver: Any) -> None:
    (driver.local / driver.libraries / "libcuda.so.580.95.05").unlink()
    (driver.local / driver.libraries / "libcuda.so.1").unlink()


def unreadable(driver: Any) -> None:
    path = driver.local / driver.libraries / "libcuda.so.580.95.05"
    path.unlink()
    path.symlink_to(path.name)


def other_version(driver: Any) -> None:
    driver.load("570.86.15")


def two_versions(driver: Any) -> None:
    driver.install(version="570.86.15")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (driver.local / driver.libraries / name).unlink()


WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "no driver": (
        lambda driver: (driver.local / driver.libraries).rename(driver.local / "away"),
        (
            "libcuda.so.<version> and libnvidia-ml.so.<version> do not exist under /run/nvidia/driver on the node "
            "(looked in usr/lib64, usr/lib/x86_64-linux-gnu, usr/lib/aarch64-linux-gnu,"
        ),
    ),
    "one library missing": (
        missing_library,
        "libcuda.so.580.95.05 does not exist under /run/nvidia/driver on the node (looked in",
    ),
    "a library broken": (
        unreadable,
        (
            "the NVIDIA driver under /run/nvidia/driver on the node cannot be used "
            "(/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05: it leads to no file); install it anew"
        ),
    ),
    "upgraded, not reloaded": (
        other_version,
        (
            "libcuda.so.570.86.15 and libnvidia-ml.so.570.86.15 do not exist for the loaded kernel module under "
            "/run/nvidia/driver on the node, where libraries of 580.95.05 are; finish the upgrade of the driver, or "
            "reboot the node"
        ),
    ),
    "two versions": (
        two_versions,
        (
            "the NVIDIA driver under /run/nvidia/driver on the node is there in versions 570.86.15 and 580.95.05, and "
            "neither the kernel module nor libcuda.so.1 tells which one counts; remove the one that is not in use"
        ),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_driver_that_is_not_whole_is_refused_in_one_sentence(
    driver: Any, finder: Finder, what: str
) -> None:
    spoil, words = WRONG[what]
    spoil(driver)

    with pytest.raises(HardwareError) as raised:
        finder.find()

    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_root_that_does_not_exist_is_refused_by_its_name_on_the_host(driver: Any, tmp_path: Path) -> None:
    driver.local = tmp_path / "none"

    with pytest.raises(HardwareError, match="do not exist under /run/nvidia/driver on the node"):
        Finder(driver).find()


def test_files_go_into_the_spec_by_their_hosts_paths_wherever_the_plugin_sees_them(
    driver: Any, finder: Finder, tmp_path: Path
) -> None:
    driver.add_file("/usr/bin/nvidia-smi")

    assert [m.host_path for m in finder.find().edits.mounts if str(tmp_path) in m.host_path] == []
    assert {m.host_path.startswith("/run/nvidia/driver/") for m in finder.find().edits.mounts} == {True}

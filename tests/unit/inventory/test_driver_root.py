"""The fake driver root of a simulated node: what is in it, and what happens to what else is there."""

import ctypes
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dra_driver.cdi.ldcache import parse
from dra_driver.errors import UnavailableError, UsageError
from dra_driver.inventory import sysfs
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.faults import faults_file
from dra_driver.inventory.profile import Profile, load_profile, profile_names
from dra_driver.inventory.root_entries import Layout

LIBRARIES = "usr/lib/x86_64-linux-gnu"
MIG = """\
description: two GPUs, one of them cut
driver: {version: 580.95.05, cuda: 13.0}
defaults: {name: "NVIDIA 'quoted' $(name)"}
gpus:
  - {pci: 0000:17:00.0}
  - pci: 0000:31:00.0
    minor: 3
    root: pci0000:30
    mig: {table: a100-40, enabled: true, devices: [{profile: 1g.5gb, start: 4}]}
"""

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes the driver root of a profile, without device nodes unless told."""

    def make_root(profile: str | Profile = "dgx-a100-40", *, device_nodes: bool = False) -> Path:
        root = tmp_path / "root"
        found = load_profile(profile) if isinstance(profile, str) else profile
        make_driver_root(found, root, node_name="node-1", device_nodes=device_nodes)
        return root

    return make_root


@pytest.fixture
def mig_profile(tmp_path: Path) -> Profile:
    (tmp_path / "mig.yaml").write_text(MIG)
    return load_profile(tmp_path / "mig.yaml")


def snapshot(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Identity, mode, device and time of everything below `root`: equal if nothing was touched."""
    found = {str(path.relative_to(root)): path.lstat() for path in root.rglob("*")}
    return {name: (s.st_ino, s.st_mode, s.st_rdev, s.st_mtime_ns) for name, s in found.items()}


def test_libraries_carry_the_driver_version_and_are_found_by_soname(make: Make) -> None:
    libraries = make() / LIBRARIES
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4"):
        stem = name.partition(".so")[0]
        assert (libraries / name).resolve() == libraries.resolve() / f"{stem}.so.580.95.05"
        assert (libraries / name).is_file()
    assert (libraries / "libcuda.so").readlink() == Path("libcuda.so.1")
    assert (libraries / "vdpau/libvdpau_nvidia.so.1").readlink().name == "libvdpau_nvidia.so.580.95.05"


def test_no_link_in_the_root_is_dangling(make: Make) -> None:
    root = make()
    assert [str(path) for path in root.rglob("*") if path.is_symlink() and not path.exists()] == []


def test_the_root_is_small(make: Make) -> None:
    sizes = [path.lstat().st_size for path in make().rglob("*") if path.is_file()]
    assert sum(sizes) < 100_000


@pytest.mark.parametrize("name", profile_names())
def test_sysfs_tells_the_root_complex_and_numa_node_of_the_profile(make: Make, name: str) -> None:
    sys = make(name) / "sys"
    for gpu in load_profile(name).gpus:
        target = str((sys / "bus/pci/devices" / gpu.pci_address).readlink())
        assert re.findall(r"pci[0-9a-f]{4,}:[0-9a-f]{2}", target) == [gpu.pcie_root]
        assert target.endswith(f"/{gpu.pci_address}")
        assert sysfs.pcie_root(sys, gpu.pci_address) == gpu.pcie_root
        assert sysfs.numa_node(sys, gpu.pci_address) == gpu.numa_node
    assert sysfs.bound_gpus(sys) == {gpu.pci_address for gpu in load_profile(name).gpus}


def test_a_gpu_of_unknown_place_is_in_sysfs_without_one(make: Make, mig_profile: Profile) -> None:
    sys = make(mig_profile) / "sys"
    assert sysfs.present(sys, "0000:17:00.0")
    assert sysfs.pcie_root(sys, "0000:17:00.0") is None
    assert (sys / "bus/pci/devices/0000:17:00.0/numa_node").read_text() == "-1\n"


def test_sysfs_names_the_drm_nodes_that_dev_has(make: Make) -> None:
    root = make("t4")
    device = root / "sys/bus/pci/devices/0000:86:00.0"
    assert sorted(entry.name for entry in (device / "drm").iterdir()) == ["card1", "renderD129"]
    assert (root / "dev/dri/by-path/pci-0000:86:00.0-render").resolve().name == "renderD129"
    assert (device / "device").read_text() == "0x1eb8\n"


def test_proc_tells_the_driver_and_each_gpu(make: Make) -> None:
    proc = make("t4") / "proc"
    gpu = load_profile("t4").gpus_on("node-1")[2]
    assert "550.163.01" in (proc / "driver/nvidia/version").read_text()
    text = (proc / "driver/nvidia/gpus/0000:af:00.0/information").read_text()
    facts = {key: value.strip() for key, value in (line.split(":", 1) for line in text.splitlines())}
    assert facts["GPU UUID"] == gpu.uuid
    assert (facts["Model"], facts["Bus Location"], facts["Device Minor"]) == ("Tesla T4", "0000:af:00.0", "2")


def test_proc_lists_majors_of_the_experimental_range_only(make: Make) -> None:
    lines = (make() / "proc/devices").read_text().partition("\n\n")[0].splitlines()[1:]
    majors = {name: int(major) for major, name in (line.split() for line in lines)}
    assert set(majors) >= {"nvidia", "nvidiactl", "nvidia-uvm", "nvidia-caps", "nvidia-nvswitch"}
    assert all(240 <= major <= 254 for major in majors.values())


def test_capabilities_of_mig_devices_are_numbered_as_the_driver_does(
    make: Make, mig_profile: Profile
) -> None:
    proc = make(mig_profile) / "proc"
    # GPU 3, GPU instance 11: 3 + 3 * 135 + 11 * 9
    minors = (proc / "driver/nvidia-caps/mig-minors").read_text().splitlines()
    assert minors[:2] == ["config 1", "monitor 2"]
    assert {"gpu3/gi11/access 507", "gpu3/gi11/ci0/access 508"} <= set(minors)
    access = (proc / "driver/nvidia/capabilities/gpu3/mig/gi11/ci0/access").read_text()
    assert access == "DeviceFileMinor: 508\nDeviceFileMode: 292\nDeviceFileModify: 1\n"


def test_a_gpu_without_mig_has_no_capabilities(make: Make) -> None:
    root = make("t4")
    assert not (root / "proc/driver/nvidia/capabilities").exists()
    assert not (root / "dev/nvidia-caps").exists()


def test_nvidia_smi_lists_the_gpus_whose_nodes_are_there(make: Make, mig_profile: Profile) -> None:
    root = make(mig_profile)
    text = (root / "usr/bin/nvidia-smi").read_text().replace("/dev/", f"{root}/dev/")
    (root / "dev/nvidia0").unlink()
    output = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True).stdout
    assert output == f"GPU 1: NVIDIA 'quoted' $(name) (UUID: {mig_profile.gpus_on('node-1')[1].uuid})\n"


def test_programs_can_be_run(make: Make) -> None:
    for program in ("nvidia-smi", "nvidia-cuda-mps-control"):
        assert os.access(make() / "usr/bin" / program, os.X_OK)


NODES = {
    "t4": "nvidia0 nvidia1 nvidia2 nvidia3 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-modeset dri",
    "gb10": "nvidia0 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-modeset dri",
    "dgx-h100": "nvidia0 nvidia1 nvidia2 nvidia3 nvidia4 nvidia5 nvidia6 nvidia7 nvidiactl nvidia-uvm nvidia-uvm-tools "
    "nvidia-modeset dri nvidia-caps nvidia-nvswitch0 nvidia-nvswitch1 nvidia-nvswitch2 nvidia-nvswitch3 "
    "nvidia-nvswitchctl",
}


@pytest.mark.parametrize("name", NODES)
def test_dev_has_the_nodes_of_the_machine(make: Make, name: str) -> None:
    dev = make(name) / "dev"
    assert sorted(entry.name for entry in dev.iterdir()) == sorted(NODES[name].split())


def test_without_the_right_to_make_nodes_dev_has_empty_files(make: Make) -> None:
    node = make(device_nodes=False) / "dev/nvidia0"
    assert stat.S_ISREG(node.lstat().st_mode)
    assert (node.lstat().st_size, stat.S_IMODE(node.lstat().st_mode)) == (0, 0o666)


@pytest.mark.root
def test_root_gets_character_devices_that_lead_to_no_gpu(make: Make, mig_profile: Profile) -> None:
    root = make(mig_profile, device_nodes=True)
    nodes = [path for path in (root / "dev").rglob("*") if not path.is_symlink() and not path.is_dir()]
    assert all(stat.S_ISCHR(path.lstat().st_mode) for path in nodes)
    assert {os.major(path.lstat().st_rdev) for path in nodes} <= set(range(240, 255))
    assert [os.minor((root / f"dev/nvidia{n}").lstat().st_rdev) for n in ("0", "3", "ctl", "-modeset")] == [
        0,
        3,
        255,
        254,
    ]
    assert os.minor((root / "dev/nvidia-caps/nvidia-cap508").lstat().st_rdev) == 508


@pytest.mark.root
def test_device_numbers_agree_with_proc_devices(make: Make) -> None:
    root = make(device_nodes=True)
    text = (root / "proc/devices").read_text()
    for node, driver in {
        "nvidia0": "nvidia",
        "nvidia-uvm": "nvidia-uvm",
        "nvidia-caps/nvidia-cap1": "nvidia-caps",
    }.items():
        major = os.major((root / "dev" / node).lstat().st_rdev)
        assert f"{major:3} {driver}\n" in text


@pytest.mark.root
def test_a_major_that_the_kernel_uses_is_left_alone(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "devices").write_text(
        "Character devices:\n  1 mem\n240 hidraw\n242 bsg\n\nBlock devices:\n241 sd\n"
    )
    make_driver_root(load_profile("dgx-a100-40"), tmp_path / "root", node_name="n", proc=proc)
    nodes = [path for path in (tmp_path / "root/dev").rglob("*") if stat.S_ISCHR(path.lstat().st_mode)]
    assert {os.major(path.lstat().st_rdev) for path in nodes} == {241, 243, 244, 245, 246}


def test_where_the_kernel_uses_all_majors_dev_has_empty_files(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    taken = "".join(f"{major} busy\n" for major in range(240, 255))
    (proc / "devices").write_text(f"Character devices:\n{taken}\nBlock devices:\n")
    make_driver_root(load_profile("t4"), tmp_path / "root", node_name="n", proc=proc)
    assert stat.S_ISREG((tmp_path / "root/dev/nvidia0").lstat().st_mode)


@pytest.mark.root
@pytest.mark.parametrize("device_nodes", [False, True])
def test_a_restart_touches_nothing(make: Make, device_nodes: bool) -> None:
    before = snapshot(make(device_nodes=device_nodes))
    assert snapshot(make(device_nodes=device_nodes)) == before


def test_what_was_changed_by_hand_is_put_right(make: Make) -> None:
    root = make()
    before = {name: mode for name, (_, mode, _, _) in snapshot(root).items()}
    (root / "dev/nvidia0").unlink()
    (root / "dev/nvidia1").chmod(0o600)
    (root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\nexit 1\n")
    (root / "usr/bin/intruder").touch()
    shutil.rmtree(root / "proc")
    (root / "proc").touch()
    (root / LIBRARIES / "libcuda.so.1").unlink()
    (root / LIBRARIES / "libcuda.so.1").mkdir()
    make()
    assert {name: mode for name, (_, mode, _, _) in snapshot(root).items()} == before
    assert "Stands in for nvidia-smi" in (root / "usr/bin/nvidia-smi").read_text()


def test_another_profile_replaces_the_root_of_the_first(make: Make, tmp_path: Path) -> None:
    make("dgx-h100")
    root = make("t4")
    make_driver_root(load_profile("t4"), tmp_path / "fresh", node_name="node-1", device_nodes=False)
    assert set(snapshot(root)) == set(snapshot(tmp_path / "fresh"))


def test_faults_survive_a_restart(make: Make) -> None:
    faults_file(make()).write_text("nvml: unavailable\n")
    assert faults_file(make("t4")).read_text() == "nvml: unavailable\n"


def test_links_out_of_the_root_are_removed_and_never_followed(make: Make, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "lib").mkdir(parents=True)
    (precious / "lib/keep").write_text("kept")
    root = make()
    shutil.rmtree(root / "usr")
    (root / "usr").symlink_to(precious)
    shutil.rmtree(root / "simulated")
    (root / "simulated").symlink_to(precious)
    make()
    assert [str(path.relative_to(precious)) for path in precious.rglob("*")] == ["lib", "lib/keep"]
    assert not (root / "usr").is_symlink()
    assert not (root / "simulated").is_symlink()


def test_a_directory_with_other_content_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    with pytest.raises(
        UsageError, match=r"is not empty and was not made for simulated GPUs; give --driver-root an"
    ):
        make_driver_root(load_profile("t4"), tmp_path, node_name="n")
    assert [path.name for path in tmp_path.iterdir()] == ["etc"]


def test_the_root_of_the_machine_is_refused() -> None:
    with pytest.raises(UsageError, match="the driver root / is not empty"):
        make_driver_root(load_profile("t4"), Path("/"), node_name="n")


def test_a_file_in_place_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    with pytest.raises(UsageError, match="is no directory; give another --driver-root"):
        make_driver_root(load_profile("t4"), tmp_path / "root", node_name="n")


def test_a_start_that_was_killed_early_is_taken_up(make: Make, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()  # killed before the marker
    root = make()
    shutil.rmtree(root / "sys")  # killed in the middle
    (root / "usr/bin/nvidia-smi").write_text("#!/bin")
    (root / ".probe").touch()
    make()
    assert (root / "sys/module/nvidia/version").read_text() == "580.95.05\n"
    assert not (root / ".probe").exists()


def test_a_file_system_that_refuses_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        UnavailableError, match=r"the simulated driver root .* cannot be made: .*Not a directory"
    ):
        make_driver_root(load_profile("t4"), tmp_path / "file" / "root", node_name="n")


@pytest.mark.parametrize(
    ("profile", "directory", "machine"),
    [
        ("l4", "x86_64-linux-gnu", 62),
        ("gb10", "aarch64-linux-gnu", 183),
        ("gb200-nvl72", "aarch64-linux-gnu", 183),
    ],
)
def test_libraries_are_those_of_the_machines_processor(
    make: Make, profile: str, directory: str, machine: int
) -> None:
    root = make(profile)
    assert os.listdir(root / "usr/lib") == [directory]
    libraries = [path for path in (root / "usr/lib" / directory).rglob("*.so*") if not path.is_symlink()]
    assert {path.read_bytes()[18] for path in libraries} == {machine}


def test_no_library_can_be_loaded_by_mistake(make: Make) -> None:
    library = make() / LIBRARIES / "libcuda.so.580.95.05"
    with pytest.raises(OSError, match=r"ELF file OS ABI invalid|cannot open shared object file"):
        ctypes.CDLL(str(library))


def test_the_loaders_cache_names_libraries_that_exist(make: Make) -> None:
    root = make()
    entries = parse((root / "etc/ld.so.cache").read_bytes()).entries
    assert {
        ("libcuda.so.1", f"/{LIBRARIES}/libcuda.so.1"),
        ("libnvidia-ml.so.1", f"/{LIBRARIES}/libnvidia-ml.so.1"),
    } <= set(entries)
    assert [path for _, path in entries if not (root / path.lstrip("/")).is_file()] == []


def test_how_the_driver_was_installed_is_a_choice(tmp_path: Path) -> None:
    found = {}
    for name, layout in (("plain", Layout()), ("other", Layout(loader_cache=False, cdi_hook=True))):
        make_driver_root(
            load_profile("l4"), tmp_path / name, node_name="n", device_nodes=False, layout=layout
        )
        paths = ("etc/ld.so.cache", "usr/bin/nvidia-cdi-hook")
        found[name] = [(tmp_path / name / path).is_file() for path in paths]
    assert found == {"plain": [True, False], "other": [False, True]}


@pytest.mark.root
def test_gpus_may_be_those_of_a_group(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for _ in range(2):
        made = make_driver_root(
            load_profile("l4"), root, node_name="n", device_nodes=True, layout=Layout(device_gid=1234)
        )
    found = {name: (root / "dev" / name).lstat() for name in ("nvidia0", "nvidiactl", "nvidia-uvm")}
    assert {name: (s.st_gid, stat.S_IMODE(s.st_mode)) for name, s in found.items()} == {
        "nvidia0": (1234, 0o660),
        "nvidiactl": (1234, 0o660),
        "nvidia-uvm": (0, 0o666),
    }
    assert made


def test_the_caller_is_told_whether_there_are_device_nodes(tmp_path: Path) -> None:
    assert not make_driver_root(load_profile("l4"), tmp_path / "root", node_name="n", device_nodes=False)


def test_what_a_gpu_is_cut_into_stays_since_another_process_may_be_cutting_it(tmp_path: Path) -> None:
    def make() -> None:
        make_driver_root(load_profile("dgx-a100-40"), tmp_path / "root", node_name="n", device_nodes=False)

    make()
    access = tmp_path / "root/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access"
    access.parent.mkdir(parents=True)
    access.write_text("DeviceFileMinor: 12\n")

    make()

    assert access.exists()

"""The whole CDI spec of a claim on each simulated node, against files that people have read.

`tests/golden/cdi/` has a spec per kind of node, one node or mount a line, with `<root>` for the driver root. What must be
in them is written down here a second time, by hand and from the rules, so that a mistake that is in both the driver and
the files does not pass. After a change that is meant: `GOLDEN=write pytest tests/integration/test_golden_specs.py`,
then read the difference.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from dra_driver.cdi import registry
from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.cdi.store import SpecStore
from dra_driver.devices.build import build_devices
from dra_driver.devices.snapshot import Snapshot
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.profile import Profile, load_profile, profile_names
from dra_driver.inventory.root_entries import DEFAULT_LAYOUT, Layout
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, RecordStore

GOLDEN = Path(__file__).parent.parent / "golden/cdi"
DRIVER, POOL, UID = "gpu.nvidia.com", "node-a/gpu", "0a1b2c3d-0000-4000-8000-000000000001"
MIG_PROFILE = """\
description: A node with one GPU that is cut in two
driver: {version: 580.95.05, cuda: 13.0}
defaults:
  name: NVIDIA A100-SXM4-40GB
  architecture: Ampere
  computeCapability: 8.0
  memoryMiB: 40960
gpus:
  - pci: 0000:07:00.0
    mig: {table: a100-40, enabled: true, devices: [{profile: 1g.5gb, start: 4}, {profile: 3g.20gb, start: 0}]}
"""
# Profile -> node of its first GPU by PCI address, driver version, directory of libraries on Debian.
NODES = {
    "a100-pcie-bridges": (0, "580.95.05", "x86_64-linux-gnu"),
    "dgx-a100-40": (0, "580.95.05", "x86_64-linux-gnu"),
    "dgx-a100-80": (0, "580.95.05", "x86_64-linux-gnu"),
    "dgx-b200": (0, "580.95.05", "x86_64-linux-gnu"),
    "dgx-h100": (0, "580.95.05", "x86_64-linux-gnu"),
    "gb10": (0, "580.95.05", "aarch64-linux-gnu"),
    "gb200-nvl72": (0, "580.95.05", "aarch64-linux-gnu"),
    "hgx-h200": (0, "570.133.20", "x86_64-linux-gnu"),
    "l4": (0, "580.126.20", "x86_64-linux-gnu"),
    "l40s": (0, "580.95.05", "x86_64-linux-gnu"),
    "rtx-pro-6000": (0, "580.95.05", "x86_64-linux-gnu"),
    "t4": (0, "550.163.01", "x86_64-linux-gnu"),
}
CONTROL = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"]
# What programs ask the loader for: CUDA, NVML, video, OpenCL, OptiX, OpenGL, EGL, Vulkan, VDPAU, GBM.
ASKED_FOR = [
    "libcuda.so",
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-nvvm.so.4",
    "libcudadebugger.so.1",
    "libnvcuvid.so.1",
    "libnvidia-encode.so.1",
    "libnvidia-opticalflow.so",
    "libnvidia-opticalflow.so.1",
    "libnvidia-opencl.so.1",
    "libnvoptix.so.1",
    "libEGL_nvidia.so.0",
    "libGLESv2_nvidia.so.2",
    "libGLX_nvidia.so.0",
    "libGLX_indirect.so.0",
    "libnvidia-egl-gbm.so.1",
    "libnvidia-egl-wayland.so.1",
    "vdpau/libvdpau_nvidia.so.1",
    "gbm/nvidia-drm_gbm.so",
]
# What libraries of the driver open by their full names, which end in its version.
OPENED_BY_VERSION = [
    "libnvidia-glcore",
    "libnvidia-eglcore",
    "libnvidia-rtcore",
    "libnvidia-gpucomp",
    "libnvidia-tls",
]
PROGRAMS = [
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
]
CONFIGURATION = [
    "/etc/OpenCL/vendors/nvidia.icd",
    "/etc/vulkan/icd.d/nvidia_icd.json",
    "/usr/share/X11/xorg.conf.d/nvidia-drm-outputclass.conf",
    "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "/usr/share/nvidia/nvoptix.bin",
]


def whole_node(root: Path) -> tuple[Root, Root]:
    """The driver's root and the host's: all of a simulated node is below one directory."""
    both = Root(PurePosixPath(root), root, PLACEHOLDERS)
    return both, both


def driver_container(root: Path) -> tuple[Root, Root]:
    """The GPU Operator's, with its toolkit; the daemons run in the container, and somebody's MPS on the host."""
    driver = root / "run/nvidia/driver"
    driver.mkdir(parents=True)
    for name in ("usr", "lib", "etc", "dev"):
        (root / name).rename(driver / name)
    toolkit = root / "usr/local/nvidia/toolkit"
    toolkit.mkdir(parents=True)
    for name in ("nvidia-cdi-hook", "nvidia-cdi-hook.real"):
        (toolkit / name).write_text(
            "create-symlinks update-ldcache" if name.endswith(".real") else "a wrapper"
        )
        (toolkit / name).chmod(0o755)
    for name in ("nvidia-persistenced", "nvidia-fabricmanager"):
        (driver / "run" / name).mkdir(parents=True)
        os.mknod(driver / "run" / name / "socket", stat.S_IFSOCK | 0o666)
    (root / "tmp/nvidia-mps").mkdir(parents=True)
    return Root(PurePosixPath("/run/nvidia/driver"), driver, PLACEHOLDERS), _host(root)


def gke(root: Path) -> tuple[Root, Root]:
    """Libraries, programs and firmware in a directory of their own, and all else is the host's."""
    driver = root / "home/kubernetes/bin/nvidia"
    driver.mkdir(parents=True)
    for name, place in (
        ("usr/lib/x86_64-linux-gnu", "lib64"),
        ("usr/bin", "bin"),
        ("lib/firmware", "firmware"),
        ("etc/vulkan", "vulkan"),
    ):
        (root / name).rename(driver / place)
    told = root / "sys/module/firmware_class/parameters/path"
    told.parent.mkdir(parents=True)
    told.write_text("/home/kubernetes/bin/nvidia/firmware\n")
    return Root(PurePosixPath("/home/kubernetes/bin/nvidia"), driver, PLACEHOLDERS), _host(root)


def _host(root: Path) -> Root:
    return Root(PurePosixPath("/"), root, PLACEHOLDERS)


class Prepared:
    """A claim for some devices of a simulated node, prepared; `spec` is what a runtime reads of it."""

    def __init__(
        self,
        profile: Profile,
        path: Path,
        *,
        count: int = 1,
        layout: Layout = DEFAULT_LAYOUT,
        arrange: Callable[[Path], tuple[Root, Root]] = whole_node,
        admin: bool = False,
    ) -> None:
        self.root = path / "root"
        kernel = path / "kernel"  # one without drivers, so that majors are the same on every machine
        kernel.mkdir()
        (kernel / "devices").write_text("Character devices:\n\nBlock devices:\n")
        make_driver_root(
            profile, self.root, node_name="node-a", device_nodes=False, layout=layout, proc=kernel
        )
        inventory = SimulatedBackend(profile, "node-a").scan()
        self.devices = build_devices(inventory)
        names = sorted(device.name for device in self.devices)[:count]
        result = {"request": "gpu", "driver": DRIVER, "pool": POOL} | ({"adminAccess": True} if admin else {})
        self._results = [{**result, "device": name} for name in names]
        driver, host = arrange(self.root)
        self.specs = SpecStore(path / "cdi", DRIVER)
        self.metadata = path / "metadata"
        engine = Engine(
            driver_name=DRIVER,
            pool_name=POOL,
            claims=self,
            hardware=lambda: Snapshot(inventory, self.devices),
            edits=DriverEdits(driver, host=host, proc=self.root / "proc", sysfs=self.root / "sys"),
            records=RecordStore(path / "claims", boot_id="boot"),
            specs=self.specs,
            metadata=MetadataStore(self.metadata, DRIVER),
        )
        self.cdi_ids = [
            cdi_id
            for device in engine.prepare(ClaimRef("default", "claim", UID))
            for cdi_id in device.cdi_ids
        ]
        self.spec: dict[str, Any] = json.loads(self.specs.path(UID).read_bytes())

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        return {
            "metadata": {"namespace": namespace, "name": name, "uid": UID},
            "status": {"allocation": {"devices": {"results": self._results}}},
        }

    @property
    def own_nodes(self) -> list[str]:
        (device,) = self.spec["devices"]
        return [node["path"] for node in device["containerEdits"]["deviceNodes"]]

    @property
    def common(self) -> dict[str, Any]:
        edits: dict[str, Any] = self.spec["containerEdits"]
        return edits

    def mounts(self) -> dict[str, str]:
        return {mount["containerPath"]: mount["hostPath"] for mount in self.common["mounts"]}

    def golden(self) -> str:
        """The spec for people: one node or mount a line."""
        text = "".join(_lines(self.spec, ""))
        return text.replace(str(self.root), "<root>").replace(str(self.metadata), "<metadata>")


def _lines(value: Any, indent: str) -> Iterator[str]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield f"{indent}{key}:\n"
            yield from _lines(item, f"{indent}  ")
        elif isinstance(item, list) and key == "devices":
            yield f"{indent}{key}:\n"
            for device in item:
                yield f"{indent}- name: {device['name']}\n"
                yield from _lines({k: v for k, v in device.items() if k != "name"}, f"{indent}  ")
        elif isinstance(item, list):
            yield f"{indent}{key}:\n"
            yield from (f"{indent}- {_flow(entry)}\n" for entry in item)
        else:
            yield f"{indent}{key}: {_flow(item)}\n"


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("...\n").strip()


@pytest.fixture
def mig(tmp_path: Path) -> Profile:
    (tmp_path / "mig.yaml").write_text(MIG_PROFILE)
    return load_profile(tmp_path / "mig.yaml")


def check(prepared: Prepared, name: str) -> None:
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(prepared.golden())
    assert prepared.golden() == path.read_text()


@pytest.mark.parametrize("profile", profile_names())
def test_the_spec_of_a_gpu_is_the_one_in_the_files(profile: str, tmp_path: Path) -> None:
    check(Prepared(load_profile(profile), tmp_path), profile)


def test_the_spec_of_two_gpus_with_the_hook_program_is_the_one_in_the_files(tmp_path: Path) -> None:
    layout = Layout(cdi_hook=True, loader_cache=False)
    check(
        Prepared(load_profile("dgx-h100"), tmp_path, count=2, layout=layout), "dgx-h100-two-gpus-with-hooks"
    )


def test_the_spec_of_a_mig_device_is_the_one_in_the_files(mig: Profile, tmp_path: Path) -> None:
    check(Prepared(mig, tmp_path), "a100-mig-device")


def test_the_spec_of_a_driver_container_for_monitoring_is_the_one_in_the_files(tmp_path: Path) -> None:
    profile = load_profile("dgx-h100")
    check(
        Prepared(profile, tmp_path, arrange=driver_container, admin=True),
        "dgx-h100-driver-container-monitoring",
    )


def test_the_spec_on_gke_is_the_one_in_the_files(tmp_path: Path) -> None:
    check(Prepared(load_profile("l4"), tmp_path, arrange=gke), "l4-gke")


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.stem)
def test_a_file_is_a_spec_that_runtimes_take(path: Path) -> None:
    assert registry.read_spec(path)["kind"] == f"k8s.{DRIVER}/claim"


def test_there_is_no_file_without_a_test() -> None:
    expected = {
        *profile_names(),
        "dgx-h100-two-gpus-with-hooks",
        "dgx-h100-driver-container-monitoring",
        "l4-gke",
        "a100-mig-device",
    }
    assert {path.stem for path in GOLDEN.iterdir()} == expected


@pytest.mark.parametrize("profile", NODES)
def test_a_container_gets_its_gpu_and_the_control_nodes_and_no_other(profile: str, tmp_path: Path) -> None:
    number, _, _ = NODES[profile]
    prepared = Prepared(load_profile(profile), tmp_path)

    assert prepared.own_nodes == [
        f"/dev/nvidia{number}",
        f"/dev/dri/card{number}",
        f"/dev/dri/renderD{128 + number}",
    ]
    assert [node["path"] for node in prepared.common["deviceNodes"]] == CONTROL
    assert prepared.common["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]


@pytest.mark.parametrize("profile", NODES)
def test_a_container_finds_all_that_programs_ask_for_in_both_places(profile: str, tmp_path: Path) -> None:
    _, version, triplet = NODES[profile]
    prepared = Prepared(load_profile(profile), tmp_path)

    mounts = prepared.mounts()

    libraries = ASKED_FOR + [f"{name}.so.{version}" for name in OPENED_BY_VERSION]
    expected = [f"{place}/{name}" for place in ("/usr/lib64", f"/usr/lib/{triplet}") for name in libraries]
    expected += CONFIGURATION + [f"/usr/bin/{program}" for program in PROGRAMS]
    expected += [f"/lib/firmware/nvidia/{version}/{name}" for name in ("gsp_ga10x.bin", "gsp_tu10x.bin")]
    assert [path for path in expected if path not in mounts] == []


@pytest.mark.parametrize("profile", NODES)
def test_specs_keep_the_rules_that_hold_for_all_of_them(profile: str, tmp_path: Path) -> None:
    _, version, triplet = NODES[profile]
    prepared = Prepared(load_profile(profile), tmp_path)

    mounts = prepared.mounts()

    assert len(mounts) == len(prepared.common["mounts"])  # nothing twice
    for path, host_path in mounts.items():
        assert host_path.startswith(f"{prepared.root}/")
        assert Path(host_path).is_file()
        assert not Path(host_path).is_symlink()
        twin = path.replace("/usr/lib64/", f"/usr/lib/{triplet}/")
        assert mounts[twin] == host_path
        # A name with a version is that of the file, so that no library is another's double.
        assert version not in path or PurePosixPath(path).name == PurePosixPath(host_path).name
    assert {tuple(mount["options"]) for mount in prepared.common["mounts"]} == {
        ("ro", "nosuid", "nodev", "rbind", "rprivate")
    }
    assert prepared.spec["cdiVersion"] == "0.5.0"  # for names that start with a digit, and host paths
    assert "LD_LIBRARY_PATH" not in prepared.golden()


@pytest.mark.parametrize("profile", NODES)
def test_runtimes_find_what_the_kubelet_is_told(profile: str, tmp_path: Path) -> None:
    prepared = Prepared(load_profile(profile), tmp_path)

    found = registry.load([prepared.specs.directory])

    assert (sorted(found.devices), found.problems) == (prepared.cdi_ids, {})


def test_with_the_hook_program_libraries_are_mounted_once_and_links_are_its_work(tmp_path: Path) -> None:
    layout = Layout(cdi_hook=True)
    prepared = Prepared(load_profile("gb200-nvl72"), tmp_path, layout=layout)

    mounts = prepared.mounts()
    (links, *_) = prepared.common["hooks"]

    directory = "/usr/lib/aarch64-linux-gnu"
    assert [path for path in mounts if path.startswith("/usr/lib64")] == []
    assert [name for name in ASKED_FOR if f"{directory}/{name}" in mounts] == []
    made = {argument.partition("::")[2] for argument in links["args"]}
    assert [name for name in ASKED_FOR if f"{directory}/{name}" not in made] == []
    assert [hook["args"][1] for hook in prepared.common["hooks"]] == [
        "create-symlinks",
        "enable-cuda-compat",
        "update-ldcache",
        "disable-device-node-modification",
    ]
    assert {hook["path"] for hook in prepared.common["hooks"]} == {f"{prepared.root}/usr/bin/nvidia-cdi-hook"}


def test_a_mig_device_opens_its_own_instances_of_its_gpu(mig: Profile, tmp_path: Path) -> None:
    prepared = Prepared(mig, tmp_path)

    # The driver's numbering: 3 + 9 for each GPU instance before this one, and the compute instance follows.
    (parent, instance, compute) = prepared.spec["devices"][0]["containerEdits"]["deviceNodes"]
    first = instance["minor"]
    assert parent["path"] == "/dev/nvidia0"
    assert ((first - 3) % 9, compute["minor"]) == (0, first + 1)
    assert instance["path"] == f"/dev/nvidia-caps/nvidia-cap{first}"
    assert {(node["type"], node["fileMode"]) for node in (instance, compute)} == {("c", 0o444)}


def test_in_a_driver_container_every_path_is_the_hosts_and_daemons_can_be_written_to(tmp_path: Path) -> None:
    prepared = Prepared(load_profile("dgx-h100"), tmp_path, arrange=driver_container, admin=True)
    nodes = prepared.common["deviceNodes"] + prepared.spec["devices"][0]["containerEdits"]["deviceNodes"]
    writable = {
        m["containerPath"]: m["hostPath"] for m in prepared.common["mounts"] if "ro" not in m["options"]
    }

    assert {f"/run/nvidia/driver{node['path']}" for node in nodes} == {node["hostPath"] for node in nodes}
    assert writable == {
        "/run/nvidia-persistenced/socket": "/run/nvidia/driver/run/nvidia-persistenced/socket",
        "/run/nvidia-fabricmanager/socket": "/run/nvidia/driver/run/nvidia-fabricmanager/socket",
        "/tmp/nvidia-mps": "/tmp/nvidia-mps",
    }
    assert [f"/dev/nvidia-nvswitch{name}" for name in ("0", "1", "2", "3", "ctl")] == prepared.own_nodes[-5:]
    assert {hook["path"] for hook in prepared.common["hooks"]} == {
        "/usr/local/nvidia/toolkit/nvidia-cdi-hook"
    }
    assert str(tmp_path) not in prepared.golden()


def test_on_gke_files_are_of_the_drivers_directory_and_nodes_of_the_host(tmp_path: Path) -> None:
    prepared = Prepared(load_profile("l4"), tmp_path, arrange=gke)

    mounts = prepared.mounts()

    base = "/home/kubernetes/bin/nvidia"
    assert {path.removeprefix(f"{base}/").partition("/")[0] for path in mounts.values()} == {
        "lib64",
        "bin",
        "firmware",
        "vulkan",
    }
    assert mounts["/etc/vulkan/icd.d/nvidia_icd.json"] == f"{base}/vulkan/icd.d/nvidia_icd.json"
    assert mounts["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] == f"{base}/lib64/libcuda.so.580.126.20"
    assert mounts["/usr/bin/nvidia-smi"] == f"{base}/bin/nvidia-smi"
    assert [node for node in prepared.common["deviceNodes"] if "hostPath" in node] == []

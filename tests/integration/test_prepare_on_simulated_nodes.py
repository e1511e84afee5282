"""Every device that a simulated node publishes can be prepared, survives a restart, and is free afterwards."""

import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.cdi.store import SpecStore
from dra_driver.cdi.validate import validate
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import DeviceSet
from dra_driver.devices.snapshot import Snapshot
from dra_driver.errors import HardwareError
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.profile import Profile, load_profile, profile_names
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, RecordStore

DRIVER, POOL = "gpu.nvidia.com", "node-a/gpu"
MIG_PROFILE = """\
description: A node with one GPU that is cut in three, and one that is whole
driver: {version: 580.95.05, cuda: 13.0}
defaults:
  name: NVIDIA A100-SXM4-40GB
  architecture: Ampere
  computeCapability: 8.0
  memoryMiB: 40960
gpus:
  - pci: 0000:07:00.0
    mig:
      table: a100-40
      enabled: true
      devices: [{profile: 1g.5gb, start: 4}, {profile: 1g.5gb, start: 5}, {profile: 3g.20gb, start: 0}]
  - {pci: 0000:0f:00.0}
"""


class Plugin:
    """The parts of a node plugin that prepare claims, on a simulated node; every device has a claim of its own."""

    def __init__(self, profile: Profile, path: Path) -> None:
        self.path = path
        self.root = path / "root"
        make_driver_root(profile, self.root, node_name="node-a", device_nodes=False)
        self.backend = SimulatedBackend(profile, "node-a", driver_root=self.root)
        self.inventory = self.backend.scan()
        self.devices = build_devices(self.inventory)
        self.start()

    def start(self) -> None:
        local = Root(PurePosixPath(self.root), self.root, PLACEHOLDERS)
        self.engine = Engine(
            driver_name=DRIVER,
            pool_name=POOL,
            claims=self,
            hardware=lambda: Snapshot(self.inventory, self.devices),
            edits=DriverEdits(local, host=local, proc=self.root / "proc", sysfs=self.root / "sys"),
            records=RecordStore(self.path / "claims", boot_id="boot"),
            specs=SpecStore(self.path / "cdi", DRIVER),
            metadata=MetadataStore(self.path / "metadata", DRIVER),
        )
        self.engine.restore()

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        results = [{"request": "gpu", "driver": DRIVER, "pool": POOL, "device": name}]
        return {
            "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}"},
            "status": {"allocation": {"devices": {"results": results}}},
        }

    def refs(self) -> list[ClaimRef]:
        return [ClaimRef("default", device.name, f"uid-{device.name}") for device in self.devices]

    def specs(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in sorted((self.path / "cdi").iterdir())]


def own_nodes(spec: dict[str, Any]) -> tuple[str, ...]:
    """The device nodes of a claim's one device."""
    (device,) = spec["devices"]
    return tuple(node["path"] for node in device["containerEdits"]["deviceNodes"])


@pytest.mark.parametrize("profile", profile_names())
def test_all_devices_of_a_node(profile: str, tmp_path: Path) -> None:
    plugin = Plugin(load_profile(profile), tmp_path)
    refs = plugin.refs()
    answers = [plugin.engine.prepare(ref) for ref in refs]

    plugin.start()

    assert [plugin.engine.prepare(ref) for ref in refs] == answers
    assert build_devices(plugin.inventory, plugin.engine.held()) == plugin.devices
    specs = plugin.specs()
    assert [problem for spec in specs for problem in validate(spec)] == []
    assert len({own_nodes(spec) for spec in specs}) == len(plugin.inventory.gpus)
    for ref in refs:
        plugin.engine.unprepare(ref)
    assert plugin.specs() == []


@pytest.fixture
def cut(tmp_path: Path) -> Plugin:
    profile = tmp_path / "cut.yaml"
    profile.write_text(MIG_PROFILE)
    return Plugin(load_profile(profile), tmp_path)


def test_mig_devices_share_their_parents_node_and_no_capability(cut: Plugin) -> None:
    for ref in cut.refs():
        cut.engine.prepare(ref)

    nodes = [own_nodes(spec) for spec in cut.specs()]

    assert sorted(paths[0] for paths in nodes) == ["/dev/nvidia0"] * 3 + ["/dev/nvidia1"]
    capabilities = [path for paths in nodes for path in paths if "nvidia-caps" in path]
    assert (len(capabilities), len(set(capabilities))) == (6, 6)
    assert [problem for spec in cut.specs() for problem in validate(spec)] == []


def test_a_lost_gpu_stays_published_while_held_and_its_claim_can_be_unprepared(cut: Plugin) -> None:
    for ref in cut.refs():
        cut.engine.prepare(ref)
    names = {device.name for device in cut.devices}
    cut.inventory = type(cut.inventory)(available=True, gpus=cut.inventory.gpus[1:])
    cut.devices = build_devices(cut.inventory, cut.engine.held())

    assert {device.name for device in cut.devices} == names
    lost = [ref for ref in cut.refs() if "-mig-" in ref.name]
    with pytest.raises(HardwareError, match="is gone from the node"):
        cut.engine.prepare(lost[0])
    for ref in lost:
        cut.engine.unprepare(ref)
    cut.devices = build_devices(cut.inventory, cut.engine.held())
    assert {device.name for device in cut.devices} == {"gpu-0000-0f-00-0"}


def test_without_any_driver_the_devices_of_held_claims_can_be_given_back(cut: Plugin) -> None:
    refs = cut.refs()
    for ref in refs:
        cut.engine.prepare(ref)
    cut.inventory, cut.devices = type(cut.inventory)(available=False), DeviceSet()
    cut.start()

    for ref in refs:
        cut.engine.unprepare(ref)

    assert (cut.specs(), cut.engine.held()) == ([], ())

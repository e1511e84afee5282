"""MPS on MIG devices: those that exist, and those that are made for the claim."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import dra_driver.files
from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.cdi.store import SpecStore
from dra_driver.config.node import MigMode, NodeConfig
from dra_driver.devices.build import build_devices
from dra_driver.devices.snapshot import Snapshot
from dra_driver.files import Files
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.partitions.mig_device import MigDevices
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, RecordStore
from dra_driver.sharing.programs import DriverPrograms
from dra_driver.sharing.sharing import NodeSharing
from dra_driver.sharing.supervisor import SupervisorProcess
from tests.integration.killing import Killed, KillingFiles

DRIVER, POOL = "gpu.nvidia.com", "node-a/gpu"
PROFILE = """\
description: A node with one GPU that is cut on demand, or in two
driver: {version: 580.95.05, cuda: 13.0}
defaults: {name: NVIDIA H100 80GB HBM3, architecture: Hopper, computeCapability: 9.0, memoryMiB: 81559}
gpus:
  - pci: 0000:1b:00.0
    mig: {table: h100-80MIG}
"""
STATIC = ", enabled: true, devices: [{profile: 1g.10gb, start: 0}, {profile: 1g.10gb, start: 1}]"
MPS = {
    "source": "FromClaim",
    "requests": [],
    "opaque": {
        "driver": DRIVER,
        "parameters": {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "MigDeviceConfig",
            "sharing": {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "2Gi"}},
        },
    },
}


class Node:
    """The parts of a plugin that prepare claims, a supervisor beside it, and one claim."""

    def __init__(self, path: Path, mode: MigMode) -> None:
        self.path, self.root, self.mps = path, path / "root", path / "mps"
        file = path / "profile.yaml"
        file.write_text(PROFILE.replace("MIG", STATIC if mode is MigMode.STATIC else ""))
        profile = load_profile(file)
        make_driver_root(profile, self.root, node_name="node-a", device_nodes=False)
        self._profile, self._mode = profile, mode
        self.start()

    def start(self, files: Files = dra_driver.files) -> None:
        """A new process of the plugin."""
        profile, mode, path = self._profile, self._mode, self.path
        self.backend = SimulatedBackend(profile, "node-a", driver_root=self.root, files=files)
        self.devices = build_devices(self.backend.scan(), node=NodeConfig(mode))
        managed = {gpu.uuid: False for gpu in profile.gpus_on("node-a")} if mode is MigMode.DYNAMIC else {}
        local = Root(PurePosixPath(self.root), self.root, PLACEHOLDERS)
        self.engine = Engine(
            driver_name=DRIVER,
            pool_name=POOL,
            claims=self,
            hardware=lambda: Snapshot(self.backend.scan(), self.devices),
            edits=DriverEdits(local, host=local, proc=self.root / "proc", sysfs=self.root / "sys"),
            records=RecordStore(path / "claims", boot_id="boot", files=files),
            specs=SpecStore(path / "cdi", DRIVER, files=files),
            metadata=MetadataStore(path / "metadata", DRIVER, files=files),
            partitions=MigDevices(self.backend.mig, lambda: managed, lambda: None),
            sharing=NodeSharing(DriverPrograms(lambda: self.root, simulated=True), self.mps),
        )
        self.engine.restore()

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        small = [device.name for device in self.devices if "-mig-1g-10gb-19-" in device.name][:2]
        results = [
            {"request": f"r{number}", "driver": DRIVER, "pool": POOL, "device": device}
            for number, device in enumerate(small)
        ]
        return {
            "metadata": {"namespace": namespace, "name": name, "uid": "uid"},
            "status": {"allocation": {"devices": {"results": results, "config": [MPS]}}},
        }

    def pipes(self) -> list[str]:
        """Where the devices of the claim have their daemons' pipes."""
        (file,) = (self.path / "cdi").iterdir()
        mounts = [device["containerEdits"]["mounts"] for device in json.loads(file.read_bytes())["devices"]]
        return [m["hostPath"] for each in mounts for m in each if m["containerPath"] == "/tmp/nvidia-mps"]

    def uuids(self) -> list[str]:
        (gpu,) = self.backend.scan().gpus
        return [] if gpu.mig is None else [device.uuid for device in gpu.mig.devices]


@pytest.fixture(params=[MigMode.STATIC, MigMode.DYNAMIC])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    path = Path(tempfile.mkdtemp(prefix="dra-"))
    supervisor = SupervisorProcess(path / "mps", shm_bytes=1 << 20)
    supervisor.start()
    node = Node(path, request.param)
    yield node
    node.engine.unprepare(ClaimRef("team", "a", "uid"))
    supervisor.stop()
    shutil.rmtree(path)


def test_each_mig_device_has_a_daemon_of_its_own_that_ends_with_the_claim(node: Node) -> None:
    before, ref = node.uuids(), ClaimRef("team", "a", "uid")

    node.engine.prepare(ref)

    served = [(Path(pipe) / "devices").read_text().strip() for pipe in node.pipes()]
    assert 2 == len(set(served))
    assert set(served) <= set(node.uuids())
    limits = {(Path(pipe) / "limits").read_text().strip() for pipe in node.pipes()}
    assert {f"{uuid}=2048M" for uuid in served} == limits
    assert not list((node.root / "simulated").glob("compute-mode.*"))

    node.engine.unprepare(ref)

    assert (before, []) == (node.uuids(), [path.name for path in node.mps.iterdir() if path.is_dir()])


@pytest.mark.parametrize("node", [MigMode.DYNAMIC], indirect=True)
def test_killed_anywhere_no_daemon_outlives_its_mig_device_and_none_is_left(node: Node) -> None:
    ref = ClaimRef("team", "a", "uid")
    counting = KillingFiles(1000, after=True)
    prepare_and_unprepare(node, ref)  # makes what stays
    node.start(counting)
    prepare_and_unprepare(node, ref)
    steps = 1000 - counting.survive
    assert steps > 20

    for survive in range(steps):
        node.start(KillingFiles(survive, after=True))
        with pytest.raises(Killed):
            prepare_and_unprepare(node, ref)
        node.start()
        served = [(path / "pipe/devices").read_text().strip() for path in node.mps.iterdir() if path.is_dir()]
        assert set(served) <= set(node.uuids()), survive
        if node.engine.held():
            node.engine.prepare(ref)
            assert 2 == len(set(node.pipes()))
        node.engine.unprepare(ref)
        assert ([], []) == (node.uuids(), [path.name for path in node.mps.iterdir() if path.is_dir()]), (
            survive
        )


def prepare_and_unprepare(node: Node, ref: ClaimRef) -> None:
    node.engine.prepare(ref)
    node.engine.unprepare(ref)

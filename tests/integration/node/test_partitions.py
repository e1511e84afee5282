"""Pods that ask for a part of a GPU get a MIG device that is made for them, whatever kills the plugin meanwhile."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.cluster import PluginProcess
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.kube.resources import PODS

_KILLED = Path(__file__).parent / "killed_plugin.py"
# Of all writes, by number, those after which the node differs most from what a whole step leaves; the others are
# gone through in test_partitions_on_simulated_nodes.py, without processes.
_PREPARE = {1: "intent", 2: "mode", 3: "gpu instance", 5: "compute instance", 8: "spec"}
_UNPREPARE = {10: "record", 13: "compute instance", 14: "gpu instance", 16: "record"}
_PROFILE = """\
description: A node with one H100
driver: {version: 580.95.05, cuda: 13.0}
gpus:
  - pci: 0000:65:00.0
    name: NVIDIA H100 80GB HBM3
    architecture: Hopper
    computeCapability: 9.0
    memoryMiB: 81559
    mig: {table: h100-80}
"""
_DESTROYING = """\
apiVersion: config.dra-driver.io/v1alpha1
kind: NodeConfig
gpus: [{mig: dynamic, destroyUnownedInstances: true}]
"""


class CutNode:
    """A node whose one GPU is cut on demand."""

    def __init__(self, node: Any, profile: Path) -> None:
        self.node = node
        self._profile = load_profile(profile)

    @property
    def hardware(self) -> SimulatedBackend:
        """The node's GPU, as any other process sees it."""
        return SimulatedBackend(self._profile, "node-a", driver_root=self.node.plugin_dir / "driver-root")

    def cut(self) -> list[tuple[str, int]]:
        """Profile and place of all MIG devices; in MIG mode only while there are some."""
        (gpu,) = self.hardware.scan().gpus
        assert gpu.mig is not None
        assert gpu.mig.enabled == bool(gpu.mig.devices)
        assert len(self.hardware.mig.instances(gpu.uuid)) == len(gpu.mig.devices)
        return [(device.profile.name, device.placement) for device in gpu.mig.devices]

    def is_whole(self) -> bool:
        """Whether nothing is cut, also where a plugin is just about to cut something, or to undo it."""
        (gpu,) = self.hardware.scan().gpus
        return gpu.mig is not None and not (gpu.mig.enabled or gpu.mig.devices)

    def uuids(self) -> list[str]:
        (gpu,) = self.hardware.scan().gpus
        return [device.uuid for device in gpu.mig.devices] if gpu.mig else []

    def run_pod(self, name: str, profile: str | None = "3g.40gb") -> None:
        """A Pod with a claim for a MIG device of this profile, or for the whole GPU."""
        own = "device.attributes['gpu.nvidia.com']"
        expression = (
            f"{own}.type == 'gpu'" if profile is None else f"{own}.?profile.orValue('') == '{profile}'"
        )
        selectors = [{"cel": {"expression": expression}}]
        exactly = {"deviceClassName": "gpu.nvidia.com", "selectors": selectors}
        self.node.create_claim(name, {"name": "gpu", "exactly": exactly})
        self.node.create_pod(name)

    def kill_at(self, survive: int) -> PluginProcess:
        """Replace the plugin by one that kills itself right after the write of that number."""
        self.node.plugin.stop()
        dying: PluginProcess = self.node.spawn(
            sys.executable, str(_KILLED), str(survive), "after", *self.node.plugin.command[4:]
        )
        return dying

    def reset(self) -> None:
        self.node.stop_processes()
        if not self.node.plugin.running():
            self.node.restart()


@pytest.fixture
def node(new_node: Callable[..., Any], tmp_path: Path) -> Iterator[CutNode]:
    profile = tmp_path / "h100.yaml"
    profile.write_text(_PROFILE)
    made = new_node("node-a", str(profile), "--mig=dynamic")
    made.until(lambda: len(made.devices()) > 10, "a node with partitions")
    node = CutNode(made, profile)
    yield node
    node.reset()


def test_a_pod_gets_a_mig_device_that_goes_with_it(node: CutNode) -> None:
    node.run_pod("a")
    paths = {device.path for device in node.node.running("a").device_nodes}
    assert [("3g.40gb", 4)] == node.cut()
    assert 2 == len([path for path in paths if path.startswith("/dev/nvidia-caps/nvidia-cap")])
    node.node.delete_pod("a")
    assert [] == node.cut()
    assert node.node.state_of() == node.node.state()


def test_a_mig_device_of_a_damaged_record_is_not_destroyed_as_nobodys(
    new_node: Callable[..., Any], tmp_path: Path
) -> None:
    profile, config = tmp_path / "h100.yaml", tmp_path / "node.yaml"
    profile.write_text(_PROFILE)
    config.write_text(_DESTROYING)
    made = new_node("node-a", str(profile), f"--config={config}")
    made.until(lambda: len(made.devices()) > 10, "a node with partitions")
    node = CutNode(made, profile)
    node.run_pod("a")
    made.running("a")
    uuids = node.uuids()
    made.plugin.stop()
    (record,) = made.claims_dir.glob("*.json")
    record.write_bytes(record.read_bytes()[:-20])
    made.restart()
    made.ready()
    node.run_pod("b", "1g.10gb")
    made.running("b")
    assert set(uuids) < set(node.uuids())
    for pod in ("a", "b"):
        made.delete_pod(pod)
    made.plugin.stop()
    made.restart()
    made.until(lambda: not node.uuids(), "a GPU without what was nobody's")


def test_the_claim_is_told_the_uuid_of_its_mig_device(node: CutNode) -> None:
    node.run_pod("a")
    node.node.running("a")
    told = node.node.until(lambda: node.node.claim("a")["status"].get("devices"), "a claim that was told")
    (result,) = node.node.results("a")
    (uuid,) = node.uuids()
    place = {key: result[key] for key in ("driver", "pool", "device")}
    assert [{**place, "data": {"uuid": uuid}}] == told


def test_parts_and_the_whole_take_turns(node: CutNode) -> None:
    node.run_pod("a")
    node.run_pod("b")
    node.node.running("a")
    node.node.running("b")
    assert [("3g.40gb", 0), ("3g.40gb", 4)] == node.cut()
    node.run_pod("whole", None)
    node.node.delete_pod("a")
    node.node.delete_pod("b")
    node.node.running("whole")
    assert [] == node.cut()


def test_a_failure_is_told_to_the_pod_and_the_retry_works(node: CutNode) -> None:
    node.node.simulate("mig: compute-instance-fails")
    node.run_pod("a")
    node.node.failed("a", "a compute instance cannot be made in GPU instance")
    node.node.until(node.is_whole, "a GPU that is whole")
    node.node.simulate("")
    node.node.running("a")
    assert [("3g.40gb", 4)] == node.cut()


@pytest.mark.parametrize("survive", _PREPARE, ids=_PREPARE.get)
def test_a_prepare_killed_anywhere_is_completed_by_the_next_process(node: CutNode, survive: int) -> None:
    dying = node.kill_at(survive)
    node.run_pod("a")
    assert -signal.SIGKILL == dying.wait(node.node.seconds)

    node.node.restart()

    node.node.running("a")
    assert [("3g.40gb", 4)] == node.cut()
    assert node.node.state_of("a") == node.node.state()
    node.node.delete_pod("a")
    assert [] == node.cut()
    assert node.node.state_of() == node.node.state()


@pytest.mark.parametrize("survive", _UNPREPARE, ids=_UNPREPARE.get)
def test_an_unprepare_killed_anywhere_is_completed_by_the_next_process(node: CutNode, survive: int) -> None:
    dying = node.kill_at(survive)
    node.run_pod("a")
    node.node.running("a")
    node.node.cluster.client.delete(PODS, "a", namespace="default")
    assert -signal.SIGKILL == dying.wait(node.node.seconds)

    node.node.restart()

    node.node.delete_claim("a")
    assert [] == node.cut()
    assert node.node.state_of() == node.node.state()

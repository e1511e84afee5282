"""GPUs of every kind on one node, in a storm of Pods, with a plugin and a supervisor that are killed again and again."""

import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.kube.resources import PODS

_PODS = 30
_KILLS = 6
_PROFILE = """\
description: A node with GPUs that are offered in five ways
driver: {version: 580.95.05, cuda: 13.0}
defaults:
  name: NVIDIA H100 80GB HBM3
  architecture: Hopper
  computeCapability: 9.0
  memoryMiB: 81559
  mig: {table: h100-80}
gpus:
  - pci: 0000:1b:00.0
    mig: {table: h100-80, enabled: true, devices: [{profile: 1g.10gb, start: 0}, {profile: 1g.10gb, start: 1}]}
  - pci: 0000:43:00.0
  - pci: 0000:52:00.0
  - pci: 0000:61:00.0
  - pci: 0000:9d:00.0
"""
_CONFIG = """\
apiVersion: config.dra-driver.io/v1alpha1
kind: NodeConfig
gpus:
  - {pciAddress: "0000:1b:00.0", mig: static}
  - {pciAddress: "0000:43:00.0", mig: dynamic}
  - {pciAddress: "0000:61:00.0", shares: 4}
  - {pciAddress: "0000:9d:00.0", shares: 4}
"""
_UUID = "has(device.attributes['gpu.nvidia.com'].uuid)"
_PCI = "device.attributes['resource.kubernetes.io'].pciBusID == '0000:{}:00.0'"
_TYPE = "device.attributes['gpu.nvidia.com'].type == '{}'"
# What Pods ask for in turn: type, selector, kind of configuration, and its sharing.
_KINDS: list[tuple[str, str, str, dict[str, Any] | None]] = [
    ("mig", _UUID, "MigDeviceConfig", None),
    ("mig", _UUID, "MigDeviceConfig", {"strategy": "MPS"}),
    ("mig", f"!{_UUID}", "MigDeviceConfig", {"strategy": "TimeSlicing"}),
    ("mig", f"!{_UUID}", "MigDeviceConfig", {"strategy": "MPS"}),
    ("gpu", _PCI.format("43"), "GpuConfig", None),
    ("gpu", _PCI.format("52"), "GpuConfig", None),
    ("gpu", _PCI.format("61"), "GpuConfig", {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}),
    ("gpu", _PCI.format("9d"), "GpuConfig", {"strategy": "MPS"}),
]  # fmt: skip


def _create(node: Any, number: int) -> None:
    type_, selector, kind, sharing = _KINDS[number % len(_KINDS)]
    exactly = {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": one}} for one in (_TYPE.format(type_), selector)],
    }
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing}
    config = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}] if sharing else []
    node.create_claim(f"pod-{number}", {"name": "gpu", "exactly": exactly}, config=config)
    node.create_pod(f"pod-{number}")


def test_processes_killed_amid_pods_of_every_kind_leak_no_device_daemon_or_setting(
    new_node: Callable[..., Any], tmp_path: Path
) -> None:
    profile, config = tmp_path / "mixed.yaml", tmp_path / "node.yaml"
    profile.write_text(_PROFILE)
    config.write_text(_CONFIG)
    node = new_node("node-a", str(profile), f"--config={config}")
    supervisor = node.cluster.add_mps_supervisor(node.node)
    node.published(31)
    hardware = SimulatedBackend(load_profile(profile), "node-a", driver_root=node.plugin_dir / "driver-root")
    before = {gpu.uuid: hardware.mig.instances(gpu.uuid) for gpu in hardware.scan().gpus}
    random.seed(5)
    kills = set(random.sample(range(_PODS), _KILLS))
    for number in range(_PODS):
        _create(node, number)
    node.run_pod("admin", admin=True)

    waiting = {"admin", *(f"pod-{number}" for number in range(_PODS))}
    while waiting:
        name = node.until(
            lambda: next((name for name in sorted(waiting) if node.phase(name) == "Running"), None),
            "a running Pod",
        )
        waiting.remove(name)
        node.cluster.client.delete(PODS, name, namespace="default")
        if len(waiting) in kills:
            for process in random.sample((node.plugin, supervisor), random.choice((1, 2))):
                process.stop(signal.SIGKILL)
                process.start()

    node.empty()
    node.ready()
    assert before == {gpu.uuid: hardware.mig.instances(gpu.uuid) for gpu in hardware.scan().gpus}
    assert [] == [path for path in (node.plugin_dir / "mps").iterdir() if path.is_dir()]
    settings = node.plugin_dir / "driver-root" / "simulated"
    assert {"Default"} == {path.read_text().strip() for path in settings.glob("compute-mode.*")}
    assert {"Default", "0"} >= {path.read_text().strip() for path in settings.glob("timeslice.*")}
    assert "fault of this driver" not in node.log()
    supervisor.stop()

"""A simulated node whose claims are prepared by the real engine, on the machine as the node plugin opens it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dra_driver.cdi.edits import EditSource
from dra_driver.cdi.store import SpecStore
from dra_driver.devices.build import build_devices
from dra_driver.devices.snapshot import Snapshot
from dra_driver.node import flags
from dra_driver.node.machine import open_machine
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, RecordStore

_DRIVER = "gpu.nvidia.com"


class GpuNode:
    """A node with the GPUs of `profile`, and its driver at `driver_root`; specs go into `cdi_dir`."""

    def __init__(self, profile: str, directory: Path, cdi_dir: Path) -> None:
        self._settings = flags.parse(
            [
                "--node-name=node-a",
                f"--kubelet-plugins-dir={directory}",
                f"--cdi-dir={cdi_dir}",
                f"--backend=simulated:{profile}",
            ],
            {},
        )
        self._claims: dict[str, dict[str, Any]] = {}
        self.driver_root = self._settings.plugin_dir / "driver-root"
        self.start()

    def start(self, edits: Callable[[], EditSource] | None = None) -> None:
        """As a new process does, which brings the driver root up to date; then with these edits, if they are given."""
        settings = self._settings
        machine = open_machine(settings)
        inventory = machine.backend.scan()
        self.devices = build_devices(inventory)
        self.gpus = inventory.gpus
        self._specs = SpecStore(settings.cdi_dir, _DRIVER)
        self._engine = Engine(
            driver_name=_DRIVER,
            pool_name=settings.pool,
            claims=self,
            hardware=lambda: Snapshot(inventory, self.devices),
            edits=edits() if edits else machine.edits,
            records=RecordStore(settings.plugin_dir / "claims", boot_id="boot"),
            specs=self._specs,
            metadata=MetadataStore(settings.plugin_dir / "device-metadata", _DRIVER),
        )
        self._engine.restore()

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        return self._claims[name]

    def prepare(
        self, claim: str, *devices: str, share_id: str | None = None, admin: bool = False
    ) -> list[str]:
        """Prepare a claim that was allocated these devices; the CDI names that the kubelet gets."""
        more = {"shareID": share_id} if share_id else {"adminAccess": True} if admin else {}
        results = [
            {"request": "gpu", "driver": _DRIVER, "pool": self._settings.pool, "device": device, **more}
            for device in devices
        ]
        self._claims[claim] = {
            "metadata": {"namespace": "default", "name": claim, "uid": _uid(claim)},
            "status": {"allocation": {"devices": {"results": results}}},
        }
        prepared = self._engine.prepare(ClaimRef("default", claim, _uid(claim)))
        return [cdi_id for device in prepared for cdi_id in device.cdi_ids]

    def unprepare(self, claim: str) -> None:
        self._engine.unprepare(ClaimRef("default", claim, _uid(claim)))

    def spec(self, claim: str) -> dict[str, Any]:
        spec: dict[str, Any] = json.loads(self._specs.path(_uid(claim)).read_bytes())
        return spec

    def gpu(self, index: int) -> str:
        """The published name of the index-th GPU as a whole."""
        uuid = self.gpus[index].uuid
        return next(device.name for device in self.devices if device.target.uuid == uuid)

    def mig_devices(self) -> list[str]:
        return [device.name for device in self.devices if device.target.kind == "mig"]

    def numbers(self, *nodes: str) -> dict[str, tuple[int, int]]:
        """Major and minor of nodes such as "nvidia0" below the driver's /dev, by their paths in a container."""
        found = {node: (self.driver_root / "dev" / node).stat().st_rdev for node in nodes}
        return {f"/dev/{node}": (rdev >> 8 & 0xFFF, rdev & 0xFF) for node, rdev in found.items()}


def _uid(claim: str) -> str:
    """Like the API server's: mostly, they begin with a digit."""
    return f"0f2a-{claim}"

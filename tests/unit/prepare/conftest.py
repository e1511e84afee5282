"""A node with two GPUs and an API server's claims, both of plain data, around a real engine on real files."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import dra_driver.files
from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.cdi.store import SpecStore
from dra_driver.devices.model import Device, DeviceSet, Target
from dra_driver.devices.snapshot import Snapshot
from dra_driver.files import AnyPath, Files
from dra_driver.inventory.fake_elf import shared_library
from dra_driver.inventory.model import Gpu, Inventory, Mig, MigDevice, MigProfile
from dra_driver.kube.errors import NotFoundError
from dra_driver.partitions.mig_device import MigDevices
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, RecordStore
from dra_driver.quantity import Quantity

DRIVER = "gpu.nvidia.com"
POOL = "node-a/gpu"
PROFILE = MigProfile(19, "1g.5gb", 5 << 30, 1, 14, 1, 0, 0, 0, 0, 7, (0, 1, 2, 3, 4, 5, 6), 1)
MIG_NAME = "gpu-0000-65-00-0-mig-1g5gb-19-0"


class Killed(BaseException):
    """Stands for SIGKILL: no `except Exception` sees it, so no clean-up runs."""


class KillingFiles:
    """Lets `survive` writes and removals through, and dies at the next: before it, halfway, or right after."""

    def __init__(self, survive: int, phase: str) -> None:
        self.survive = survive
        self.phase = phase

    def write_atomic(self, path: AnyPath, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
        dying = self._count(path)
        if dying and self.phase == "halfway":
            (Path(path).parent / f".dra-{Path(path).name}-half.tmp").write_bytes(data[: len(data) // 2])
        if dying and self.phase != "after":
            raise Killed
        dra_driver.files.write_atomic(path, data, mode=mode, sync=sync)
        if dying:
            raise Killed

    def write_new(self, path: AnyPath, data: bytes, *, mode: int = 0o600) -> bool:
        if Path(path).exists():
            return False  # writes nothing
        dying = self._count(path)
        if dying and self.phase == "halfway":
            dra_driver.files.write_new(path, data[: len(data) // 2], mode=mode)
        if dying and self.phase != "after":
            raise Killed
        written = dra_driver.files.write_new(path, data, mode=mode)
        if dying:
            raise Killed
        return written

    def remove(self, path: AnyPath, *, sync: bool = True) -> bool:
        dying = self._count(path)
        if dying and self.phase != "after":
            raise Killed
        removed = dra_driver.files.remove(path, sync=sync)
        if dying:
            raise Killed
        return removed

    def _count(self, path: AnyPath) -> bool:
        if not Path(path).parent.exists():
            return False  # a write that fails, and is made again
        self.survive -= 1
        return self.survive == -1


class FullDisk:
    """A file system without space; files can still be removed."""

    def write_atomic(self, path: AnyPath, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
        raise OSError(28, "No space left on device", str(path))

    def write_new(self, path: AnyPath, data: bytes, *, mode: int = 0o600) -> bool:
        raise OSError(28, "No space left on device", str(path))

    def remove(self, path: AnyPath, *, sync: bool = True) -> bool:
        return dra_driver.files.remove(path, sync=sync)


class Claims:
    """The API server's claims, by namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.gets = 0
        self.error: Exception | None = None
        self.hang: Callable[[], object] = lambda: None

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        self.gets += 1
        self.hang()
        if self.error is not None:
            raise self.error
        try:
            return self.objects[f"{namespace}/{name}"]
        except KeyError:
            raise NotFoundError("cannot get ResourceClaim: not found (404)", status=404) from None


def published(name: str, target: Target) -> Device:
    return Device(
        name, target, {"type": target.kind, "uuid": target.uuid}, {"memory": Quantity.of_bytes(1 << 30)}
    )


class Node:
    """Hardware, files and claims of a node. `engine()` is a start of the plugin's process."""

    def __init__(self, path: Path) -> None:
        self.cdi_dir = path / "cdi"
        self.claims_dir = path / "claims"
        self.metadata_dir = path / "metadata"
        self.dev = path / "root" / "dev"
        self.dev.mkdir(parents=True)
        for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
            (self.dev / name).touch()
        libraries = path / "root/usr/lib64"
        libraries.mkdir(parents=True)
        for name in ("libcuda", "libnvidia-ml"):
            (libraries / f"{name}.so.580.95.05").write_bytes(shared_library(f"{name}.so.1", "x86_64"))
        for name in ("proc", "sys"):
            (path / name).mkdir()
        root = Root(PurePosixPath("/"), path / "root", PLACEHOLDERS)
        self.edits = DriverEdits(root, host=root, proc=path / "proc", sysfs=path / "sys")
        self.boot_id = str(uuid.UUID(int=1))
        self.claims = Claims()
        self.inventory = Inventory(available=True, gpus=(self.gpu(0), self.gpu(1)))
        self.devices = DeviceSet(tuple(self.device(gpu) for gpu in self.inventory.gpus))
        self.scans = 0

    @staticmethod
    def gpu(number: int) -> Gpu:
        pci = ("0000:65:00.0", "0000:ca:00.0")[number]
        return Gpu(f"GPU-{number}", pci, number, number, "NVIDIA A100", None, None, None, None)

    @staticmethod
    def device(gpu: Gpu) -> Device:
        name = "gpu-" + gpu.pci_address.replace(":", "-").replace(".", "-")
        return published(name, Target("gpu", gpu.uuid, gpu.uuid, gpu.pci_address))

    def change_gpu(self, number: int, **changes: Any) -> None:
        """The next scan finds the GPU otherwise than before."""
        gpus = list(self.inventory.gpus)
        gpus[number] = replace(gpus[number], **changes)
        self.inventory = replace(self.inventory, gpus=tuple(gpus))

    def lose_driver(self) -> None:
        """NVML answers no longer: nothing is known, and nothing published."""
        self.inventory = Inventory(available=False)
        self.devices = DeviceSet()

    def cut_into_mig(self) -> None:
        """GPU 0 has one MIG device now, and is not published whole."""
        mig = Mig(
            enabled=True, pending=True, profiles=(PROFILE,), devices=(MigDevice("MIG-0", 7, 0, PROFILE, 0),)
        )
        self.change_gpu(0, mig=mig)
        target = Target("mig", "MIG-0", "GPU-0", "0000:65:00.0")
        self.devices = DeviceSet((published(MIG_NAME, target), self.devices.devices[1]))

    def engine(
        self,
        *,
        files: Files = dra_driver.files,
        restored: bool = True,
        partitions: MigDevices | None = None,
    ) -> Engine:
        engine = Engine(
            driver_name=DRIVER,
            pool_name=POOL,
            claims=self.claims,
            hardware=lambda: Snapshot(self._scan(), self.devices),
            edits=self.edits,
            records=RecordStore(self.claims_dir, boot_id=self.boot_id, files=files),
            specs=SpecStore(self.cdi_dir, DRIVER, files=files),
            metadata=MetadataStore(self.metadata_dir, DRIVER, files=files),
            partitions=partitions,
        )
        if restored:
            engine.restore()
        return engine

    def _scan(self) -> Inventory:
        self.scans += 1
        return self.inventory

    def allocate(
        self, name: str, *results: dict[str, Any], uid: str | None = None, config: list[Any] | None = None
    ) -> ClaimRef:
        """A claim `default/<name>` with these results; "device" alone is enough in each."""
        ref = ClaimRef("default", name, uid or str(uuid.uuid5(uuid.NAMESPACE_DNS, name)))
        defaults = {"request": "gpu", "driver": DRIVER, "pool": POOL}
        devices: dict[str, Any] = {"results": [{**defaults, **result} for result in results]}
        if config is not None:
            devices["config"] = config
        self.claims.objects[str(ref)] = {
            "metadata": {"name": name, "namespace": "default", "uid": ref.uid},
            "status": {"allocation": {"devices": devices}},
        }
        return ref

    def spec_files(self) -> list[str]:
        return sorted(path.name for path in self.cdi_dir.iterdir()) if self.cdi_dir.exists() else []

    def metadata_files(self) -> list[str]:
        return sorted(path.name for path in self.metadata_dir.iterdir()) if self.metadata_dir.exists() else []

    def record_files(self) -> list[str]:
        return sorted(path.name for path in self.claims_dir.iterdir() if path.name != "damaged")

    def spec_file(self, ref: ClaimRef) -> Path:
        return self.cdi_dir / f"k8s.{DRIVER}-claim_{ref.uid}.json"

    def record_file(self, ref: ClaimRef) -> Path:
        return self.claims_dir / f"{ref.uid}.json"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def killing() -> Callable[[int, str], KillingFiles]:
    return KillingFiles


@pytest.fixture
def killed() -> type[Killed]:
    return Killed


@pytest.fixture
def full_disk() -> FullDisk:
    return FullDisk()

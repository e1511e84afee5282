"""A node whose driver is in a driver container, for tests that change it, or spoil it."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.cdi.store import SpecStore
from dra_driver.devices.build import build_devices
from dra_driver.devices.snapshot import Snapshot
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, PreparedDevice, RecordStore

DRIVER, POOL, UID = "gpu.nvidia.com", "node-a/gpu", "0a1b2c3d-0000-4000-8000-000000000001"


class Host:
    """A host below `path`, where claims are prepared by the engine, on real files; `claim` is what the API server has."""

    def __init__(self, path: Path) -> None:
        self.directory = path
        self.path = path / "host"
        self.root = self.path / "run/nvidia/driver"
        profile = load_profile("l4")
        self.version = profile.driver_version
        make_driver_root(profile, self.root, node_name="node-a", device_nodes=False)
        for name in ("proc", "sys"):  # the kernel is the host's
            shutil.move(self.root / name, self.path / name)
        self.libraries = self.root / "usr/lib/x86_64-linux-gnu"
        self.ours = path / "ours"
        self.ours.mkdir()
        self.ours.chmod(0o777)  # whoever the plugin runs as
        self.use_cdi_dir(self.ours / "cdi")
        inventory = SimulatedBackend(profile, "node-a").scan()
        self._inventory, self._devices = inventory, build_devices(inventory)
        names = sorted(device.name for device in self._devices)
        result = {"request": "gpu", "driver": DRIVER, "pool": POOL, "device": names[0]}
        self.claim: dict[str, Any] = {
            "metadata": {"namespace": "default", "name": "claim", "uid": UID},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }

    @property
    def result(self) -> dict[str, Any]:
        """What the claim was allocated."""
        (result,) = self.claim["status"]["allocation"]["devices"]["results"]
        assert isinstance(result, dict)
        return result

    def use_cdi_dir(self, path: Path) -> None:
        self.specs = SpecStore(path, DRIVER)

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        return self.claim

    def start(self, *, boot_id: str = "boot") -> Engine:
        """The parts of a plugin's new process that prepare claims."""
        driver = Root(PurePosixPath("/run/nvidia/driver"), self.root, PLACEHOLDERS)
        host = Root(PurePosixPath("/"), self.path, PLACEHOLDERS)
        engine = Engine(
            driver_name=DRIVER,
            pool_name=POOL,
            claims=self,
            hardware=lambda: Snapshot(self._inventory, self._devices),
            edits=DriverEdits(driver, host=host, proc=self.path / "proc", sysfs=self.path / "sys"),
            records=RecordStore(self.ours / "claims", boot_id=boot_id),
            specs=self.specs,
            metadata=MetadataStore(self.ours / "metadata", DRIVER),
        )
        engine.restore()
        return engine

    def prepare(self, engine: Engine, uid: str = UID) -> tuple[PreparedDevice, ...]:
        metadata = self.claim["metadata"]
        return engine.prepare(ClaimRef(metadata["namespace"], metadata["name"], uid))

    def unprepare(self, engine: Engine) -> None:
        engine.unprepare(ClaimRef("default", "claim", UID))

    def end(self) -> None:
        """As if nothing had been prepared yet."""
        for path in self.ours.iterdir():
            shutil.rmtree(path)

    def mounts(self) -> dict[str, str]:
        """Container path -> host path of the claim's spec."""
        mounts = json.loads(self.specs.path(UID).read_bytes())["containerEdits"]["mounts"]
        return {mount["containerPath"]: mount["hostPath"] for mount in mounts}

    def written(self) -> list[str]:
        """All files in the directories that are ours."""
        specs = self.specs.directory
        places = [self.ours] if specs.is_relative_to(self.ours) else [self.ours, specs]
        return sorted(str(path) for place in places for path in place.rglob("*") if path.is_file())

    def rest(self) -> dict[str, object]:
        """All else there is, in enough detail to see any change."""
        found: dict[str, object] = {}
        for folder, folders, files in os.walk(self.directory):
            for name in [*folders, *files]:
                path = Path(folder, name)
                if not path.is_relative_to(self.ours):
                    status = path.lstat()
                    target = str(path.readlink()) if path.is_symlink() else None
                    found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, target)
        return found


def discard(path: Path) -> None:
    """Delete a tree, or what else stands there, whatever may not be read in it."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        for folder, folders, _ in os.walk(path):
            for name in folders:
                if not Path(folder, name).is_symlink():
                    Path(folder, name).chmod(0o700)
        shutil.rmtree(path)


@pytest.fixture
def host() -> Iterator[Host]:
    """In a directory that everybody may enter, so that what another user may not read is up to the test."""
    directory = Path(tempfile.mkdtemp(prefix="dra-"))
    try:
        directory.chmod(0o755)
        yield Host(directory)
    finally:
        discard(directory)


class SmallMount:
    """A file system of 64 KiB in a mount namespace of its own, seen through /proc: nothing is mounted on the machine."""

    def __init__(self, place: Path) -> None:
        self._place = place
        script = 'mount -t tmpfs -o size=64k,nr_inodes=64 tmpfs "$0" && echo ready && exec sleep infinity'
        self._process = subprocess.Popen(
            ["unshare", "--mount", "--propagation=private", "sh", "-c", script, place],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "no mount namespace"
        self.path = Path(f"/proc/{self._process.pid}/root{place}")

    def remount(self, options: str) -> None:
        namespace = f"--mount=/proc/{self._process.pid}/ns/mnt"
        subprocess.run(["nsenter", namespace, "mount", "-o", f"remount,{options}", self._place], check=True)

    def fill(self) -> None:
        """To the last byte."""
        free = os.statvfs(self.path)
        (self.path / "other").write_bytes(b"x" * free.f_bavail * free.f_frsize)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def small_mount(host: Host) -> Iterator[SmallMount]:
    place = host.directory / "small"
    place.mkdir()
    mount = SmallMount(place)
    yield mount
    mount.close()

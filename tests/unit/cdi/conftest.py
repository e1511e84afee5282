"""A driver root as the NVIDIA driver leaves it, of plain files."""

from pathlib import Path, PurePosixPath

import pytest

from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import CHARACTER_DEVICES, PLACEHOLDERS, NodeCheck, Root
from dra_driver.inventory.fake_elf import shared_library

DEVICES = "Character devices:\n  1 mem\n195 nvidia-frontend\n234 nvidia-caps\n\nBlock devices:\n  8 sd\n"


class DriverRoot:
    """A host with a driver container's root at `/run/nvidia/driver`, both under `path`."""

    host = PurePosixPath("/run/nvidia/driver")
    version = "580.95.05"
    libraries = "usr/lib/x86_64-linux-gnu"

    def __init__(self, path: Path) -> None:
        self.local = path / "driver-root"
        self.host_local = path / "host"
        self.proc = path / "proc"
        self.sysfs = path / "sys"
        for directory in (self.local / "dev", self.host_local / "dev", self.proc, self.sysfs):
            directory.mkdir(parents=True)
        (self.proc / "devices").write_text(DEVICES)

    def add(self, *names: str, host: bool = False) -> None:
        for name in names:
            ((self.host_local if host else self.local) / "dev" / name).touch()

    def add_capability(self, gpu: int, path: str, minor: int, mode: int = 292) -> None:
        access = self.proc / f"driver/nvidia/capabilities/gpu{gpu}/mig" / path / "access"
        access.parent.mkdir(parents=True, exist_ok=True)
        access.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n")

    def add_library(self, name: str, soname: str | None = None, *, version: str | None = None) -> Path:
        """A library of the driver, such as "libcuda", and the link that ldconfig makes for its soname."""
        path = self.local / self.libraries / f"{name}.so.{version or self.version}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(shared_library((soname or path.name).rpartition("/")[2], "x86_64"))
        if soname:
            link = path.parent / soname.rpartition("/")[2]
            link.unlink(missing_ok=True)
            link.symlink_to(path.name)
        return path

    def install(self, *, version: str | None = None) -> None:
        """What every container needs."""
        self.add_library("libcuda", "libcuda.so.1", version=version)
        self.add_library("libnvidia-ml", "libnvidia-ml.so.1", version=version)

    def load(self, version: str) -> None:
        """The kernel module of this version is loaded now."""
        path = self.sysfs / "module/nvidia/version"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{version}\n")

    def add_file(self, path: str, content: bytes = b"x", *, host: bool = False) -> Path:
        """A file at a path that starts with a slash."""
        file = Path(f"{self.host_local if host else self.local}{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def add_hook(self) -> Path:
        """NVIDIA's program for hooks, on the host, as the oldest toolkit that is of use has it."""
        file = self.add_file("/usr/bin/nvidia-cdi-hook", b"create-symlinks update-ldcache", host=True)
        file.chmod(0o755)
        return file

    def root(self, nodes: NodeCheck = PLACEHOLDERS) -> Root:
        return Root(self.host, self.local, nodes)

    def edits(self, *, nodes: NodeCheck = PLACEHOLDERS, hook_path: str | None = None) -> DriverEdits:
        host = Root(PurePosixPath("/"), self.host_local, nodes)
        return DriverEdits(self.root(nodes), host=host, proc=self.proc, sysfs=self.sysfs, hook_path=hook_path)


@pytest.fixture
def driver(tmp_path: Path) -> DriverRoot:
    root = DriverRoot(tmp_path)
    root.add("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")
    root.install()
    return root


@pytest.fixture
def strict() -> NodeCheck:
    return CHARACTER_DEVICES

"""A driver root as the NVIDIA driver leaves it, of plain files."""

from pathlib import Path, PurePosixPath

import pytest

from dra_driver.cdi.edits import DriverEdits, Root

DEVICES = "Character devices:\n  1 mem\n195 nvidia-frontend\n234 nvidia-caps\n\nBlock devices:\n  8 sd\n"


class DriverRoot:
    """A host with a driver container's root at `/run/nvidia/driver`, both under `path`."""

    host = PurePosixPath("/run/nvidia/driver")

    def __init__(self, path: Path) -> None:
        self.local = path / "driver-root"
        self.host_local = path / "host"
        self.proc = path / "proc"
        for directory in (self.local / "dev", self.host_local / "dev", self.proc):
            directory.mkdir(parents=True)
        (self.proc / "devices").write_text(DEVICES)

    def add(self, *names: str, host: bool = False) -> None:
        for name in names:
            ((self.host_local if host else self.local) / "dev" / name).touch()

    def add_capability(self, gpu: int, path: str, minor: int, mode: int = 292) -> None:
        access = self.proc / f"driver/nvidia/capabilities/gpu{gpu}/mig" / path / "access"
        access.parent.mkdir(parents=True, exist_ok=True)
        access.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n")

    def edits(self) -> DriverEdits:
        root = Root(self.host, self.local)
        return DriverEdits(root, host=Root(PurePosixPath("/"), self.host_local), proc=self.proc)


@pytest.fixture
def driver(tmp_path: Path) -> DriverRoot:
    root = DriverRoot(tmp_path)
    root.add("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")
    return root

"""A node with scripted NVML: a driver root with a library file, a sysfs, a clock, and the backend on them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dra_driver.inventory.model import Gpu, Inventory
from dra_driver.inventory.nvml import NvmlBackend
from dra_driver.inventory.nvml_library import LIBRARY
from tests.unit.inventory.nvml.fake_gpu import FakeGpu
from tests.unit.inventory.nvml.fake_nvml import FakeNvml


class NvmlNode:
    def __init__(self, path: Path, gpus: list[FakeGpu], deadline_seconds: float, live: bool) -> None:
        self.root, self.sysfs = path / "driver", path / "sys"
        self.library = self.root / "usr/lib64" / LIBRARY
        self.library.parent.mkdir(parents=True)
        self.library.touch()
        (self.sysfs / "bus/pci/drivers/nvidia").mkdir(parents=True)
        self.now = 0.0
        self.nvml = FakeNvml(gpus, live=live)
        self.backend = NvmlBackend(
            self.root,
            self.sysfs,
            deadline_seconds=deadline_seconds,
            nvml=self.nvml,
            load_library=self.nvml.load_library,
            clock=lambda: self.now,
        )

    def scan(self) -> Inventory:
        return self.backend.scan()

    def gpu(self) -> Gpu:
        """The only GPU of a fresh scan, which has no problems."""
        inventory = self.scan()
        assert inventory.problems == ()
        (gpu,) = inventory.gpus
        return gpu

    def bind(self, *addresses: str) -> None:
        """As the kernel does when a GPU is bound to the driver."""
        for address in addresses:
            (self.sysfs / "bus/pci/drivers/nvidia" / address).mkdir()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Callable[..., NvmlNode]]:
    nodes: list[NvmlNode] = []

    def make(*gpus: FakeGpu, deadline_seconds: float = 60.0, live: bool = False) -> NvmlNode:
        nodes.append(NvmlNode(tmp_path / str(len(nodes)), list(gpus), deadline_seconds, live))
        return nodes[-1]

    yield make
    for each in nodes:
        for event in each.nvml.hangs.values():
            event.set()
        each.backend.close()


@pytest.fixture
def board() -> Callable[[int], list[FakeGpu]]:
    """`count` H100 at PCI addresses 0000:10:00.0, 0000:11:00.0 ..."""
    return lambda count: [FakeGpu(f"GPU-{i}", f"00000000:{16 + i:02X}:00.0", minor=i) for i in range(count)]

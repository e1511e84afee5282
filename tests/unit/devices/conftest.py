"""Hardware by hand: an A100 with the MIG shapes of its 40 GB model."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dra_driver.devices.model import Device, HeldDevice
from dra_driver.inventory.model import Gpu, Inventory, Mig, MigDevice, MigProfile

GIB = 1024**3


def _profile(name: str, id_: int, slices: int, size: int, **engines: int) -> MigProfile:
    return MigProfile(
        id=id_,
        name=name,
        memory_bytes=size * 4864 * 1024**2,
        compute_slices=slices,
        multiprocessors=14 * slices,
        copy_engines=slices,
        decoders=engines.get("media", 0),
        encoders=0,
        jpeg_engines=engines.get("media", 0),
        ofa_engines=engines.get("media", 0),
        max_instances=7 // slices,
        placements=tuple(range(0, 7, size)),
        size=size,
    )


PROFILES = {
    "1g.5gb": _profile("1g.5gb", 19, 1, 1),
    "1g.5gb+me": _profile("1g.5gb+me", 20, 1, 1, media=1),
    "2g.10gb": _profile("2g.10gb", 14, 2, 2),
    "3g.20gb": _profile("3g.20gb", 9, 3, 4),
    "7g.40gb": _profile("7g.40gb", 0, 7, 8, media=1),
}


@pytest.fixture
def make_gpu() -> Callable[..., Gpu]:
    """A GPU at a bus number; keyword arguments replace fields."""

    def make(bus: int = 0x65, **fields: Any) -> Gpu:
        defaults: dict[str, Any] = {
            "uuid": f"GPU-{bus:08x}",
            "pci_address": f"0000:{bus:02x}:00.0",
            "index": 0,
            "minor": 0,
            "name": "NVIDIA A100-SXM4-40GB",
            "brand": "Nvidia",
            "architecture": "Ampere",
            "compute_capability": (8, 0),
            "memory_bytes": 40 * GIB,
            "addressing_mode": "HMM",
            "multiprocessors": 108,
            "mig": Mig(enabled=False, pending=False),
            "nvlinks": (),
            "pcie_root": "pci0000:64",
            "numa_node": 0,
        }
        return Gpu(**(defaults | fields))

    return make


@pytest.fixture
def make_mig() -> Callable[..., Mig]:
    """MIG mode with devices, each given as "profile@first memory slice"."""

    def make(*devices: str, generation: str = "a") -> Mig:
        made = []
        for number, text in enumerate(devices):
            name, _, start = text.partition("@")
            uuid = f"MIG-{generation}-{text}"
            made.append(MigDevice(uuid, number + 1, 0, PROFILES[name], int(start)))
        return Mig(enabled=True, pending=True, profiles=tuple(PROFILES.values()), devices=tuple(made))

    return make


@pytest.fixture
def node() -> Callable[..., Inventory]:
    """An inventory of these GPUs."""

    def make(*gpus: Gpu, **fields: Any) -> Inventory:
        defaults: dict[str, Any] = {
            "available": True,
            "driver_version": "580.65.06",
            "cuda_driver_version": 13000,
            "gpus": gpus,
        }
        return Inventory(**(defaults | fields))

    return make


@pytest.fixture
def hold() -> Callable[[Device], HeldDevice]:
    return lambda device: HeldDevice(device, "default/train", "uid-1")


@pytest.fixture
def slice_of() -> Callable[[Sequence[Device]], dict[str, Any]]:
    """A ResourceSlice with these devices, as the publisher would send it."""

    def make(devices: Sequence[Device]) -> dict[str, Any]:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": "00000-gpu.nvidia.com-n1-"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": "n1",
                "pool": {"name": "n1/gpu", "generation": 1, "resourceSliceCount": 1},
                "devices": [device.as_dict() for device in devices],
            },
        }

    return make

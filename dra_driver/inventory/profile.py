"""Profiles: YAML descriptions of simulated nodes.

A profile holds what NVML and sysfs of such a node say. The ones in the package describe real machines with
real values; what no reference confirms is listed under `unverified:` (path in the file -> why), never passed
off as real. Users write their own, in the same keys, and give its path:

    description: one line
    driver: {version: 580.95.05, cuda: 13.0}            # machine: aarch64, where it is not x86_64
    defaults: {name: NVIDIA L4, memoryMiB: 23034, ...}   # for all GPUs; a GPU's own keys win, null unsets
    gpus:
      - {pci: 0000:9f:00.0, root: pci0000:9e, numa: 0}
    nvlink:
      - {via: switch, gpus: all, links: 12, switches: [0000:c4:00.0, ...]}   # none: the links don't tell
      - {via: bridge, gpus: [0000:17:00.0, 0000:31:00.0], links: 12}

UUIDs and serials are usually left out. They are then derived from profile, node name and PCI address: the
same after every restart, and different on every node.
"""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from dra_driver.errors import UsageError
from dra_driver.inventory import document
from dra_driver.inventory.gpu_reader import GpuReader
from dra_driver.inventory.links import read_links
from dra_driver.inventory.mig_table import MigTable, read_table, read_unverified
from dra_driver.inventory.model import Gpu, Mig, RemoteType, pci_order

MAX_GPUS = 64  # as many render nodes as the kernel numbers, /dev/dri/renderD128 to D191
# Arbitrary and fixed: derived UUIDs depend on it.
_NAMESPACE = uuid.UUID("5d1f1f5e-7c7a-5f0e-9d0b-2f0c3a1b6e4d")
_FOLDER = resources.files("dra_driver.inventory") / "profiles"


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of node. GPUs have empty `uuid` and `serial` where these depend on the node: see `gpus_on`."""

    name: str
    description: str
    driver_version: str  # "580.95.05"
    cuda_driver_version: int  # 1000 * major + 10 * minor
    gpus: tuple[Gpu, ...]  # by PCI address
    device_ids: Mapping[str, str]  # PCI device ids ("20b0") of GPUs, by PCI address, where told
    unverified: Mapping[str, str]  # path in the profile -> why its value is not confirmed
    machine: str = "x86_64"  # of the CPU, as uname says it

    @property
    def switches(self) -> tuple[str, ...]:
        """The PCI addresses of the NVSwitches that links tell of."""
        links = (link for gpu in self.gpus for link in gpu.nvlinks or () if link.remote is RemoteType.SWITCH)
        return tuple(
            sorted({link.remote_pci_address for link in links if link.remote_pci_address}, key=pci_order)
        )

    def gpus_on(self, node_name: str) -> tuple[Gpu, ...]:
        """The GPUs of the node `node_name`, with identities of their own."""
        return tuple(self._identified(gpu, node_name) for gpu in self.gpus)

    def _identified(self, gpu: Gpu, node_name: str) -> Gpu:
        seed = f"{self.name}/{node_name}/{gpu.pci_address}"
        gpu_uuid = gpu.uuid or f"GPU-{uuid.uuid5(_NAMESPACE, seed)}"
        digits = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8]) % 10**12
        serial = f"1{digits:012}" if gpu.serial == "" else gpu.serial
        return replace(gpu, uuid=gpu_uuid, serial=serial, mig=gpu.mig and _identified_mig(gpu.mig, gpu_uuid))


def _identified_mig(mig: Mig, gpu_uuid: str) -> Mig:
    devices = (
        replace(
            device, uuid=f"MIG-{uuid.uuid5(_NAMESPACE, f'{gpu_uuid}/{device.profile.id}/{device.placement}')}"
        )
        for device in mig.devices
    )
    return replace(mig, devices=tuple(devices))


def profile_names() -> tuple[str, ...]:
    """The names of the profiles in the package."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def load_profile(name_or_path: str | Path) -> Profile:
    """The profile of that name in the package, or in that file (a path has a slash or ends in .yaml or .yml).

    UsageError names the file, the line or key, and what was expected.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and "/" not in text and not text.endswith((".yaml", ".yml")):
        if text not in profile_names():
            known = ", ".join(profile_names())
            raise UsageError(
                f"there is no profile {text!r}: expected one of {known}, or the path of a YAML file"
            )
        return _read(document.parse((_FOLDER / f"{text}.yaml").read_bytes(), f"profile {text}"), text, None)
    path = Path(name_or_path)
    try:
        return _read(document.read_file(path), path.stem, path.parent)
    except FileNotFoundError:
        raise UsageError(f"there is no profile {path}: expected the path of a YAML file") from None


def _read(root: document.Value, name: str, folder: Path | None) -> Profile:
    optional = ["defaults", "nvlink", "unverified"]
    fields = root.fields(["description", "driver", "gpus"], optional)
    driver = fields["driver"].fields(["version", "cuda"], ["machine"])
    cuda = driver["cuda"].text("a CUDA version such as 13.0", r"\d{1,2}\.\d").split(".")
    unverified: dict[str, str] = {}

    def table(value: document.Value) -> MigTable:
        found = _table(value, folder)
        unverified.update({f"{value.content}:{path}": why for path, why in found.unverified.items()})
        return found

    reader = GpuReader(fields.get("defaults"), table)
    entries = fields["gpus"].items()
    if len(entries) > MAX_GPUS:
        entries[MAX_GPUS].reject(f"expected at most {MAX_GPUS} GPUs, found {len(entries)}")
    gpus = sorted((reader.read(entry) for entry in entries), key=lambda gpu: pci_order(gpu.pci_address))
    links = read_links(fields.get("nvlink"), [gpu.pci_address for gpu in gpus])
    return Profile(
        name=name,
        description=fields["description"].text("one line of at most 200 characters", r".{1,200}"),
        driver_version=driver["version"].text("a version such as 580.95.05", r"\d{3,4}\.\d{1,3}(\.\d{1,3})?"),
        cuda_driver_version=1000 * int(cuda[0]) + 10 * int(cuda[1]),
        gpus=tuple(
            replace(gpu, index=i, nvlinks=links[gpu.pci_address])
            for i, gpu in enumerate(reader.numbered(gpus))
        ),
        device_ids=reader.device_ids,
        unverified=read_unverified(root) | unverified,
        machine=driver["machine"].choice(("x86_64", "aarch64")) if "machine" in driver else "x86_64",
    )


def _table(value: document.Value, folder: Path | None) -> MigTable:
    """The MIG table that a profile names: one of the package, or a file beside the profile."""
    name = value.text("the name of a MIG table, or the path of its YAML file", r".{1,255}")
    if folder is not None and name.endswith((".yaml", ".yml")):
        try:
            return read_table(document.read_file(folder / name))
        except FileNotFoundError:
            value.reject(f"there is no MIG table {folder / name}")
    known = sorted(entry.name.removesuffix(".yaml") for entry in (_FOLDER / "mig").iterdir())
    if name not in known:
        value.fail(f"one of {', '.join(known)}, or the path of a YAML file")
    return read_table(document.parse((_FOLDER / "mig" / f"{name}.yaml").read_bytes(), f"MIG table {name}"))

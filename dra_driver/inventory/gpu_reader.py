"""Reads the GPUs of a profile: its `defaults`, with the keys of each entry under `gpus` laid over them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dra_driver.inventory.document import Value
from dra_driver.inventory.links import read_pci_address
from dra_driver.inventory.mig_rules import Place, instance_id, misfit
from dra_driver.inventory.mig_table import MigTable
from dra_driver.inventory.model import Fabric, Gpu, Mig, MigDevice
from dra_driver.inventory.nvml_names import ADDRESSING_MODES, ARCHITECTURES, BRANDS, UNKNOWN

_BRANDS: Final = (UNKNOWN, *BRANDS.values())
_ARCHITECTURES: Final = (*ARCHITECTURES.values(), UNKNOWN)
_SWITCHABLE: Final = ("Hopper", "Blackwell", "Rubin")  # MIG mode changes without a reset
_MODEL_KEYS: Final = (
    "name", "brand", "architecture", "computeCapability", "memoryMiB", "multiprocessors", "addressingMode",
    "pciDeviceId", "mig", "fabric", "serial", "root", "numa",
)  # fmt: skip
_OWN_KEYS: Final = ("uuid", "minor")
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MAX_NUMA: Final = 1023  # MAX_NUMNODES of the kernel is 1024
_MAX_MINOR: Final = 63
_DERIVED: Final = -1  # a minor number that `numbered` fills in


class GpuReader:
    """Reads entries one after the other and sees to it that no two GPUs share an identity."""

    def __init__(self, defaults: Value | None, table: Callable[[Value], MigTable]) -> None:
        self._defaults = defaults.fields((), _MODEL_KEYS) if defaults is not None else {}
        self._table = table
        self._tables: dict[str, MigTable] = {}
        self._seen: dict[str, str] = {}  # "pci 0000:07:00.0" -> the path of the GPU that has it
        self.device_ids: dict[str, str] = {}

    def read(self, entry: Value) -> Gpu:
        """The GPU of one entry, without links, and with an empty UUID and serial where the entry has none."""
        own = entry.fields(["pci"], [*_OWN_KEYS, *_MODEL_KEYS])
        fields = {key: value for key, value in (self._defaults | own).items() if not value.is_null}
        if "name" not in fields:
            entry.reject("the key 'name' is missing, here and in defaults")
        pci = self._unique("PCI address", read_pci_address(own["pci"]), entry, own["pci"])
        uuid, minor, serial = fields.get("uuid"), own.get("minor"), (self._defaults | own).get("serial")
        capability = fields.get("computeCapability")
        architecture = fields["architecture"].choice(_ARCHITECTURES) if "architecture" in fields else None
        if "pciDeviceId" in fields:
            self.device_ids[pci] = fields["pciDeviceId"].text("four hex digits such as 20b0", r"[0-9a-f]{4}")
        return Gpu(
            uuid="" if uuid is None else self._unique("UUID", _gpu_uuid(uuid), entry, uuid),
            pci_address=pci,
            index=0,
            minor=_DERIVED if minor is None else self._minor(minor, entry),
            name=fields["name"].text(),
            brand=fields["brand"].choice(_BRANDS) if "brand" in fields else None,
            architecture=architecture,
            compute_capability=None if capability is None else _capability(capability),
            memory_bytes=fields["memoryMiB"].integer(1, 2**24, "a whole number of MiB") << 20
            if "memoryMiB" in fields
            else None,
            addressing_mode=fields["addressingMode"].choice(ADDRESSING_MODES.values())
            if "addressingMode" in fields
            else None,
            multiprocessors=fields["multiprocessors"].integer(1, 4096)
            if "multiprocessors" in fields
            else None,
            mig=self._mig(fields["mig"], switchable=architecture in _SWITCHABLE) if "mig" in fields else None,
            fabric=_fabric(fields["fabric"]) if "fabric" in fields else None,
            pcie_root=fields["root"].text("a PCIe root such as pci0000:64", r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
            if "root" in fields
            else None,
            numa_node=_numa(fields["numa"]) if "numa" in fields else None,
            serial="" if serial is None else None if serial.is_null else serial.text(),
        )

    def numbered(self, gpus: list[Gpu]) -> list[Gpu]:
        """Give GPUs without a minor number the lowest free ones, in the order of `gpus`."""
        taken = {gpu.minor for gpu in gpus}
        free = iter([minor for minor in range(_MAX_MINOR + 1) if minor not in taken])
        return [replace(gpu, minor=next(free)) if gpu.minor == _DERIVED else gpu for gpu in gpus]

    def _unique(self, kind: str, identity: str, entry: Value, value: Value) -> str:
        other = self._seen.setdefault(f"{kind} {identity}", entry.path)
        if other != entry.path:
            value.reject(f"expected a {kind} of its own, found {identity} again, which {other} has")
        return identity

    def _minor(self, value: Value, entry: Value) -> int | None:
        if value.is_null:
            return None
        minor = value.integer(0, _MAX_MINOR)
        self._unique("minor number", str(minor), entry, value)
        return minor

    def _mig(self, value: Value, *, switchable: bool) -> Mig:
        fields = value.fields(["table"], ["enabled", "devices"])
        name = str(fields["table"].content)
        if name not in self._tables:
            self._tables[name] = self._table(fields["table"])
        table = self._tables[name]
        enabled = "enabled" in fields and fields["enabled"].boolean()
        devices: list[MigDevice] = []
        for item in fields["devices"].items() if "devices" in fields else ():
            if not enabled:
                item.reject("expected no devices where enabled is not true")
            device = item.fields(["profile", "start"])
            profile = table.profile(str(device["profile"].content))
            if profile is None:
                device["profile"].fail(f"one of {', '.join(known.name for known in table.profiles)}")
            start = device["start"].integer(0, table.slices - 1, "a memory slice")
            taken = [Place(other.profile, other.placement) for other in devices]
            if reason := misfit(Place(profile, start), taken, table.profiles):
                item.reject(reason)
            devices.append(MigDevice("", instance_id(profile, start, table.profiles), 0, profile, start))
        return Mig(
            enabled, pending=enabled, profiles=table.profiles, devices=tuple(devices), switchable=switchable
        )


def _gpu_uuid(value: Value) -> str:
    return value.text("GPU- and a UUID in lower case", f"GPU-{_UUID}")


def _capability(value: Value) -> tuple[int, int]:
    major, minor = value.text("a compute capability such as 9.0", r"\d{1,2}\.\d{1,2}").split(".")
    return int(major), int(minor)


def _numa(value: Value) -> int:
    if value.content == "-1":
        value.fail(f"a NUMA node from 0 to {_MAX_NUMA}, or no key where it is unknown")
    return value.integer(0, _MAX_NUMA)


def _fabric(value: Value) -> Fabric:
    fields = value.fields(["clusterUUID", "cliqueID"])
    cluster = fields["clusterUUID"].text("a UUID in lower case", _UUID)
    if set(cluster) == {"0", "-"}:
        fields["clusterUUID"].reject(
            "an all-zero UUID means no multi-node fabric, expected another or no key fabric"
        )
    return Fabric(cluster, fields["cliqueID"].integer(0, 2**32 - 1))

"""The devices that selectors are tried on: those of the slices that are linted along, else every known model.

A model is a GPU of a packaged profile, whole, and as each MIG device that it can be cut into: one that exists and, of
GPUs that are cut on demand, one that is made for its claim, which lacks some values. What a model says of itself
(product, memory, compute capability) is taken at its word; what differs from machine to machine (UUID, PCI address,
driver version, NVLink clique) is unknown, and reading it makes an answer uncertain, never wrong. Devices of slices are
taken at their word in everything: the question is then about that cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

from dra_driver.cel.errors import EvaluationError, LimitError
from dra_driver.cel.values import DefaultMap
from dra_driver.config.node import MigMode, NodeConfig
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import Device as BuiltDevice
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.inventory.model import Gpu, Inventory, MigDevice
from dra_driver.inventory.profile import load_profile, profile_names
from dra_driver.lint.expressions import Expression
from dra_driver.lint.manifests import Manifest, as_list, as_map, as_text
from dra_driver.selectors import Device, device_value
from dra_driver.selectors.reads import FAMILIES, Family, Read

_STEPS = 5_000  # of one evaluation: a selector that needs more on one device is not judged
STANDARD = "resource.kubernetes.io"  # the domain of what devices of several drivers have
# What a model does not tell: it depends on the machine, the driver, or what is beside it.
_VARYING = frozenset(
    {(DRIVER_NAME, name) for name in ("uuid", "parentUUID", "driverVersion", "driverVersionString")}
    | {(DRIVER_NAME, name) for name in ("cudaDriverVersion", "addressingMode", "nvlinkClique", "nvlinkPeers")}
    | {(DRIVER_NAME, name) for name in ("fabricClusterUUID", "fabricCliqueID")}
    | {(STANDARD, name) for name in ("pciBusID", "pcieRoot", "numaNode")}
)

_ON_DEMAND = NodeConfig(MigMode.DYNAMIC)
_SHARED = Read("attributes", "", "allowMultipleAllocations")  # a field of its own; no attribute has no domain


class Answer(Enum):
    """What a selector says of a device."""

    YES = "yes"
    NO = "no"
    ABSENT = "absent"  # an error: the device lacks a value that is read
    ERROR = "error"  # another error: a value is used as what it is not
    UNKNOWN = "unknown"  # it depends on what the model does not tell


FAILURES = frozenset({Answer.ABSENT, Answer.ERROR})


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer; `missing` are values that were asked for in vain, `error` is the evaluator's text."""

    answer: Answer
    missing: frozenset[Read] = frozenset()
    error: str = ""
    error_name: str | None = None


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device to try selectors on."""

    label: str  # "NVIDIA L4", or "gpu-0 of pool node-a/gpu"
    driver: str
    values: Mapping[Read, Any]  # as CEL has them
    varying: frozenset[Read] = frozenset()
    count: int = 1  # how many devices of a cluster it stands for

    @property
    def type(self) -> str | None:
        """ "gpu", "mig", or what else devices of ours are; None of others."""
        return self.values.get(Read("attributes", DRIVER_NAME, "type"))

    @property
    def is_shared(self) -> bool:
        """Whether several claims can have it at one time."""
        return bool(self.values.get(_SHARED, False))

    def without(self, name: Read) -> "KnownDevice":
        """The same device, had it not this value."""
        return replace(self, values={key: value for key, value in self.values.items() if key != name})

    def judge(self, expression: Expression) -> Verdict:
        """What the selector says of this device; it must compile."""
        log = _Log(self.varying)
        if expression.selector is None:
            return Verdict(Answer.UNKNOWN)
        try:
            value = expression.selector.program.evaluate_ordered((self._value(log),), budget=_STEPS)
        except LimitError:
            return Verdict(Answer.UNKNOWN)
        except EvaluationError as error:
            absent = any(read.name == error.name for read in log.missing)
            answer = Answer.UNKNOWN if log.unknown else Answer.ABSENT if absent else Answer.ERROR
            return Verdict(answer, frozenset(log.missing), error.message, error.name)
        if value is True or value is False:
            return Verdict(Answer.YES if value else Answer.NO, frozenset(log.missing))
        return Verdict(Answer.ERROR, error="its result is no bool")

    def _value(self, log: "_Log") -> Device:
        fields: dict[str, Any] = {"driver": self.driver}
        for family in FAMILIES.values():
            domains = _Domains(log, family)
            for (kind, domain, name), value in self.values.items():
                if kind == family:
                    domains.setdefault(domain, _Values(log, family, domain))[name] = value
            fields[family] = domains
        fields[_SHARED.name] = self.values.get(_SHARED, False)
        return Device(fields)


class _Log:
    """What one evaluation asked for."""

    def __init__(self, varying: frozenset[Read]) -> None:
        self.varying = varying
        self.missing: set[Read] = set()
        self.unknown = False


class _Domains(DefaultMap):
    """Domains of attributes or capacities; unknown ones are empty."""

    __slots__ = ("_family", "_log")

    def __init__(self, log: _Log, family: Family) -> None:
        super().__init__()
        self._log = log
        self._family = family

    def __missing__(self, key: str) -> dict[str, Any]:
        return _Values(self._log, self._family, key)


class _Values(dict[str, Any]):
    """The values of a domain, which notes what is asked for."""

    __slots__ = ("_domain", "_family", "_log")

    def __init__(self, log: _Log, family: Family, domain: str) -> None:
        super().__init__()
        self._log = log
        self._family = family
        self._domain = domain

    def __getitem__(self, key: str) -> Any:
        if (self._family, self._domain, key) in self._log.varying and key in self:
            # An error stands for the unknown value: CEL's && and || treat both alike.
            self._log.unknown = True
            raise EvaluationError("not known of a model", name=key)
        return super().__getitem__(key)

    def __missing__(self, key: str) -> Any:
        self._log.missing.add(Read(self._family, self._domain, key))
        raise KeyError(key)


@cache
def models() -> tuple[KnownDevice, ...]:
    """Every model of the packaged profiles: whole GPUs, then MIG devices; each once."""
    found: dict[tuple[Any, ...], KnownDevice] = {}
    for name in profile_names():
        profile = load_profile(name)
        inventory = Inventory(
            available=True,
            driver_version=profile.driver_version,
            cuda_driver_version=profile.cuda_driver_version,
            gpus=profile.gpus_on("model"),
        )
        made = (each for each in build_devices(inventory, node=_ON_DEMAND) if each.target.kind == "partition")
        for device in (*build_devices(inventory), *_mig_devices(inventory), *made):
            model = _model(device)
            told = tuple(sorted((key, str(value)) for key, value in _told(model)))
            found.setdefault(told, model)
    return tuple(sorted(found.values(), key=lambda model: ", MIG " in model.label))


def _told(model: KnownDevice) -> Iterator[tuple[Read, Any]]:
    for name, value in model.values.items():
        yield name, None if name in model.varying else getattr(value, "nanos", getattr(value, "core", value))


def _mig_devices(inventory: Inventory) -> Iterator[BuiltDevice]:
    """A device of each MIG profile: more than fit onto a GPU at once, but each exists somewhere."""
    for gpu in inventory.gpus:
        if gpu.mig is not None:
            cut = tuple(
                MigDevice(f"MIG-{number}", number, 0, profile, profile.placements[0])
                for number, profile in enumerate(gpu.mig.profiles)
                if profile.placements
            )
            yield from build_devices(replace(inventory, gpus=(_in_mig_mode(gpu, cut),)))


def _in_mig_mode(gpu: Gpu, cut: tuple[MigDevice, ...]) -> Gpu:
    return replace(gpu, mig=gpu.mig and replace(gpu.mig, enabled=True, pending=True, devices=cut))


def _model(device: BuiltDevice) -> KnownDevice:
    values = _values(DRIVER_NAME, device.as_dict())
    label = str(values[Read("attributes", DRIVER_NAME, "productName")])
    profile = values.get(Read("attributes", DRIVER_NAME, "profile"))
    varying = frozenset(read for read in values if read.family == "attributes" and read[1:] in _VARYING)
    if profile:
        label += f", MIG {profile}"
        if Read("attributes", DRIVER_NAME, "uuid") not in values:
            label += " made on demand"
    return KnownDevice(label, DRIVER_NAME, values, varying)


def published(slices: Iterable[Manifest], *, lists: bool = False) -> Iterator[KnownDevice]:
    """The devices of slices; those with values that are none are left out: the API's rules say so."""
    for manifest in slices:
        spec = as_map(manifest.object.get("spec"))
        driver, pool = as_text(spec.get("driver")), as_text(as_map(spec.get("pool")).get("name"))
        for entry in map(as_map, as_list(spec.get("devices"))):
            body = {**entry, **as_map(entry.get("basic"))}
            label = f"{as_text(entry.get('name'))} of pool {pool}"
            device = known_device(label, driver, body, lists=lists)
            if device is not None:
                yield device


def known_device(
    label: str, driver: str, body: Mapping[str, Any], *, lists: bool = False
) -> KnownDevice | None:
    """A device as a slice of v1 has it; None where one of its values is none."""
    try:
        return KnownDevice(label, driver, _values(driver, body, lists=lists))
    except (EvaluationError, AttributeError, KeyError, TypeError):
        return None


def _values(driver: str, body: Mapping[str, Any], *, lists: bool = False) -> Mapping[Read, Any]:
    fields = device_value(driver, body, lists=lists)
    values: dict[Read, Any] = {}
    for family in FAMILIES.values():
        for domain, names in fields[family].items():
            values.update({Read(family, domain, name): value for name, value in names.items()})
    if fields[_SHARED.name]:
        values[_SHARED] = True
    return values


def stranger() -> KnownDevice:
    """A device of some other driver, which selectors of a class meet as well."""
    return KnownDevice("a device of another driver", "other.example.com", {})

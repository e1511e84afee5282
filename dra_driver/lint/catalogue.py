"""Names of attributes and capacities: which are known, which look like one that was meant."""

from collections.abc import Iterable

from dra_driver.devices.catalogue import ATTRIBUTES, CAPACITIES, Attribute, Capacity
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint.devices import KnownDevice
from dra_driver.lint.near import near
from dra_driver.quantity import Quantity
from dra_driver.selectors.reads import Family, Read

_SLICE = "memorySlice"
_PART = 4  # letters that a part of a name needs to be taken for it
OTHER: dict[Family, Family] = {"attributes": "capacity", "capacity": "attributes"}


def entry(read: Read) -> Attribute | Capacity | None:
    """The catalogue's entry of a value of our devices."""
    family, domain, identifier = read
    if family == "capacity" and identifier.startswith(_SLICE) and identifier.removeprefix(_SLICE).isdigit():
        identifier = f"{_SLICE}0"
    entries = ATTRIBUTES if family == "attributes" else CAPACITIES
    return next((e for e in entries if (e.domain, e.identifier) == (domain, identifier)), None)


def names(devices: Iterable[KnownDevice]) -> set[Read]:
    """All values that these devices carry, and those of the catalogue where one of them is ours."""
    devices = tuple(devices)
    known = {read for device in devices for read in device.values if read.domain}
    if any(device.driver == DRIVER_NAME for device in devices):
        known |= {Read("attributes", e.domain, e.identifier) for e in ATTRIBUTES}
        known |= {Read("capacity", e.domain, e.identifier) for e in CAPACITIES}
    return known


def near_domain(domain: str, known: Iterable[str], drivers: Iterable[str]) -> str | None:
    """The domain that was meant: one that is written alike, else the only driver's."""
    drivers = set(drivers)
    return near(domain, sorted(known), 0.75) or (drivers.pop() if len(drivers) == 1 else None)


def near_name(read: Read, known: Iterable[Read]) -> Read | None:
    """The value that was meant: the same name elsewhere, else one that is written alike."""
    by_text: dict[str, list[Read]] = {}
    for one in sorted(known, key=lambda one: (one.family != read.family, one.domain != read.domain, one)):
        by_text.setdefault(_folded(one.name), []).append(one)
    wanted = _folded(read.name)
    # numa for numaNode, cudaCapability for cudaComputeCapability: a part of the name is a good guess as well.
    parts = (text for text in by_text if len(wanted) >= _PART and (wanted in text or text in wanted))
    close = near(wanted, by_text, 0.7) or next(parts, None)
    return None if close is None else by_text[close][0]


def _folded(identifier: str) -> str:
    return identifier.lower().replace("_", "").replace("-", "")


def value_type(read: Read, devices: Iterable[KnownDevice]) -> str | None:
    """'quantity', 'version', 'string', 'int' or 'bool': what a value is; None where nobody knows."""
    if read.family == "capacity":
        return "quantity"
    known = entry(read)
    if isinstance(known, Attribute):
        return known.type
    for device in devices:
        if read in device.values:
            value = device.values[read]
            kind = {bool: "bool", int: "int", str: "string"}.get(type(value))
            return kind or "version"
    return None


def shown_memory(nanos: int) -> str:
    """A capacity of bytes for people: 81559Mi (79.6Gi)."""
    amount = Quantity.of_bytes(nanos // 10**9)
    text, gibibytes = str(amount), nanos / 10**9 / 2**30
    return text if text.endswith("Gi") or gibibytes < 1 else f"{text} ({gibibytes:.1f}Gi)"

"""What is known beside the files: the devices and classes of a cluster.

A cluster has tens of thousands of devices, and few kinds of them: most differ only in what is each device's own, such as
its UUID. Rules judge kinds, so a `Census` counts devices that are alike and keeps one of them to try selectors on; what
is each device's own is unknown of a kind, as it is of a model.
"""

import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint.claims import DeviceClass
from dra_driver.lint.devices import STANDARD, KnownDevice, known_device
from dra_driver.selectors.reads import Read

_OWN = frozenset({"uuid", "parentUUID", "nvlinkClique", "fabricClusterUUID", "fabricCliqueID"})
_OWN |= {f"{DRIVER_NAME}/{name}" for name in _OWN} | {
    f"{STANDARD}/{name}" for name in ("pciBusID", "pcieRoot")
}

_Kind = tuple[str, str]  # driver, and all that is not each device's own
Kinds = tuple[_Kind, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A cluster, as far as rules ask about it.

    `has_claims`: the claims and templates that Pods name are given along where they exist, so others do not.
    """

    devices: tuple[KnownDevice, ...] = ()
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    has_claims: bool = False


class Census:
    """The kinds of devices in slices that come and go; thread-safe.

    `lists`: whether attributes may be lists of values.
    """

    def __init__(self, *, lists: bool = False) -> None:
        self._lists = lists
        self._lock = threading.Lock()
        self._slices: dict[str, Kinds] = {}
        self._counts: Counter[_Kind] = Counter()
        self._known: dict[
            _Kind, tuple[_Kind, KnownDevice]
        ] = {}  # each kind once, however many slices have it

    def kinds(self, spec: Mapping[str, Any]) -> Kinds:
        """The kind of each device of a slice of v1; devices with values that are none are left out."""
        driver, pool = str(spec.get("driver")), (spec.get("pool") or {}).get("name")
        found = []
        for body in spec.get("devices") or ():
            kind = _kind(driver, body)
            with self._lock:
                known = self._known.get(kind)
            if known is None:
                label = f"{body.get('name')} of pool {pool}"
                device = known_device(label, driver, body, lists=self._lists)
                if device is None:
                    continue
                known = kind, replace(device, varying=_own(device))
                with self._lock:
                    self._known[kind] = known
            found.append(known[0])
        return tuple(found)

    def put(self, name: str, kinds: Kinds) -> None:
        """A slice as it is now."""
        with self._lock:
            before, self._slices[name] = self._slices.get(name, ()), kinds
            self._counts.update(kinds)
            self._counts.subtract(before)

    def remove(self, name: str) -> None:
        """A slice that is no more."""
        with self._lock:
            self._counts.subtract(self._slices.pop(name, ()))

    def devices(self) -> tuple[KnownDevice, ...]:
        """One device of each kind, with how many there are."""
        with self._lock:
            counted = [(self._known[kind][1], count) for kind, count in self._counts.items() if count]
        return tuple(replace(device, count=count) for device, count in counted)


def _kind(driver: str, body: Mapping[str, Any]) -> _Kind:
    attributes = {name: value for name, value in (body.get("attributes") or {}).items() if name not in _OWN}
    told = [attributes, body.get("capacity"), bool(body.get("allowMultipleAllocations"))]
    return driver, json.dumps(told, sort_keys=True)


def _own(device: KnownDevice) -> frozenset[Read]:
    attributes = (read for read in device.values if read.family == "attributes")
    return frozenset(one for one in attributes if one.name in _OWN or f"{one.domain}/{one.name}" in _OWN)

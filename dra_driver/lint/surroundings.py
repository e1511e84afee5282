"""What is known beside the files: the devices and classes of a cluster.

A cluster has tens of thousands of devices, and few kinds of them: most differ only in what is each device's own, such as
its UUID. Rules judge kinds, so a `Census` counts devices that are alike and keeps one of them to try selectors on; what
is each device's own is unknown of a kind, as it is of a model.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint.claims import DeviceClass
from dra_driver.lint.devices import FAMILIES, KnownDevice, Name, known_device

_STANDARD = "resource.kubernetes.io"
_OWN = frozenset({"uuid", "parentUUID", "nvlinkClique", "fabricClusterUUID", "fabricCliqueID"})
_OWN |= {f"{DRIVER_NAME}/{name}" for name in _OWN} | {
    f"{_STANDARD}/{name}" for name in ("pciBusID", "pcieRoot")
}

_Kind = tuple[str, str]  # driver, and all that is not each device's own


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A cluster, as far as rules ask about it."""

    devices: tuple[KnownDevice, ...] = ()
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)


class Census:
    """The kinds of devices in slices that come and go; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slices: dict[str, list[_Kind]] = {}  # the kind of each device of a slice
        self._kinds: dict[_Kind, KnownDevice] = {}  # with their counts

    def put(self, name: str, spec: Mapping[str, Any]) -> None:
        """A slice, in v1, as it is now. Devices with values that are none are not counted."""
        driver = str(spec.get("driver"))
        pool = (spec.get("pool") or {}).get("name")
        with self._lock:
            self._remove(name)
            kinds = self._slices[name] = []
            for body in spec.get("devices") or ():
                kind = _kind(driver, body)
                if kind not in self._kinds:
                    device = known_device(f"{body.get('name')} of pool {pool}", driver, body)
                    if device is None:
                        continue
                    self._kinds[kind] = replace(device, varying=_own(device), count=0)
                kinds.append(kind)
                self._count(kind, 1)

    def remove(self, name: str) -> None:
        """A slice that is no more."""
        with self._lock:
            self._remove(name)

    def devices(self) -> tuple[KnownDevice, ...]:
        """One device of each kind, with how many there are."""
        with self._lock:
            return tuple(self._kinds.values())

    def _remove(self, name: str) -> None:
        for kind in self._slices.pop(name, ()):
            self._count(kind, -1)

    def _count(self, kind: _Kind, more: int) -> None:
        known = self._kinds[kind]
        if known.count + more:
            self._kinds[kind] = replace(known, count=known.count + more)
        else:
            del self._kinds[kind]


def _kind(driver: str, body: Mapping[str, Any]) -> _Kind:
    attributes = {name: value for name, value in (body.get("attributes") or {}).items() if name not in _OWN}
    told = [attributes, body.get("capacity"), bool(body.get("allowMultipleAllocations"))]
    return driver, json.dumps(told, sort_keys=True)


def _own(device: KnownDevice) -> frozenset[Name]:
    names = (name for name in device.values if name[0] == FAMILIES[0])
    return frozenset(n for n in names if n[2] in _OWN or f"{n[1]}/{n[2]}" in _OWN)

"""What the kubelet remembers of claims: which Pods use them, and what the drivers answered.

Kept in a file in the format of the real kubelet (`dra_manager_state`: JSON with its own CRC-32), written before
a driver is called and after it answered, so that a claim is unprepared even if the kubelet was restarted in
between. That a claim is prepared is remembered in memory alone: after a restart drivers are called again, and
what they answer is added to what is known already, without removing doubles. A driver must therefore give the
same answer again, and tests of ours rely on being hurt if it does not.
"""

import json
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_driver import files
from dra_driver.embedded.kubelet.errors import KubeletError
from dra_driver.errors import RecordError

_KIND = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}


@dataclass(frozen=True, slots=True)
class Device:
    """A prepared device, as its driver described it."""

    pool: str
    device: str
    share_id: str | None
    request_names: tuple[str, ...]  # empty: for all requests of the claim
    cdi_ids: tuple[str, ...]


@dataclass(slots=True)
class ClaimInfo:
    """A claim that Pods of this node use. `drivers` has all that were allocated from, with or without devices."""

    namespace: str
    name: str
    uid: str
    drivers: dict[str, list[Device]]
    pod_uids: set[str] = field(default_factory=set)
    prepared: bool = False
    leaving: bool = False  # it is being unprepared for its last Pod

    def cdi_ids(self, request: str) -> list[str]:
        """The CDI ids of the devices for a request; of all devices for ""."""
        return [
            cdi_id
            for devices in self.drivers.values()
            for device in devices
            if not request or not device.request_names or request in device.request_names
            for cdi_id in device.cdi_ids
        ]


class ClaimCache:
    """The claims by namespace and name, saved to `path`. Take `lock` around what must not be interleaved."""

    def __init__(self, path: Path) -> None:
        """Read what an earlier kubelet saved; RecordError where the file is damaged."""
        self.lock = threading.RLock()
        self._path = path
        self._claims = {(info.namespace, info.name): info for info in _read(path)}

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._claims.get((namespace, name))

    def add(self, info: ClaimInfo) -> None:
        self._claims[info.namespace, info.name] = info

    def delete(self, namespace: str, name: str) -> None:
        self._claims.pop((namespace, name), None)

    def all(self) -> list[ClaimInfo]:
        with self.lock:
            return list(self._claims.values())

    @contextmanager
    def saving(self, what: str) -> Iterator[None]:
        """Hold the lock, then save; KubeletError names `what` could not be saved."""
        with self.lock:
            yield
            try:
                files.write_atomic(self._path, _encode(self._claims.values()), sync=False)
            except OSError as error:
                raise KubeletError(
                    f"checkpoint {what}: could not save checkpoint {self._path.name}: {error}"
                ) from error


def _encode(claims: Any) -> bytes:
    states = [
        {
            "ClaimUID": info.uid,
            "ClaimName": info.name,
            "Namespace": info.namespace,
            "PodUIDs": {uid: {} for uid in sorted(info.pod_uids)},
            "DriverState": {
                driver: {"Devices": [_device_state(device) for device in devices]}
                for driver, devices in info.drivers.items()
            },
        }
        for info in claims
    ]
    data = json.dumps({**_KIND, "ClaimInfoStateList": states}, separators=(",", ":"))
    return json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())}).encode()


def _device_state(device: Device) -> dict[str, Any]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.device,
        "ShareID": device.share_id,
        "RequestNames": list(device.request_names),
        "CDIDeviceIDs": list(device.cdi_ids),
    }


def _read(path: Path) -> list[ClaimInfo]:
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError:
        return []
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(
            f"the kubelet's claim checkpoint {path} cannot be read ({error}); delete the file to start without it"
        ) from error


def _decode(content: bytes) -> list[ClaimInfo]:
    body = json.loads(content)
    if zlib.crc32(body["Data"].encode()) != body["Checksum"]:
        raise ValueError("wrong checksum")
    return [_claim(state) for state in json.loads(body["Data"])["ClaimInfoStateList"] or ()]


def _claim(state: dict[str, Any]) -> ClaimInfo:
    drivers = {
        driver: [
            Device(
                device["PoolName"],
                device["DeviceName"],
                device.get("ShareID"),
                tuple(device.get("RequestNames") or ()),
                tuple(device.get("CDIDeviceIDs") or ()),
            )
            for device in content.get("Devices") or ()
        ]
        for driver, content in (state["DriverState"] or {}).items()
    }
    return ClaimInfo(
        state["Namespace"], state["ClaimName"], state["ClaimUID"], drivers, set(state["PodUIDs"] or ())
    )

"""What is kept of a prepared claim, and its form on disk.

    {"checksum": "sha256:...", "record": {"version": 1, "uid": ..., "devices": [...], ...}}

The checksum is over the bytes of the inner object as they stand in the file, not over what another version of
this code would write for it: a new field must never make older files look damaged. Fields that this version
does not know are kept and written again, so that going back and forth between versions loses nothing. A
change that older code must not misread raises `VERSION`, with an entry in `UPGRADES`.

A record keeps hardware identities and the published form of its devices, and no container edits: those are
resolved anew each time.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dra_driver.config.settings import Setting
from dra_driver.devices.model import Device, device_from_dict, target_from_dict
from dra_driver.errors import RecordError
from dra_driver.prepare.claim import ClaimRef
from dra_driver.steps import Partition
from dra_driver.strictjson import compact

VERSION = 2
# From the version in the key to the next; 2 has steps, and is written only where there are some, so that releases that
# cannot undo them leave such a record alone and read all others.
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: lambda body: body | {"version": 2}}
_WITHOUT_STEPS = 1

_FRAME = re.compile(rb'\{"checksum":"sha256:([0-9a-f]{64})","record":(.*)\}\n', re.DOTALL)


class NewerRecordError(RecordError):
    """A record of a release that is newer than this one; not damaged, and of use again after an upgrade."""


class State(StrEnum):
    """How far a claim's preparation got."""

    STARTED = "started"  # hardware may be changed; to be undone, not to be used
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class RecordedDevice:
    """A device of a prepared claim; one entry for all requests that got it under the same share."""

    device: Device  # as published when it was prepared
    pool: str
    requests: tuple[str, ...]  # base names
    share_id: str | None = None
    admin_access: bool = False
    subrequests: tuple[str, ...] = ()  # "req/sub", of requests with alternatives
    partition: Partition | None = None  # the MIG device that was made for it
    memory: int | None = None  # bytes of it that the share consumes
    setting: Setting | None = None  # how it is shared; None: nothing was asked for
    extra: Mapping[str, Any] = field(default_factory=dict)  # fields of other versions

    @property
    def name(self) -> str:
        return self.device.name

    def as_dict(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            **self.extra,
            "published": self.device.published,
            "target": self.device.target.as_dict(),
            "pool": self.pool,
            "requests": list(self.requests),
        }
        if self.share_id is not None:
            body["shareID"] = self.share_id
        if self.admin_access:
            body["adminAccess"] = True
        if self.subrequests:
            body["subrequests"] = list(self.subrequests)
        if self.memory is not None:
            body["consumedMemory"] = self.memory
        if self.setting is not None:
            body["sharing"] = {"setting": self.setting.text, "exclusive": self.setting.exclusive}
        if self.partition is not None:
            body["migDevice"] = {
                "uuid": self.partition.uuid,
                "gpuInstance": self.partition.gpu_instance,
                "computeInstance": self.partition.compute_instance,
            }
        return body


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A change to the node that was made for the claim, or begun; see `dra_driver.steps`."""

    kind: str
    locks: tuple[str, ...]
    state: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "locks": list(self.locks), "state": dict(self.state)}


@dataclass(frozen=True, slots=True)
class Record:
    """A claim that holds devices of this node."""

    ref: ClaimRef
    boot_id: str
    state: State
    devices: tuple[RecordedDevice, ...]
    pod_claim_name: str | None = None  # of a claim that was made from a Pod's template
    steps: tuple[RecordedStep, ...] = ()  # in the order in which they were made
    extra: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        made_from = {} if self.pod_claim_name is None else {"podClaimName": self.pod_claim_name}
        steps = {"steps": [step.as_dict() for step in self.steps]} if self.steps else {}
        return {
            **self.extra,
            "version": VERSION if self.steps else _WITHOUT_STEPS,
            "uid": self.ref.uid,
            "namespace": self.ref.namespace,
            "name": self.ref.name,
            "bootID": self.boot_id,
            "state": str(self.state),
            **made_from,
            "devices": [device.as_dict() for device in self.devices],
            **steps,
        }


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device of a claim as the kubelet is told of it."""

    request_names: tuple[str, ...]  # base names
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str | None = None


def encode(record: Record) -> bytes:
    """The file of a record."""
    body = compact(record.as_dict()).encode()
    checksum = hashlib.sha256(body).hexdigest().encode()
    return b'{"checksum":"sha256:' + checksum + b'","record":' + body + b"}\n"


def decode(data: bytes) -> Record:
    """The inverse of `encode`, also of older versions; RecordError says what is wrong with `data`."""
    frame = _FRAME.fullmatch(data)
    if frame is None:
        raise RecordError("it is cut off, or no record" if data else "it is empty")
    checksum, body = frame.groups()
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        raise RecordError("its content does not match its checksum")
    try:
        return _from_dict(_upgrade(json.loads(body)))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"its content is none of version {VERSION} or older ({error!r})") from error


def _upgrade(body: dict[str, Any]) -> dict[str, Any]:
    while body["version"] < VERSION:
        body = UPGRADES[body["version"]](body)
    if body["version"] != VERSION:
        raise NewerRecordError(f"it is of version {body['version']}, this release knows {VERSION}")
    return body


def _from_dict(body: dict[str, Any]) -> Record:
    fields = dict(body)
    del fields["version"]
    pod_claim_name = fields.pop("podClaimName", None)
    return Record(
        ref=ClaimRef(str(fields.pop("namespace")), str(fields.pop("name")), str(fields.pop("uid"))),
        boot_id=str(fields.pop("bootID")),
        state=State(fields.pop("state")),
        devices=tuple(_device_from_dict(device) for device in fields.pop("devices")),
        pod_claim_name=None if pod_claim_name is None else str(pod_claim_name),
        steps=tuple(_step_from_dict(step) for step in fields.pop("steps", ())),
        extra=fields,
    )


def _device_from_dict(body: dict[str, Any]) -> RecordedDevice:
    fields = dict(body)
    share_id, memory = fields.pop("shareID", None), fields.pop("consumedMemory", None)
    return RecordedDevice(
        device=device_from_dict(fields.pop("published"), target_from_dict(fields.pop("target"))),
        pool=str(fields.pop("pool")),
        requests=tuple(str(request) for request in fields.pop("requests")),
        share_id=None if share_id is None else str(share_id),
        admin_access=bool(fields.pop("adminAccess", False)),
        subrequests=tuple(str(name) for name in fields.pop("subrequests", ())),
        partition=_partition_from_dict(fields.pop("migDevice", None)),
        memory=None if memory is None else int(memory),
        setting=_setting_from_dict(fields.pop("sharing", None)),
        extra=fields,
    )


def _setting_from_dict(body: dict[str, Any] | None) -> Setting | None:
    return None if body is None else Setting(str(body["setting"]), bool(body["exclusive"]))


def _partition_from_dict(body: dict[str, Any] | None) -> Partition | None:
    if body is None:
        return None
    return Partition(str(body["uuid"]), int(body["gpuInstance"]), int(body["computeInstance"]))


def _step_from_dict(body: dict[str, Any]) -> RecordedStep:
    locks = tuple(str(name) for name in body["locks"])
    return RecordedStep(str(body["kind"]), locks, dict(body["state"]))

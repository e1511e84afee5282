"""A DRA device: its published form, and the hardware it stands for.

The published form is what a ResourceSlice carries; `Target` is what Prepare acts on. Both travel together, so
that a name that the scheduler allocated is always resolved to one piece of hardware by its UUID. `as_dict`
and `device_from_dict` are inverse: records keep a held device in its published form.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

from dra_driver.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version attribute."""

    text: str


AttributeValue = str | bool | int | Version


@dataclass(frozen=True, slots=True)
class Taint:
    """A device taint; `effect` is None (as text: informational), NoSchedule or NoExecute."""

    key: str
    value: str | None
    effect: Literal["None", "NoSchedule", "NoExecute"]

    def as_dict(self) -> dict[str, Any]:
        value = {} if self.value is None else {"value": self.value}
        return {"key": self.key, **value, "effect": self.effect}


@dataclass(frozen=True, slots=True)
class CounterConsumption:
    """What a device takes from one counter set of its pool."""

    counter_set: str
    counters: Mapping[str, Quantity]

    def as_dict(self) -> dict[str, Any]:
        counters = {name: {"value": str(value)} for name, value in self.counters.items()}
        return {"counterSet": self.counter_set, "counters": counters}


@dataclass(frozen=True, slots=True)
class CounterSet:
    """A set of counters that devices of the pool share."""

    name: str
    counters: Mapping[str, Quantity]

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "counters": {name: {"value": str(v)} for name, v in self.counters.items()}}


@dataclass(frozen=True, slots=True)
class Limits:
    """Amounts from `minimum` to `maximum`; with a step, only the minimum and multiples of it more."""

    minimum: Quantity
    maximum: Quantity
    step: Quantity | None = None

    def as_dict(self) -> dict[str, str]:
        limits = {"min": str(self.minimum), "max": str(self.maximum)}
        return limits if self.step is None else {**limits, "step": str(self.step)}


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """What a claim may ask of a capacity that several allocations share: without limits, what is left."""

    default: Quantity  # what an allocation takes that names no amount
    limits: Limits | None = None

    def as_dict(self) -> dict[str, Any]:
        default = {"default": str(self.default)}
        return default if self.limits is None else {**default, "validRange": self.limits.as_dict()}


TargetKind = Literal["gpu", "mig", "partition"]


@dataclass(frozen=True, slots=True)
class Target:
    """The hardware behind a device name, by identities that survive re-enumeration.

    A partition is a MIG device that Prepare makes: a profile at a place, without a UUID until then.
    """

    kind: TargetKind
    uuid: str  # "GPU-..." or "MIG-..."; "" of a partition
    gpu_uuid: str  # of the physical GPU; equal to uuid for a whole GPU
    pci_address: str  # of the physical GPU
    profile_id: int | None = None  # of a partition: the driver's, as `MigProfile.id`
    start: int | None = None  # of a partition: first memory slice

    def as_dict(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": self.kind,
            "uuid": self.uuid,
            "gpuUUID": self.gpu_uuid,
            "pciAddress": self.pci_address,
        }
        place = {"profileID": self.profile_id, "start": self.start}
        return body | {key: number for key, number in place.items() if number is not None}


@dataclass(frozen=True, slots=True)
class Device:
    """A device of our pool."""

    name: str
    target: Target
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    consumes: tuple[CounterConsumption, ...] = ()
    allow_multiple_allocations: bool = False
    policies: Mapping[str, RequestPolicy] = field(default_factory=dict)  # by capacity
    _published: Mapping[str, Any] | None = field(default=None, init=False, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The device as resource.k8s.io/v1 writes it; empty parts are left out, as the server would."""
        body: dict[str, Any] = {"name": self.name}
        if self.attributes:
            body["attributes"] = {key: _attribute_dict(value) for key, value in self.attributes.items()}
        if self.capacity:
            body["capacity"] = {key: self._capacity_dict(key) for key in self.capacity}
        if self.consumes:
            body["consumesCounters"] = [consumption.as_dict() for consumption in self.consumes]
        if self.taints:
            body["taints"] = [taint.as_dict() for taint in self.taints]
        if self.allow_multiple_allocations:
            body["allowMultipleAllocations"] = True
        return body

    @property
    def published(self) -> Mapping[str, Any]:
        """`as_dict`, made once and not to be changed: each Prepare of the device writes it down."""
        if self._published is None:
            object.__setattr__(self, "_published", self.as_dict())
        assert self._published is not None
        return self._published

    def _capacity_dict(self, name: str) -> dict[str, Any]:
        policy = self.policies.get(name)
        body = {"value": str(self.capacity[name])}
        return body if policy is None else {**body, "requestPolicy": policy.as_dict()}


def _attribute_dict(value: AttributeValue) -> dict[str, str | bool | int]:
    match value:
        case Version(text):
            return {"version": text}
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case str():
            return {"string": value}


def target_from_dict(body: Mapping[str, Any]) -> Target:
    """The inverse of `Target.as_dict`; KeyError and ValueError where it is not one."""
    kind = body["kind"]
    if kind not in get_args(TargetKind):
        msg = f"unknown device kind {kind!r}"
        raise ValueError(msg)
    identity = (str(body["uuid"]), str(body["gpuUUID"]), str(body["pciAddress"]))
    if kind != "partition":
        return Target(kind, *identity)
    return Target(kind, *identity, int(body["profileID"]), int(body["start"]))


def device_from_dict(body: Mapping[str, Any], target: Target) -> Device:
    """The inverse of `Device.as_dict`, for the device that `target` is."""
    capacity = body.get("capacity", {})
    return Device(
        name=str(body["name"]),
        target=target,
        attributes={key: _attribute_value(value) for key, value in body.get("attributes", {}).items()},
        capacity={key: Quantity.parse(value["value"]) for key, value in capacity.items()},
        taints=tuple(Taint(t["key"], t.get("value"), t["effect"]) for t in body.get("taints", ())),
        consumes=tuple(
            CounterConsumption(
                c["counterSet"], {name: Quantity.parse(v["value"]) for name, v in c["counters"].items()}
            )
            for c in body.get("consumesCounters", ())
        ),
        allow_multiple_allocations=bool(body.get("allowMultipleAllocations", False)),
        policies={
            key: _policy(value["requestPolicy"])
            for key, value in capacity.items()
            if "requestPolicy" in value
        },
    )


def _policy(body: Mapping[str, Any]) -> RequestPolicy:
    default, bounds = Quantity.parse(body["default"]), body.get("validRange")
    if bounds is None:
        return RequestPolicy(default)
    low, high, step = (bounds.get(name) for name in ("min", "max", "step"))
    limits = Limits(Quantity.parse(low), Quantity.parse(high), None if step is None else Quantity.parse(step))
    return RequestPolicy(default, limits)


def _attribute_value(body: Mapping[str, Any]) -> AttributeValue:
    (kind, value), *more = body.items()
    if more:
        msg = f"an attribute has one value, this one has {len(body)}"
        raise ValueError(msg)
    match kind:
        case "version":
            return Version(str(value))
        case "bool":
            return bool(value)
        case "int":
            return int(value)
        case "string":
            return str(value)
        case _:
            msg = f"unknown kind of attribute value {kind!r}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device that a record holds for a claim, in the form it was published in when it was prepared."""

    device: Device
    claim: str  # "namespace/name", for messages
    claim_uid: str


class NoteReason(StrEnum):
    """Why a note was made: few and fixed, so fit for a metric's label."""

    VALUE_DROPPED = "value-dropped"  # an attribute or capacity that no API server would take
    GPU_FAULT = "gpu-fault"
    MIG_EMPTY = "mig-empty"  # in MIG mode without MIG devices: nothing of the GPU is published
    MIG_PENDING = "mig-pending"  # the MIG mode changes with the next reset
    MIG_MODE = "mig-mode"  # not offered as the node configuration says
    NOT_SHARED = "not-shared"  # for one claim at a time, though the node configuration says otherwise
    DUPLICATE = "duplicate"  # two pieces of hardware with one name
    HELD_LOST = "held-lost"  # a claim holds a device whose hardware is gone, sick or changed
    HELD_BACK = "held-back"  # a device is not offered, since a claim holds its hardware under another name


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a person should know about what is published, or not: one sentence."""

    reason: NoteReason
    device: str  # the name of the device, published or not
    message: str


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """All devices of the node's pool, in the order in which the scheduler shall try them.

    Sets are equal when they are published alike, whatever their notes.
    """

    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    notes: tuple[Note, ...] = field(default=(), compare=False)
    _by_name: Mapping[str, Device] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {device.name: device for device in self.devices})

    def get(self, name: str) -> Device | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Device]:
        return iter(self.devices)

    def __len__(self) -> int:
        return len(self.devices)

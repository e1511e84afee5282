"""What has to be written so that a pool's slices are as desired. Pure.

These are the rules of Kubernetes' own controller (k8s.io/dynamic-resource-allocation/resourceslice), so that
replacing a driver that uses it, or being replaced by one, does not churn slices:

* Slices of one pool carry the same generation and their total number; readers ignore lower generations, and a
  pool whose numbers do not add up. A slice's place is the hex index in front of its generated name.
* The generation goes up when a slice has to be created or more than one has to change, and then all are written.
  So a pool of one slice keeps its generation for ever.
* Slices of a lower generation, without an index, beyond the last one, or second to claim one are deleted. Of two
  with one index the older stays: two instances of the driver, as during an update, then agree on it.
* All slices of our driver on our node that belong to another pool are deleted. They are left from another
  release or another driver of our name, and their devices are the same hardware under other names.

Beyond those rules, a slice's owner must be the Node as it is now, as it would be collected with the former one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_driver.kube.resources import RESOURCE_SLICES
from dra_driver.slices.compare import fingerprint, taint_key
from dra_driver.slices.pack import Content

_MIN_INDEX_DIGITS = 5
_HEX = re.compile(r"^[0-9a-f]+$")
_FOREIGN = ("nodeSelector", "allNodes", "perDeviceNodeSelection")

Slice = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pool:
    """Whose slices these are."""

    driver: str
    node: str
    name: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes, in this order; each of `update` and `create` has its slice's index."""

    generation: int
    delete: tuple[Slice, ...] = ()
    update: tuple[tuple[int, dict[str, Any]], ...] = ()
    create: tuple[tuple[int, dict[str, Any]], ...] = ()
    repairs: bool = False  # something is missing or there twice, rather than just different

    def __bool__(self) -> bool:
        return bool(self.delete or self.update or self.create)


def plan(
    existing: Iterable[Slice],
    desired: Sequence[Content],
    pool: Pool,
    *,
    node_uid: str,
    kept: Mapping[str, str] | None = None,
) -> Plan:
    """The writes that lead from `existing`, our driver's slices on the node, to `desired`.

    `kept` maps fingerprints of contents to those of what the server made of them before; that is as good.
    """
    known = list(existing)
    mine = [candidate for candidate in known if candidate["spec"]["pool"]["name"] == pool.name]
    foreign = [candidate for candidate in known if candidate["spec"]["pool"]["name"] != pool.name]
    count = len(desired)
    current = max((_generation(candidate) for candidate in mine), default=0)
    obsolete: list[Slice] = []
    matched: dict[int, Slice] = {}
    twice = False
    for candidate in sorted(mine, key=_age):
        index = _index(candidate, count)
        if _generation(candidate) < current or index is None:
            obsolete.append(candidate)
        elif index in matched:
            twice = True
            obsolete.append(candidate)
        else:
            matched[index] = candidate
    changed = [
        index
        for index, candidate in matched.items()
        if not _as_desired(candidate, desired[index], _pool_spec(pool, current, count), node_uid, kept or {})
    ]
    missing = [index for index in range(count) if index not in matched]
    generation = current + 1 if missing or len(changed) > 1 else current
    pool_spec = _pool_spec(pool, generation, count)
    to_update = sorted(matched if generation > current else changed)
    return Plan(
        generation=generation,
        delete=(*foreign, *obsolete),
        update=tuple(
            (index, _updated(matched[index], desired[index], pool, pool_spec, node_uid))
            for index in to_update
        ),
        create=tuple((index, _new(index, desired[index], pool, pool_spec, node_uid)) for index in missing),
        repairs=twice or bool(missing),
    )


def _generation(candidate: Slice) -> int:
    return candidate["spec"]["pool"].get("generation") or 0


def _age(candidate: Slice) -> tuple[str, str]:
    metadata = candidate["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def _index(candidate: Slice, count: int) -> int | None:
    """The place of a slice by its name, among `count` of them."""
    digits = max(_MIN_INDEX_DIGITS, len(f"{max(count - 1, 0):x}"))
    prefix, dash, _ = candidate["metadata"]["name"].partition("-")
    if not dash or len(prefix) != digits or not _HEX.match(prefix):
        return None
    index = int(prefix, 16)
    return index if index < count else None


def _pool_spec(pool: Pool, generation: int, count: int) -> dict[str, Any]:
    return {"name": pool.name, "generation": generation, "resourceSliceCount": count}


def _as_desired(
    candidate: Slice, content: Content, pool_spec: Mapping[str, Any], node_uid: str, kept: Mapping[str, str]
) -> bool:
    spec = candidate["spec"]
    if {"generation": 0, **spec["pool"]} != pool_spec or any(spec.get(name) for name in _FOREIGN):
        return False
    owners = candidate["metadata"].get("ownerReferences") or []
    if [owner["uid"] for owner in owners if owner.get("controller")] != [node_uid]:
        return False
    wanted, found = fingerprint(content.as_spec()), fingerprint(spec)
    return found in {wanted, kept.get(wanted)}


def _owner(pool: Pool, node_uid: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Node", "name": pool.node, "uid": node_uid, "controller": True}]


def _new(
    index: int, content: Content, pool: Pool, pool_spec: Mapping[str, Any], node_uid: str
) -> dict[str, Any]:
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {
            "generateName": f"{index:0{_MIN_INDEX_DIGITS}x}-{pool.driver}-{pool.node}-",
            "ownerReferences": _owner(pool, node_uid),
        },
        "spec": {
            "driver": pool.driver,
            "nodeName": pool.node,
            "pool": dict(pool_spec),
            **content.as_spec(),
        },
    }


def _updated(
    candidate: Slice, content: Content, pool: Pool, pool_spec: Mapping[str, Any], node_uid: str
) -> dict[str, Any]:
    """`candidate` with our part replaced; what else it carries (labels, fields of later versions) stays."""
    spec = {
        name: value
        for name, value in candidate["spec"].items()
        if name not in {"devices", "sharedCounters", *_FOREIGN}
    }
    metadata = {
        name: value
        for name, value in candidate["metadata"].items()
        if name != "managedFields"  # the server keeps its own books
    }
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {**metadata, "ownerReferences": _owner(pool, node_uid)},
        "spec": {**spec, "pool": dict(pool_spec), **_with_times(content.as_spec(), candidate["spec"])},
    }


def _with_times(content: dict[str, Any], former: Mapping[str, Any]) -> dict[str, Any]:
    """`content` whose taints were added when they were: a new time would restart tolerationSeconds."""
    times = {
        (device.get("name"), taint_key(taint)): taint["timeAdded"]
        for device in former.get("devices") or ()
        for taint in device.get("taints") or ()
        if taint.get("timeAdded")
    }
    devices = content.get("devices")
    if not times or not devices:
        return content
    return {**content, "devices": [_device_with_times(device, times) for device in devices]}


def _device_with_times(
    device: Mapping[str, Any], times: Mapping[tuple[Any, tuple[str, str, str]], str]
) -> Mapping[str, Any]:
    if not device.get("taints"):
        return device
    taints = []
    for taint in device["taints"]:
        added = times.get((device["name"], taint_key(taint)))
        taints.append({**taint, "timeAdded": added} if added else taint)
    return {**device, "taints": taints}

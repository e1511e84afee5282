"""What lint asks a cluster: which devices and classes there are, and the objects that Pods or the user mean.

Claims that were made from a template, or for an extended resource, are known and not judged: nobody can edit them, and
what is wrong with them is wrong with the template. Nor are the classes that come with the driver: that a cluster has no
MIG devices now is no mistake.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.cli import live
from dra_driver.cli.worlds import packaged_classes
from dra_driver.kube.client import Client
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_driver.lint import Census, Surroundings
from dra_driver.lint.devices import KnownDevice

Object = Mapping[str, Any]
Named = tuple[str, Object]
_MADE = ("resource.kubernetes.io/pod-claim-name", "resource.kubernetes.io/extended-resource-claim")


@dataclass(frozen=True, slots=True)
class Found:
    """A cluster as lint needs it; `objects` are those to judge, `known` those that they may name, classes included."""

    surroundings: Surroundings
    objects: tuple[Named, ...]
    known: tuple[Named, ...]


def read_cluster(client: Client, namespace: str | None, *, judged: bool, lists: bool) -> Found:
    """The cluster; with `judged` also the Pods of a namespace, or of all (None), which take long to list.

    What files name may be in any namespace, so without `judged` claims and templates are taken from all.
    """
    named: tuple[Resource, ...] = (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, *((PODS,) if judged else ()))
    wanted = {
        RESOURCE_SLICES: None,
        DEVICE_CLASSES: None,
        **dict.fromkeys(named, namespace if judged else None),
    }
    found = live.listed(client, wanted)
    objects = [*_named(found, DEVICE_CLASSES), *(one for kind in named for one in _named(found, kind))]
    surroundings = Surroundings(_devices(found[RESOURCE_SLICES], lists=lists), has_claims=True)
    if not judged:
        return Found(surroundings, (), tuple(objects))
    judging: list[Named] = []
    knowing: list[Named] = []
    for one in objects:
        (knowing if _is_made(one[1]) or _is_ours(one[1]) else judging).append(one)
    return Found(surroundings, tuple(judging), tuple(knowing))


def without(known: Iterable[Named], given: Iterable[Object]) -> Iterator[Named]:
    """Those of the cluster's objects that the files do not bring anew."""
    replaced = {_key(obj) for obj in given}
    return (one for one in known if _key(one[1]) not in replaced)


def _key(obj: Object) -> tuple[str, str, str]:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    namespace = str(metadata.get("namespace") or "default")
    return str(obj.get("kind")), namespace, str(metadata.get("name"))


def _named(found: Mapping[Resource, list[dict[str, Any]]], resource: Resource) -> Iterator[Named]:
    for obj in found[resource]:
        metadata = obj["metadata"]
        place = f"{metadata['namespace']}/{metadata['name']}" if resource.namespaced else metadata["name"]
        # Items of a list come without kind.
        yield f"{resource.kind} {place}", {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _is_made(obj: Object) -> bool:
    return any(name in (obj["metadata"].get("annotations") or {}) for name in _MADE)


def _is_ours(obj: Object) -> bool:
    if obj["kind"] != DEVICE_CLASSES.kind:
        return False
    name, selectors = obj["metadata"]["name"], (obj.get("spec") or {}).get("selectors")
    return any(
        (name, selectors) == (c["metadata"]["name"], c["spec"]["selectors"]) for c in packaged_classes()
    )


def _devices(slices: Iterable[Object], *, lists: bool) -> tuple[KnownDevice, ...]:
    census = Census(lists=lists)
    for obj in slices:
        census.put(obj["metadata"]["name"], census.kinds(obj["spec"]))
    return census.devices()

"""The world that a question is about: from files, from a cluster, or files laid over a cluster."""

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import yaml

from dra_driver.allocation.diagnosis import World
from dra_driver.allocation.diagnosis.world import is_allocated
from dra_driver.allocation.explanation import Scene
from dra_driver.resource.workloads import WORKLOADS

Object = dict[str, Any]
Objects = dict[str, list[Object]]

NAMESPACED = frozenset(
    {"ResourceClaim", "ResourceClaimTemplate", "Pod", "Event", *(kind for _, kind in WORKLOADS)}
)


def sorted_out(objects: Iterable[Object], namespace: str) -> Objects:
    """Objects by kind, in their order; those without a namespace are in this one. Of several of a name, the last."""
    found: dict[str, dict[tuple[str, str], Object]] = {}
    for obj in objects:
        kind = str(obj["kind"])
        metadata = obj["metadata"] if isinstance(obj.get("metadata"), dict) else {}
        if kind in NAMESPACED and not metadata.get("namespace"):
            obj = {**obj, "metadata": {**metadata, "namespace": namespace}}  # noqa: PLW2901 - the same, completed
            metadata = obj["metadata"]
        key = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        found.setdefault(kind, {})[key] = obj
    return {kind: list(named.values()) for kind, named in found.items()}


def merged(below: Objects, above: Objects) -> Objects:
    """`above` laid over `below`: an object of the same kind and name replaces the other."""

    def key(obj: Object) -> tuple[str, str]:
        return str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])

    kinds = dict.fromkeys((*below, *above))
    return {
        kind: list({key(obj): obj for obj in (*below.get(kind, ()), *above.get(kind, ()))}.values())
        for kind in kinds
    }


def completed(objects: Objects) -> tuple[Objects, list[str]]:
    """Objects of files with what goes without saying, and sentences that say it after all.

    Slices imply their nodes where there is no Node at all, and a world without a class has those of this driver.
    """
    notes = []
    classes, nodes = objects.get("DeviceClass", []), objects.get("Node", [])
    if not classes:
        classes = packaged_classes()
        names = " and ".join(str(one["metadata"]["name"]) for one in classes)
        notes.append(f"no DeviceClass is given, so those of this driver are assumed: {names}")
    slices = objects.get("ResourceSlice", [])
    if not nodes and not slices:
        notes.append(
            "the files have no ResourceSlice, so there are no devices: add a dump of your cluster's, or lay the files"
            " over the cluster itself with --live"
        )
    if not nodes and slices:
        names_ = sorted({str(one["spec"]["nodeName"]) for one in slices if one["spec"].get("nodeName")})
        nodes = [node_object(name) for name in names_ or ["any-node"]]
        notes.append(
            f"no Node is given, so those that the slices name are assumed: {_some(names_ or ['any-node'])}"
        )
    return {**objects, "DeviceClass": classes, "Node": nodes}, notes


def pod_of(workload: Object, name: str) -> Object:
    """A Pod of a workload as `read_objects` has it."""
    spec = workload["spec"]["template"]["spec"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**workload["metadata"], "name": name},
        "spec": spec,
    }


def world_of(objects: Objects, *, lists: bool = False, all_pods: bool = False) -> World:
    """What can be asked about, of objects by kind.

    `lists`: whether attributes may be lists of values; `all_pods` as in `World`.
    """
    held = [one for one in objects.get("ResourceClaim", ()) if is_allocated(one)]
    slices, classes = objects.get("ResourceSlice", []), objects.get("DeviceClass", [])
    return World(
        slices=slices,
        classes=classes,
        claims=objects.get("ResourceClaim", []),
        templates=objects.get("ResourceClaimTemplate", []),
        pods=objects.get("Pod", []),
        nodes=objects.get("Node", []),
        events=objects.get("Event", []),
        known_scene=Scene.of(slices, classes, held, lists=lists),
        all_pods=all_pods,
    )


def packaged_classes() -> list[Object]:
    """The classes that the driver is installed with."""
    text = (resources.files("dra_driver.embedded") / "examples" / "deviceclasses.yaml").read_text()
    return list(yaml.safe_load_all(text))


def node_object(name: str) -> Object:
    labels = {"kubernetes.io/hostname": name}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])} and {len(names) - 3} more" if len(names) > 3 else ", ".join(names)

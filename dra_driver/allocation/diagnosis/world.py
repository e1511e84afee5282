"""The objects of a cluster, from wherever they came: by kind, and found by name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dra_driver.allocation.explanation.scene import Scene, name_of, results_of
from dra_driver.allocation.extended import EXTENDED_CLAIM
from dra_driver.allocation.model import DeviceId

Object = Mapping[str, Any]


@dataclass
class World:
    """Objects by kind, which are not changed. The scene is made of them unless it is given.

    `all_pods`: whether a Pod of the namespaces asked about that is not here does not exist.
    """

    slices: Sequence[Object] = ()
    classes: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    templates: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    events: Sequence[Object] = ()
    known_scene: Scene | None = None
    all_pods: bool = False

    @cached_property
    def scene(self) -> Scene:
        held = [one for one in self.claims if is_allocated(one)]
        return self.known_scene or Scene.of(self.slices, self.classes, held)

    def with_claims(self, claims: Sequence[Object]) -> "World":
        """The same with other claims; what was worked out about slices and selectors is kept."""
        held = [one for one in claims if is_allocated(one)]
        scene = Scene(self.scene.snapshot.with_allocated(held), held)
        scene.answers = self.scene.answers
        return replace(self, claims=claims, known_scene=scene)

    @cached_property
    def claim(self) -> Mapping[str, Object]:
        return _by_name(self.claims)

    @cached_property
    def extended(self) -> Mapping[str, Object]:
        """Claims that the scheduler made for extended resources, by the UID of their Pod."""
        return {
            str(owner["uid"]): claim
            for claim in self.claims
            if (claim["metadata"].get("annotations") or {}).get(EXTENDED_CLAIM) == "true"
            for owner in claim["metadata"].get("ownerReferences") or ()
            if owner.get("uid")
        }

    @cached_property
    def template(self) -> Mapping[str, Object]:
        return _by_name(self.templates)

    @cached_property
    def pod(self) -> Mapping[str, Object]:
        return _by_name(self.pods)

    @cached_property
    def device(self) -> Mapping[DeviceId, Object]:
        """Published devices, those of the newest generation of each pool."""
        found: dict[DeviceId, tuple[int, Object]] = {}
        for one in self.slices:
            spec = one["spec"]
            generation = int(spec["pool"].get("generation", 0))
            for device in spec.get("devices") or ():
                key = DeviceId(spec["driver"], spec["pool"]["name"], device["name"])
                if key not in found or found[key][0] <= generation:
                    found[key] = generation, device
        return {key: device for key, (_, device) in found.items()}


def is_allocated(claim: Object) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def drivers_of(claim: Object) -> list[str]:
    """The drivers of a claim's devices, each once."""
    return list(dict.fromkeys(str(result["driver"]) for result in results_of(claim)))


def namespace_of(obj: Object) -> str:
    return str(obj["metadata"].get("namespace") or "default")


def _by_name(objects: Iterable[Object]) -> Mapping[str, Object]:
    return {name_of(one): one for one in objects}

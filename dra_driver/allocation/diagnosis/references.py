"""What a Pod or claim names and what is not there: classes, templates, claims; with the names that come near."""

import difflib
from collections.abc import Iterable, Iterator

from dra_driver.allocation.diagnosis.model import Remark
from dra_driver.allocation.diagnosis.world import Object, World, namespace_of
from dra_driver.allocation.explanation.scene import name_of

_OURS = frozenset({"gpu.nvidia.com", "mig.nvidia.com"})
_FOREIGN = frozenset({"compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com"})


def missing_classes(world: World, claims: Iterable[Object]) -> Iterator[Remark]:
    """A remark for each class that a request names and that does not exist."""
    classes = [str(one["metadata"]["name"]) for one in world.classes]
    for claim in claims:
        for entry in (claim["spec"].get("devices") or {}).get("requests") or ():
            subs = entry.get("firstAvailable") or ()
            for one in subs or [entry.get("exactly") or {}]:
                name = str(one.get("deviceClassName") or "")
                if name not in classes:
                    request = f"{entry['name']}/{one['name']}" if subs else entry["name"]
                    text = f"claim {name_of(claim)}, request {request}: there is no DeviceClass {name}"
                    yield Remark("class-missing", "error", text + near(name, classes), _class_fix(name))


def _class_fix(name: str) -> str | None:
    if name in _OURS:
        return "install the classes of this driver: kubectl apply -k deploy/"
    return None


def missing_claim(world: World, name: str, namespace: str) -> Remark:
    """Where a Pod names a claim that does not exist."""
    text = f"there is no ResourceClaim {namespace}/{name}"
    if f"{namespace}/{name}" in world.template:
        fix = f"{name} is a ResourceClaimTemplate: name it as resourceClaimTemplateName"
        return Remark("claim-missing", "error", text, fix)
    return Remark("claim-missing", "error", text + _elsewhere(name, namespace, world.claims))


def missing_template(world: World, entry: str, name: str, namespace: str) -> Remark:
    """Where a Pod names a template that is not in its namespace."""
    text = f"claim {entry} of the Pod: there is no ResourceClaimTemplate {namespace}/{name}"
    if f"{namespace}/{name}" in world.claim:
        fix = f"{name} is a ResourceClaim: name it as resourceClaimName"
        return Remark("template-missing", "error", text, fix)
    return Remark("template-missing", "error", text + _elsewhere(name, namespace, world.templates))


def _elsewhere(name: str, namespace: str, objects: Iterable[Object]) -> str:
    known = list(objects)
    others = sorted(namespace_of(one) for one in known if one["metadata"]["name"] == name)
    if others:
        return f"; one of that name is in namespace {others[0]}, and a Pod uses those of its own only"
    return near(name, [one["metadata"]["name"] for one in known if namespace_of(one) == namespace])


def near(name: str, known: Iterable[str]) -> str:
    """What to add to a sentence about a name that is not there: those that it may have meant."""
    names = sorted(set(known))
    alike = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    if alike:
        return f"; did you mean {' or '.join(alike)}?"
    if not names:
        return "; there are none at all"
    return f"; there is {', '.join(names[:5])}" if len(names) <= 5 else ""

"""What claims, templates and classes ask for, the same for every version of their shapes.

Reads what is there and skips what is malformed: refusing is the API's rules' job, and one mistake must not hide others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.lint.manifests import Manifest, as_list, as_map, as_text
from dra_driver.resource.problems import child, index


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a manifest, and its path."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Wish:
    """A request, or one of its alternatives: devices of a class that meet some selectors."""

    path: str
    name: str  # "gpu", or "gpu/large"
    device_class: str
    selectors: tuple[Text, ...]
    count: int | None  # None: all
    admin: bool
    capacities: tuple[Text, ...]  # names of capacities, by their paths

    @property
    def request(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Constraint:
    path: str
    field: str  # "matchAttribute" or "distinctAttribute"
    attribute: str
    requests: tuple[str, ...]  # empty: all


@dataclass(frozen=True, slots=True)
class Config:
    """An opaque configuration."""

    path: str  # of the entry
    driver: str
    parameters: Any
    requests: tuple[str, ...]

    @property
    def parameters_path(self) -> str:
        return f"{self.path}.opaque.parameters"


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim or ResourceClaimTemplate."""

    manifest: Manifest
    wishes: tuple[Wish, ...]
    constraints: tuple[Constraint, ...]
    configs: tuple[Config, ...]

    @property
    def is_template(self) -> bool:
        return self.manifest.kind == "ResourceClaimTemplate"

    @property
    def requests(self) -> dict[str, tuple[Wish, ...]]:
        """The alternatives of each request, by its name; most have just one."""
        names = dict.fromkeys(wish.request for wish in self.wishes)
        return {name: tuple(wish for wish in self.wishes if wish.request == name) for name in names}

    def named(self, requests: tuple[str, ...]) -> dict[str, tuple[Wish, ...]]:
        """The requests that a constraint or configuration is for, with the alternatives it names."""
        if not requests:
            return self.requests
        found = {
            name: tuple(wish for wish in wishes if name in requests or wish.name in requests)
            for name, wishes in self.requests.items()
        }
        return {name: wishes for name, wishes in found.items() if wishes}


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass; None where it is one of the driver's own rather than of a file."""

    name: str
    selectors: tuple[Text, ...]
    configs: tuple[Config, ...] = ()
    manifest: Manifest | None = None


def claim_of(manifest: Manifest) -> Claim | None:
    """The claim that a manifest is, or makes."""
    spec, path = as_map(manifest.object.get("spec")), "spec"
    match manifest.kind:
        case "ResourceClaim":
            pass
        case "ResourceClaimTemplate":
            spec, path = as_map(spec.get("spec")), "spec.spec"
        case _:
            return None
    if not manifest.is_resource:
        return None
    devices, where = as_map(spec.get("devices")), child(path, "devices")
    return Claim(
        manifest,
        tuple(_wishes(devices, child(where, "requests"))),
        tuple(_constraints(devices, child(where, "constraints"))),
        tuple(_configs(devices, child(where, "config"))),
    )


def class_of(manifest: Manifest) -> DeviceClass | None:
    """The class that a manifest is."""
    if manifest.kind != "DeviceClass" or not manifest.is_resource:
        return None
    spec = as_map(manifest.object.get("spec"))
    selectors = tuple(_selectors(spec, "spec.selectors"))
    return DeviceClass(manifest.name, selectors, tuple(_configs(spec, "spec.config")), manifest)


def _wishes(devices: Mapping[str, Any], path: str) -> Iterator[Wish]:
    for position, entry in enumerate(map(as_map, as_list(devices.get("requests")))):
        where, name = index(path, position), as_text(entry.get("name"))
        alternatives = as_list(entry.get("firstAvailable"))
        if alternatives:
            for number, alternative in enumerate(map(as_map, alternatives)):
                at = index(child(where, "firstAvailable"), number)
                yield _wish(alternative, at, f"{name}/{as_text(alternative.get('name'))}")
        elif isinstance(entry.get("exactly"), dict):
            yield _wish(entry["exactly"], child(where, "exactly"), name)
        else:
            yield _wish(entry, where, name)  # as v1beta1 has it


def _wish(entry: Mapping[str, Any], path: str, name: str) -> Wish:
    count = entry.get("count")
    usual = count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1
    requests = as_map(as_map(entry.get("capacity")).get("requests"))
    return Wish(
        path,
        name,
        as_text(entry.get("deviceClassName")),
        tuple(_selectors(entry, child(path, "selectors"))),
        None if entry.get("allocationMode") == "All" else usual,
        entry.get("adminAccess") is True,
        tuple(Text(f"{path}.capacity.requests[{key}]", key) for key in requests),
    )


def _selectors(entry: Mapping[str, Any], path: str) -> Iterator[Text]:
    for position, selector in enumerate(map(as_map, as_list(entry.get("selectors")))):
        expression = as_map(selector.get("cel")).get("expression")
        if isinstance(expression, str):
            yield Text(f"{index(path, position)}.cel.expression", expression)


def _constraints(devices: Mapping[str, Any], path: str) -> Iterator[Constraint]:
    for position, entry in enumerate(map(as_map, as_list(devices.get("constraints")))):
        for field in ("matchAttribute", "distinctAttribute"):
            attribute = entry.get(field)
            if isinstance(attribute, str) and attribute:
                yield Constraint(index(path, position), field, attribute, _texts(entry.get("requests")))


def _configs(devices: Mapping[str, Any], path: str) -> Iterator[Config]:
    for position, entry in enumerate(map(as_map, as_list(devices.get("config")))):
        opaque = entry.get("opaque")
        if isinstance(opaque, dict):
            driver, parameters = as_text(opaque.get("driver")), opaque.get("parameters")
            yield Config(index(path, position), driver, parameters, _texts(entry.get("requests")))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in as_list(value) if isinstance(item, str))

"""From the sharing section of NVIDIA's device plugin to what is its like here: a node configuration, and classes.

The device plugin made `replicas` resources of each GPU; here a GPU has as many shares, and each Pod's claim takes one. Where
the two differ, a remark says how, and what cannot be said here is left out with a remark rather than guessed. Only
the section `sharing` is converted; all other keys are about how the plugin runs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.config.node_models import MAX_SHARES, UUID
from dra_driver.inventory.document import Value

_PREFIX = "nvidia.com/"
_MIG = r"mig-(?P<size>\d+g\.\d+gb)(\.(?P<more>me|gfx|me\.all)|(?P<less>-me))?"
_NAME = rf"({_PREFIX})?(gpu|{_MIG})"
_RENAME = rf"({_PREFIX})?[a-z0-9]([a-z0-9.-]{{0,50}}[a-z0-9])?"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What to write into the node configuration and the cluster, as objects, and what to know about it."""

    node: dict[str, Any]
    classes: tuple[dict[str, Any], ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Resource:
    """A shared resource of the device plugin; names are without nvidia.com/."""

    name: str
    shared_name: str  # under which Pods ask for it
    replicas: int
    mps: bool
    devices: Value | None

    @property
    def profile(self) -> str | None:
        """That of its MIG devices; the device plugin writes a dot for the plus of a profile's name."""
        match = re.fullmatch(_MIG, self.name)
        if match is None:
            return None
        return match["size"] + (f"+{match['more']}" if match["more"] else match["less"] or "")

    @property
    def needs_class(self) -> bool:
        """Whether the class gpu.nvidia.com as it is installed does not give it to Pods that ask for it by name."""
        return self.mps or self.shared_name != "gpu"


def convert(document: Value) -> Conversion:
    """What the device plugin's configuration comes to; UsageError where it has a mistake, or shares nothing."""
    remarks: list[str] = []
    resources = list(_resources(document, remarks))
    if not resources:
        document.fail("sharing.timeSlicing.resources or sharing.mps.resources with an entry")
    node = {
        "apiVersion": "config.dra-driver.io/v1alpha1",
        "kind": "NodeConfig",
        "gpus": _entries(resources, remarks),
    }
    classes: dict[str, dict[str, Any]] = {}
    for body in (_class(resource) for resource in resources if resource.needs_class):
        name = body["metadata"]["name"]
        if classes.setdefault(name, body) != body:
            remarks.append(f"class {name}: it is as the first entry for its resource says")
    return Conversion(node, tuple(classes.values()), tuple(remarks))


def _resources(document: Value, remarks: list[str]) -> Iterator[_Resource]:
    mapping = document.mapping()
    if "kind" in mapping and mapping["kind"].content == "ConfigMap":
        document.reject("a ConfigMap is not the configuration itself, give the text that is in its data")
    sharing = _section(mapping, "sharing")
    sections = {name: _section(sharing, name) for name in ("mps", "timeSlicing")}
    if all(sections.values()):
        remarks.append("timeSlicing: it is left out, as the device plugin does where there is mps")
    strategy = "mps" if sections["mps"] else "timeSlicing"
    if not sections[strategy]:
        return
    fields = sharing[strategy].fields(["resources"], ["renameByDefault", "failRequestsGreaterThanOne"])
    if "failRequestsGreaterThanOne" in fields and fields["failRequestsGreaterThanOne"].boolean():
        remarks.append(
            f"{strategy}.failRequestsGreaterThanOne: a Pod that asks for two gets two shares, which may be of one GPU"
        )
    renames = "renameByDefault" in fields and fields["renameByDefault"].boolean()
    for item in fields["resources"].items():
        keys = item.fields(["name", "replicas"], ["rename", "devices"])
        name = keys["name"].text("nvidia.com/gpu or nvidia.com/mig-...", _NAME).removeprefix(_PREFIX)
        shared = f"{name}.shared" if renames else name
        if "rename" in keys:
            shared = keys["rename"].text("the name of a resource", _RENAME).removeprefix(_PREFIX)
        replicas = keys["replicas"].integer(1, MAX_SHARES, "a number of replicas")
        yield _Resource(name, shared, replicas, strategy == "mps", keys.get("devices"))


def _section(parent: Mapping[str, Value], key: str) -> dict[str, Value]:
    return parent[key].mapping() if key in parent and not parent[key].is_null else {}


def _entries(resources: list[_Resource], remarks: list[str]) -> list[dict[str, Any]]:
    """Entries for the GPUs that are named, then one for all others where a resource is for all."""
    shares: dict[str | None, int] = {}  # by UUID; None: of all others
    for resource in resources:
        name = f"{_PREFIX}{resource.name}"
        if resource.profile:
            remarks.append(f"{name}: all MIG devices of a GPU are shared alike, and whole GPUs as well")
        if resource.mps:
            remarks.append(
                f"{name}: each also had an equal part of the memory; the class limits it with "
                "mpsConfig.defaultPinnedDeviceMemoryLimit"
            )
        for uuid in _uuids(resource, remarks):
            first = shares.setdefault(uuid, resource.replicas)
            if first != resource.replicas:
                remarks.append(
                    f"{name}: {uuid or 'a GPU'} has the {first} shares of an entry before, not {resource.replicas}"
                )
    named = [{"uuid": uuid, "shares": number} for uuid, number in shares.items() if uuid]
    return named + ([{"shares": shares[None]}] if None in shares else [])


def _uuids(resource: _Resource, remarks: list[str]) -> Iterator[str | None]:
    """The GPUs of a resource, as far as it says which; None: all."""
    devices = resource.devices
    if devices is None or devices.content == "all":
        yield None
        return
    for device in devices.content if isinstance(devices.content, list) else [devices]:
        text = device.text()
        if not text.startswith("GPU-"):
            remarks.append(
                f"{_PREFIX}{resource.name}: devices: {text} is left out, as only the UUID of a GPU says which one it is; "
                "nvidia-smi -L lists them"
            )
            continue
        yield device.text("the UUID of a GPU", UUID.strip("^$"))


def _class(resource: _Resource) -> dict[str, Any]:
    """A class for Pods that ask for the resource by its name."""
    kind = "mig" if resource.profile else "gpu"
    attributes = "device.attributes['gpu.nvidia.com']"
    conditions = [f"device.driver == 'gpu.nvidia.com' && {attributes}.type == '{kind}'"]
    conditions += [f"{attributes}.profile == '{resource.profile}'"] if resource.profile else []
    spec: dict[str, Any] = {
        "selectors": [{"cel": {"expression": " && ".join([*conditions, "device.allowMultipleAllocations"])}}],
        "extendedResourceName": f"{_PREFIX}{resource.shared_name}",
    }
    if resource.mps:
        parameters = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "MigDeviceConfig" if resource.profile else "GpuConfig",
            "sharing": {
                "strategy": "MPS",
                "mpsConfig": {"defaultActiveThreadPercentage": max(1, 100 // resource.replicas)},
            },
        }
        spec["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    name = f"{resource.name}.nvidia.com"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name if resource.shared_name == resource.name else f"shared.{name}"},
        "spec": spec,
    }

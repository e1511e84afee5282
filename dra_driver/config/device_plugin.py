"""From the sharing section of NVIDIA's device plugin to what is its like here: a node configuration, and classes.

The device plugin made `replicas` resources of each GPU; here a GPU has as many shares, and each Pod's claim takes one. Where
the two differ, a remark says how, and what cannot be said here is left out with a remark rather than guessed. Only
the section `sharing` is converted; all other keys are about how the plugin runs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dra_driver.config.node_models import MAX_SHARES
from dra_driver.inventory.document import Value

_GPU = "nvidia.com/gpu"
_MIG = re.compile(r"nvidia\.com/mig-[a-z0-9.+-]+")
_IS_SHARED = (
    "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{}'"
    " && device.allowMultipleAllocations"
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """What to write into the node configuration and the cluster, as objects, and what to know about it."""

    node: dict[str, Any]
    classes: tuple[dict[str, Any], ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Resource:
    """A shared resource of the device plugin."""

    value: Value
    name: str
    shared_name: str  # under which Pods ask for it
    replicas: int
    mps: bool

    @property
    def device_type(self) -> str:
        return "gpu" if self.name == _GPU else "mig"


def convert(document: Value) -> Conversion:
    """What the device plugin's configuration comes to; UsageError where it has a mistake, or shares nothing."""
    remarks: list[str] = []
    resources = list(_resources(document, remarks))
    if not resources:
        document.fail("sharing.timeSlicing.resources or sharing.mps.resources with an entry")
    entries: list[dict[str, Any]] = []
    for resource in resources:
        entries += _entries(resource, remarks)
    node = {"apiVersion": "config.dra-driver.io/v1alpha1", "kind": "NodeConfig", "gpus": entries}
    classes = tuple(
        _class(resource) for resource in resources if resource.mps or resource.shared_name != resource.name
    )
    return Conversion(node, classes, tuple(remarks))


def _resources(document: Value, remarks: list[str]) -> Iterator[_Resource]:
    sharing = document.mapping().get("sharing")
    for strategy in ("timeSlicing", "mps"):
        section = sharing.mapping().get(strategy) if sharing else None
        if section is None:
            continue
        fields = section.fields(["resources"], ["renameByDefault", "failRequestsGreaterThanOne"])
        if "failRequestsGreaterThanOne" in fields and fields["failRequestsGreaterThanOne"].boolean():
            remarks.append(
                f"{strategy}.failRequestsGreaterThanOne: a Pod that asks for two gets two shares, which may be of one GPU"
            )
        renames = "renameByDefault" in fields and fields["renameByDefault"].boolean()
        for item in fields["resources"].items():
            keys = item.fields(["name", "replicas"], ["rename", "devices"])
            name = keys["name"].text("nvidia.com/gpu or nvidia.com/mig-...", rf"{_GPU}|{_MIG.pattern}")
            shared = keys["rename"].text() if "rename" in keys else f"{name}.shared" if renames else name
            replicas = keys["replicas"].integer(1, MAX_SHARES, "a number of replicas")
            yield _Resource(item, name, shared, replicas, strategy == "mps")


def _entries(resource: _Resource, remarks: list[str]) -> Iterator[dict[str, Any]]:
    """Entries for the GPUs of a resource: those of its devices that have an identity, else all."""
    if resource.device_type == "mig":
        remarks.append(f"{resource.name}: all MIG devices of a GPU are shared alike, and whole GPUs as well")
    if resource.mps:
        remarks.append(
            f"{resource.name}: each also had an equal part of the memory; the class limits it with "
            "mpsConfig.defaultPinnedDeviceMemoryLimit"
        )
    settings = {"shares": resource.replicas}
    devices = resource.value.mapping().get("devices")
    if devices is None or devices.content == "all":
        yield settings
        return
    for device in devices.items() if isinstance(devices.content, list) else [devices]:
        text = device.text()
        if text.startswith("GPU-"):
            yield {"uuid": text, **settings}
        else:
            remarks.append(
                f"{resource.name}: device {text} is left out, as only a UUID says which one it is; nvidia-smi -L lists them"
            )


def _class(resource: _Resource) -> dict[str, Any]:
    """A class for Pods that ask for the resource under its new name, or that share it by MPS."""
    renamed = resource.shared_name != resource.name
    kind = resource.device_type
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": _IS_SHARED.format(kind)}}]}
    if kind == "gpu" or renamed:
        spec["extendedResourceName"] = resource.shared_name
    if resource.mps:
        parameters = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "GpuConfig" if kind == "gpu" else "MigDeviceConfig",
            "sharing": {
                "strategy": "MPS",
                "mpsConfig": {"defaultActiveThreadPercentage": max(1, 100 // resource.replicas)},
            },
        }
        spec["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    name = f"shared.{kind}.nvidia.com" if renamed else f"{kind}.nvidia.com"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }

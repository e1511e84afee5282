"""What the demo shows: the devices that were published, who got which, and what is pending."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_driver.cli.table import table
from dra_driver.embedded.cluster import DRIVER_NAME, Cluster, ClusterNode
from dra_driver.errors import UnavailableError, UsageError
from dra_driver.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_driver.quantity import Quantity

EXPECT = "demo.dra-driver/expect"  # annotation of a Pod that shall stay pending
_PUBLISH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Published:
    """A device as the slices show it."""

    node: str
    pool: str
    name: str
    attributes: dict[str, Any]  # by name, unwrapped
    memory: Quantity | None

    def text(self, attribute: str) -> str:
        return str(self.attributes.get(attribute, ""))


Devices = Mapping[tuple[str, str], Published]
"""Devices by pool and name."""


def published_devices(cluster: Cluster) -> Devices:
    """All devices, once every node has published its pool."""
    deadline = time.monotonic() + _PUBLISH_SECONDS
    while True:
        slices = cluster.client.list(RESOURCE_SLICES)["items"]
        ready = _whole_pools(slices)
        waiting = [node for node in cluster.nodes if node.name not in ready]
        if not waiting:
            break
        for node in waiting:
            if not node.plugin.running():
                raise UsageError(f"the plugin of {node.name} has ended: {_last_line(node)}")
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"{waiting[0].name} has published nothing; its log says: {_last_line(waiting[0])}"
            )
        time.sleep(0.02)
    found = {}
    for slice_ in slices:
        spec = slice_["spec"]
        for device in spec.get("devices", ()):
            attributes = {k: next(iter(v.values())) for k, v in device.get("attributes", {}).items()}
            memory = device.get("capacity", {}).get("memory")
            found[spec["pool"]["name"], device["name"]] = Published(
                spec["nodeName"],
                spec["pool"]["name"],
                device["name"],
                attributes,
                None if memory is None else Quantity.parse(memory["value"]),
            )
    return found


def _whole_pools(slices: Sequence[dict[str, Any]]) -> set[str]:
    """The nodes whose pool has all of its slices."""
    numbers = Counter(s["spec"].get("nodeName") for s in slices if s["spec"]["driver"] == DRIVER_NAME)
    return {
        s["spec"]["nodeName"]
        for s in slices
        if numbers[s["spec"].get("nodeName")] == s["spec"]["pool"]["resourceSliceCount"]
    }


def _last_line(node: ClusterNode) -> str:
    lines = (node.directory / "plugin.log").read_text(errors="replace").splitlines()
    return lines[-1] if lines else "nothing"


def devices_table(published: Devices) -> str:
    """What is published, one row per kind of device of a node."""
    rows = Counter(
        (
            device.node,
            f"{device.text('productName')} {device.text('profile')}".rstrip(),
            device.text("architecture"),
            device.text("cudaComputeCapability"),
            str(device.memory or ""),
            device.text("nvlinkClique") if int(device.attributes.get("nvlinkPeers", 0)) else "none",
            device.text("resource.kubernetes.io/numaNode"),
        )
        for device in published.values()
    )
    header = ("NODE", "MODEL", "ARCHITECTURE", "CUDA CC", "MEMORY", "NVLINK CLIQUE", "NUMA", "DEVICES")
    return "\n" + table(header, [(*row, str(number)) for row, number in rows.items()]) + "\n"


def runs(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in {"Running", "Succeeded"}


def reason_pending(pod: dict[str, Any]) -> str:
    """Why a Pod cannot be scheduled; empty where nobody said so."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason"))
    return ""


def unexpectedly_pending(pods: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pods that do not run though they should."""
    return [
        pod
        for pod in pods
        if not runs(pod) and pod["metadata"].get("annotations", {}).get(EXPECT) != "pending"
    ]


def allocations(
    cluster: Cluster, published: Devices, pods: Sequence[dict[str, Any]], reasons: Mapping[str, str]
) -> str:
    """Who got which GPU, what their containers see of it, and what is pending; `reasons` by the UID of Pods."""
    claims = cluster.client.list(RESOURCE_CLAIMS)["items"]
    views = {name: view for node in cluster.nodes for name, view in node.kubelet.views().items()}
    rows, details, pending = [], [], []
    for pod in sorted(pods, key=lambda p: (p["metadata"]["namespace"], p["metadata"]["name"])):
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if not runs(pod):
            why = reasons.get(pod["metadata"]["uid"]) or reason_pending(pod)
            pending.append((name, why or "on its way"))
            continue
        for claim in claims:
            if not any(
                user["uid"] == pod["metadata"]["uid"]
                for user in claim.get("status", {}).get("reservedFor", ())
            ):
                continue
            made = dict(uuids_made(claim))
            for result in claim["status"]["allocation"]["devices"]["results"]:
                device = published[result["pool"], result["device"]]
                rows.append(
                    (
                        pod["metadata"]["name"],
                        f"{claim['metadata']['name']}/{result['request']}",
                        device.node,
                        device.name,
                        device.text("productName"),
                        device.text("uuid") or made.get(device.name, ""),
                    )
                )
        for container, view in views.get(name, {}).items():
            nodes = " ".join(node.path for node in view.device_nodes)
            details.append(f"{pod['metadata']['name']}, container {container}: {nodes}")
            details += [f"    {cdi_id}" for cdi_id in view.cdi_ids]
            details.append(f"    {_files([mount.container_path for mount in view.mounts])}")
    parts = ["", table(("POD", "CLAIM/REQUEST", "NODE", "DEVICE", "MODEL", "UUID"), rows)]
    parts += ["", "What the containers see, by these CDI devices:", *details]
    if pending:
        parts += ["", table(("PENDING", "WHY"), pending)]
    return "\n".join(parts) + "\n"


def uuids_made(claim: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The devices that were made for a claim, such as MIG devices, with the UUIDs that the driver reports of them."""
    for device in claim.get("status", {}).get("devices", ()):
        if "uuid" in device.get("data", {}):
            yield device["device"], device["data"]["uuid"]


def _files(paths: Sequence[str]) -> str:
    """What is mounted into a container, by kind."""
    libraries = [path for path in paths if ".so" in path.rpartition("/")[2]]
    programs = [path for path in paths if "/bin/" in path]
    others = len(paths) - len(libraries) - len(programs)
    return f"{len(libraries)} libraries, {len(programs)} programs, {others} other files"

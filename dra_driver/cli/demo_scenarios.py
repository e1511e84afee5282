"""What `dra-driver demo --scenario` shows: one way of having a part of a GPU, from the first Pod to the last one's end.

A scenario is a kind of node, its settings, and packaged manifests. Beside the demo's own report, it shows what the node
was set to, and, once all Pods are gone, that nothing is left of it.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from dra_driver.cli.demo_report import EXPECT, uuids_made
from dra_driver.cli.table import table
from dra_driver.embedded.cluster import DRIVER_NAME, Cluster, ClusterNode
from dra_driver.errors import UnavailableError, UsageError
from dra_driver.kube.resources import PODS, RESOURCE_CLAIMS
from dra_driver.sharing.daemon import DaemonSpec, spec_from_dict

_FOLDER = resources.files("dra_driver.embedded") / "examples" / "scenarios"
_TELL_SECONDS = 10.0
_END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A node, and what its Pods ask for."""

    name: str
    profile: str
    shares: str | None = None  # of all GPUs, in the node configuration
    mig: str | None = None
    mps: bool = False  # whether MPS daemons can run

    def waves(self) -> Sequence[list[dict[str, Any]]]:
        """The manifests, those that there is no more room for after the others."""
        manifests = list(yaml.safe_load_all((_FOLDER / f"{self.name}.yaml").read_text()))
        late = [m for m in manifests if EXPECT in m["metadata"].get("annotations", {})]
        return [[m for m in manifests if m not in late], late] if late else [manifests]

    def add_node(self, cluster: Cluster, name: str) -> None:
        """A node as the scenario needs it."""
        flags = [] if self.mig is None else [f"--mig={self.mig}"]
        if self.shares is not None:
            config = cluster.directory / "node-config.yaml"
            head = "apiVersion: config.dra-driver.io/v1alpha1\nkind: NodeConfig\n"
            config.write_text(f"{head}gpus:\n- shares: {self.shares}\n")
            flags.append(f"--config={config}")
        node = cluster.add_node(name, self.profile, *flags)
        if self.mps:
            cluster.add_mps_supervisor(node)


_ONE_H100 = str(_FOLDER / "one-h100.yaml")
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("mig", _ONE_H100, mig="dynamic"),
        Scenario("time-slicing", "dgx-h100"),
        Scenario("mps", _ONE_H100, mps=True),
        Scenario("shares", _ONE_H100, shares="memory", mps=True),
    )
}


def find(name: str) -> Scenario:
    """UsageError names those that there are."""
    try:
        return SCENARIOS[name]
    except KeyError:
        raise UsageError(f"--scenario: {name!r} is none of {', '.join(SCENARIOS)}") from None


def settings(cluster: Cluster) -> str:
    """What the nodes are set to for the claims: MIG devices, time-slices, compute modes and MPS daemons."""
    deadline = time.monotonic() + _TELL_SECONDS
    while time.monotonic() < deadline and not all(
        map(_is_told, cluster.client.list(RESOURCE_CLAIMS)["items"])
    ):
        time.sleep(0.05)
    rows = [(node.name, *row) for node in cluster.nodes for row in _settings(cluster, node)]
    return table(("NODE", "WHAT", "OF", "IS"), rows) if rows else "Nothing is set on any node."


def end(cluster: Cluster) -> None:
    """Delete all Pods, and wait until their claims are free; UnavailableError where one is not."""
    for pod in cluster.client.list(PODS)["items"]:
        cluster.client.delete(PODS, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    deadline = time.monotonic() + _END_SECONDS
    while cluster.client.list(PODS)["items"] or any(
        map(_is_held, cluster.client.list(RESOURCE_CLAIMS)["items"])
    ):
        if time.monotonic() > deadline:
            raise UnavailableError("a Pod or a claim of the demo does not end; --keep leaves it for a look")
        time.sleep(0.05)


def _is_told(claim: dict[str, Any]) -> bool:
    """Whether the claim says which MIG devices were made for it, which plugins tell a moment after a Pod has them."""
    status = claim.get("status", {})
    results = (status.get("allocation") or {}).get("devices", {}).get("results", ())
    told = {device["device"] for device in status.get("devices", ())}
    return not status.get("reservedFor") or all(
        result["device"] in told for result in results if "-mig-" in result["device"]
    )


def _is_held(claim: dict[str, Any]) -> bool:
    return bool(claim.get("status", {}).get("allocation"))


def _settings(cluster: Cluster, node: ClusterNode) -> Iterator[tuple[str, str, str]]:
    for claim in cluster.client.list(RESOURCE_CLAIMS)["items"]:
        yield from (("MIG device", device, uuid) for device, uuid in uuids_made(claim))
    plugin_dir = node.kubelet.plugins_dir / DRIVER_NAME
    # What the simulated nvidia-smi was told.
    for path in sorted((plugin_dir / "driver-root" / "simulated").glob("*.GPU-*")):
        what, _, gpu = path.name.partition(".")
        if (value := path.read_text().strip()) != "Default":
            yield {"timeslice": "time-slice"}.get(what, what.replace("-", " ")), gpu, value
    for spec in _daemons(plugin_dir / "mps"):
        limits = [] if spec.threads is None else [f"{spec.threads} % of the threads"]
        limits += [f"{mib} MiB of {device}" for device, mib in spec.memory.items()]
        yield "MPS daemon", " ".join(spec.devices), ", ".join(limits) or "without limits of its own"


def _daemons(directory: Path) -> Iterator[DaemonSpec]:
    for path in sorted(directory.glob("*/daemon.json")):
        yield spec_from_dict(json.loads(path.read_bytes())["spec"])


def environments(cluster: Cluster) -> Sequence[str]:
    """What MPS adds to the environment of containers, by Pod."""
    return [
        f"{pod}, container {name}: {key}={value}"
        for node in cluster.nodes
        for pod, containers in sorted(node.kubelet.views().items())
        for name, view in containers.items()
        for key, value in view.env.items()
        if key.startswith("CUDA_MPS")
    ]

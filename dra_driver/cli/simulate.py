"""`dra-driver simulate`: who would get what, on nodes of a cluster, of files, or of simulated hardware.

Exit codes: 0 everything gets its devices; 1 something stays pending; 2 bad input; 3 the cluster cannot be reached.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_driver.allocation.simulation import DeviceTaint, drained, simulate, tainted, without_claim
from dra_driver.cli import live, simulated_nodes
from dra_driver.cli.objects import read_objects
from dra_driver.cli.output import format_of, printable, rendered
from dra_driver.cli.simulate_report import outcome_as_dict, report
from dra_driver.cli.table import LAYOUTS
from dra_driver.cli.worlds import Objects, completed, merged, pod_of, sorted_out, world_of
from dra_driver.config.node import MigMode, NodeConfig, load
from dra_driver.errors import UsageError
from dra_driver.process import collector
from dra_driver.resource.workloads import WORKLOADS

Object = dict[str, Any]

_MAX_PODS = 20_000
_NODES = "give nodes: simulated ones with --nodes, or a dump with ResourceSlices with -f"


@dataclass(frozen=True, slots=True)
class Hardware:
    """Simulated nodes, and how the GPUs of these and of added ones are offered, as the node plugin's flags say it."""

    nodes: str | None = None
    mig: str = MigMode.AUTO
    config: Path | None = None

    def node_config(self) -> NodeConfig:
        """UsageError where a flag or the file is wrong."""
        if self.mig not in set(MigMode):
            raise UsageError(f"--mig: {self.mig!r} is none of {', '.join(MigMode)}")
        mode = MigMode(self.mig)
        return NodeConfig(mode) if self.config is None else load(self.config, mode)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Changes of the world before anything is placed, in this order."""

    add_nodes: Sequence[str] = ()
    without_claims: Sequence[str] = ()
    taints: Sequence[str] = ()
    drains: Sequence[str] = ()


def run(
    *,
    files: Sequence[str],
    hardware: Hardware,
    namespace: str,
    with_cluster: bool,
    kubeconfig: Path | None,
    what_if: WhatIf,
    seed: int | None,
    lists: bool,
    output: str | None,
) -> int:
    """Simulate, and print; the exit code."""
    form, config = format_of(output), hardware.node_config()
    given = sorted_out(_expanded(read_objects(files, lists=lists)), namespace)
    objects = given if hardware.nodes is None else _with_nodes(given, hardware.nodes, config, namespace)
    if with_cluster or not objects.get("ResourceSlice"):
        if not with_cluster and (hardware.nodes or objects.get("Node")):
            raise UsageError("the nodes have no devices: there are no ResourceSlices")
        objects = merged(_cluster(kubeconfig), objects)
    else:
        objects, notes = completed(objects)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    objects = _changed(objects, what_if, config, namespace)
    with collector.paused():
        outcome = simulate(world_of(objects, lists=lists), seed=seed)
    if form in LAYOUTS:
        print(printable(report(outcome, LAYOUTS[form])), end="")
    else:
        print(rendered(outcome_as_dict(outcome), output=form), end="")
    return 0 if outcome.complete else 1


def _with_nodes(objects: Objects, text: str, config: NodeConfig, namespace: str) -> Objects:
    new = simulated_nodes.nodes(text, _names(objects), config)
    return merged(objects, sorted_out(new, namespace))


def _names(objects: Objects) -> set[str]:
    return {str(node["metadata"]["name"]) for node in objects.get("Node", ())}


def _expanded(objects: Sequence[Object]) -> Iterator[Object]:
    """The objects, with the Pods of workloads in the place of the workloads."""
    pods = 0
    for obj in objects:
        if (obj.get("apiVersion"), obj["kind"]) not in WORKLOADS:
            yield obj
            continue
        name, count = obj["metadata"].get("name"), obj["spec"]["count"]
        if count is None:
            print(f"note: {obj['kind']} {name} is passed over: it has a Pod on each node", file=sys.stderr)
            continue
        pods += count
        if pods > _MAX_PODS:
            raise UsageError(f"more than {_MAX_PODS} Pods are asked for")
        yield from (pod_of(obj, f"{name}-{index}") for index in range(count))


def _cluster(kubeconfig: Path | None) -> Objects:
    with live.connection(kubeconfig, instead=_NODES) as client:
        found = live.listed(client, dict.fromkeys((*live.SHARED, *live.OF_NAMESPACE)))
    return {resource.kind: items for resource, items in found.items()}


def _changed(objects: Objects, what_if: WhatIf, config: NodeConfig, namespace: str) -> Objects:
    for text in what_if.add_nodes:
        objects = _with_nodes(objects, text, config, namespace)
    for name in what_if.without_claims:
        objects = without_claim(objects, name if "/" in name else f"{namespace}/{name}")
    for text in what_if.taints:
        objects = tainted(objects, DeviceTaint.parse(text))
    for name in what_if.drains:
        objects = drained(objects, name)
    return objects

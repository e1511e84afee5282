"""How fast selectors, the allocator and explanations are, each beside what it has to keep to.

In one process and on one core, but for the last line, which is the command itself from its start to its end, on a
cluster that is embedded in this process. All objects are in memory when a clock starts.
"""

import copy
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dra_driver.allocation import Snapshot
from dra_driver.allocation.explanation import Scene, explain
from dra_driver.cli.simulated_nodes import nodes as simulated
from dra_driver.cli.worlds import packaged_classes
from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube.client import Client
from dra_driver.kube.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_driver.process import collector
from dra_driver.selectors import device_value, selector

Object = dict[str, Any]

_DRIVER = "gpu.nvidia.com"
_FOUR_PARTS = (
    f"device.driver == '{_DRIVER}' && device.attributes['{_DRIVER}'].type == 'gpu' &&"
    f" device.attributes['{_DRIVER}'].productName.contains('H100') &&"
    f" device.capacity['{_DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0"
)
_TOO_MUCH = f"device.capacity['{_DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"
_SECONDS = 2.0  # of evaluating selectors
_CLAIMS = 100
_STARTS = 5
_CLASSES = packaged_classes()


def main() -> None:
    print(f"\n{'selectors, allocation, explanations':<58} {'measured':>9} {'target':>8}")
    _row("evaluations of a four-part selector per second", _evaluations(), 40_000, "/s")
    small = _cluster(500)
    _row("one more claim on 500 nodes x 8 GPUs, median", 1000 * _claims(*small), 10, "ms")
    _row("the first claim there, slices new", 1000 * _first_claim(*small), None, "ms")
    large = _cluster(5000)
    _row("unsatisfiable claim on 5,000 nodes x 8 GPUs, explained", _explained(*large, _TOO_MUCH), 5, "s")
    _row(
        "the same, by a selector that tells every GPU apart", _explained(*large, _by_uuid("none")), None, "s"
    )
    _row("dra-driver explain on a cluster, start to end, median", _command(), 1.5, "s")


def _row(label: str, measured: float, target: float | None, unit: str) -> None:
    shown = "" if target is None else f"{target:,.{0 if target >= 5 else 1}f}"
    print(f"{label:<58} {measured:>9,.{0 if measured >= 1000 else 2}f} {shown:>8}  {unit}", flush=True)


def _cluster(number: int) -> tuple[list[Object], list[Object]]:
    """Slices and nodes of so many machines."""
    objects = list(simulated(f"dgx-h100={number}"))
    kinds: dict[str, list[Object]] = {"Node": [], "ResourceSlice": []}
    for one in objects:
        kinds[one["kind"]].append(one)
    return kinds["ResourceSlice"], kinds["Node"]


def _claim(expression: str, name: str = "claim") -> Object:
    request = {"deviceClassName": _DRIVER, "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _by_uuid(uuid: str) -> str:
    return f"device.attributes['{_DRIVER}'].uuid == '{uuid}'"


def _evaluations() -> float:
    slices, _ = _cluster(4)
    devices = [device_value(_DRIVER, device) for one in slices for device in one["spec"]["devices"]]
    compiled = selector(_FOUR_PARTS)
    begin = time.perf_counter()
    for done, device in enumerate(itertools.cycle(devices), 1):
        compiled.matches(device)
        if done % 1024 == 0 and time.perf_counter() - begin > _SECONDS:
            return done / (time.perf_counter() - begin)
    raise AssertionError("a cycle has no end")


def _claims(slices: list[Object], nodes: list[Object]) -> float:
    """Seconds for a claim when those before it were allocated; the first node that fits is an early one."""
    snapshot = Snapshot(slices, _CLASSES, ())
    allocated: list[Object] = []
    times = []
    for number in range(_CLAIMS):
        claim = _claim(_FOUR_PARTS, f"claim-{number}")
        begin = time.perf_counter()
        results = _first_fit(snapshot.with_allocated(allocated), claim, nodes)
        times.append(time.perf_counter() - begin)
        allocated.append({**copy.deepcopy(claim), "status": {"allocation": results[0]}})
    return statistics.median(times)


def _first_claim(slices: list[Object], nodes: list[Object]) -> float:
    return _timed(lambda: _first_fit(Snapshot(slices, _CLASSES, ()), _claim(_FOUR_PARTS), nodes))


def _first_fit(snapshot: Snapshot, claim: Object, nodes: list[Object]) -> list[Object]:
    for node in nodes:
        results = snapshot.allocate([claim], node=node)
        if results is not None:
            return results
    raise RuntimeError("the claim fits nowhere")


def _explained(slices: list[Object], nodes: list[Object], expression: str) -> float:
    def run() -> None:
        explanation = explain(Scene.of(slices, _CLASSES, ()), [_claim(expression)], nodes)
        if explanation.satisfiable or not explanation.nearest:
            raise RuntimeError("the claim is explained wrongly")

    with collector.paused():  # as in the command
        return _timed(run)


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _command() -> float:
    """Seconds of the whole command, for a claim that no GPU of eight nodes satisfies."""
    with tempfile.TemporaryDirectory(prefix="dra-bench-") as directory, ApiServer() as server:
        kubeconfig = Path(directory) / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        client = Client.connect(kubeconfig)
        slices, nodes = _cluster(8)
        claim = {**_claim(_TOO_MUCH), "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        for resource, objects in (
            (DEVICE_CLASSES, _CLASSES),
            (NODES, nodes),
            (RESOURCE_SLICES, slices),
            (RESOURCE_CLAIMS, [claim]),
        ):
            for one in objects:
                client.create(resource, one)
        command = [
            sys.executable,
            "-m",
            "dra_driver",
            "explain",
            "claim",
            "claim",
            f"--kubeconfig={kubeconfig}",
        ]
        times = []
        for _ in range(_STARTS):
            begin = time.perf_counter()
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            times.append(time.perf_counter() - begin)
            if ran.returncode != 1 or "is below 80Gi" not in ran.stdout:
                raise RuntimeError(f"explain has failed: {ran.stderr}")
        client.close()
    return statistics.median(times)


if __name__ == "__main__":
    main()

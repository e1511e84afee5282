"""`dra-driver demo`: the main job, end to end, on a laptop.

Starts an embedded cluster with simulated GPU nodes, applies examples (or the user's own files), and shows who
got which GPU, and what is pending and why. The node plugins and the controller are the real ones, as processes;
everything else is embedded.
"""

import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from dra_driver.cli import demo_scenarios
from dra_driver.cli.demo_manifests import apply, examples, read_files
from dra_driver.cli.demo_report import (
    allocations,
    devices_table,
    published_devices,
    reason_pending,
    runs,
    unexpectedly_pending,
)
from dra_driver.embedded.cluster import Cluster
from dra_driver.errors import UsageError
from dra_driver.inventory.profile import load_profile
from dra_driver.kube.reasons import Reason
from dra_driver.kube.resources import EVENTS, PODS

_PROFILES = ("dgx-h100", "l40s")
_SETTLE_SECONDS = 60.0
_EXPLAIN_SECONDS = 20.0  # a Pod that waits for something else than GPUs is not spoken of
_QUIET_SECONDS = 0.5  # nothing has changed for so long, and no Pod is on its way
_SLOW_SECONDS = (
    3.0  # the same where a Pod should run and does not: the scheduler may not have heard of all devices yet
)


def run(
    *, profiles: Sequence[str], nodes: int, files: Sequence[Path], keep: bool, scenario: str | None = None
) -> int:
    """Show the demo; 0 when all Pods that should run do, else 1."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(50)
    )  # the embedded parts are silent
    shown = None if scenario is None else demo_scenarios.find(scenario)
    if shown and (profiles or nodes or files):
        raise UsageError(
            "--scenario brings its own node and examples: leave --profile, --nodes and --file out"
        )
    kinds = list(profiles) or list(_PROFILES)
    for profile in kinds:
        load_profile(profile)  # a wrong one is told before anything starts
    manifests = read_files(files)
    begin = time.monotonic()

    def progress(text: str) -> None:
        print(f"[{time.monotonic() - begin:5.1f}s] {text}", flush=True)

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    directory = Path(tempfile.mkdtemp(prefix="dra-"))
    try:
        with Cluster(directory) as cluster:
            progress(f"API server, controllers and scheduler at {cluster.server.url}")
            cluster.add_controller()
            if shown:
                shown.add_node(cluster, "node-1")
            for number in range(0 if shown else nodes or len(kinds)):
                cluster.add_node(f"node-{number + 1}", kinds[number % len(kinds)])
            published = published_devices(cluster)
            progress(
                f"{len(published)} devices of {len(cluster.nodes)} node{'s' * (len(cluster.nodes) != 1)} discovered"
                " and published as ResourceSlices"
            )
            print(devices_table(published))
            waves = shown.waves() if shown else [manifests or examples(published)]
            for wave in waves:
                progress(f"applied {', '.join(apply(cluster, wave))}")
                pods = _settled(cluster)
            progress("every Pod runs, or the scheduler has said that it cannot")
            reasons = _explained(cluster, [pod for pod in pods if reason_pending(pod)])
            if reasons:
                progress("the controller has said why the others wait")
            print(allocations(cluster, published, pods, reasons))
            unexpected = unexpectedly_pending(pods)
            if shown:
                print(demo_scenarios.settings(cluster), *demo_scenarios.environments(cluster), "", sep="\n")
            if keep:
                _wait_for_user(cluster)
            elif shown:
                demo_scenarios.end(cluster)
                progress("all Pods are gone, and with them what was set for them")
                print(demo_scenarios.settings(cluster))
            return 1 if unexpected else 0
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _settled(cluster: Cluster) -> list[dict[str, Any]]:
    """All Pods, once each runs or cannot be scheduled, and stays so for a moment."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    quiet_since, seen = time.monotonic(), ""
    while True:
        listed = cluster.client.list(PODS)
        pods: list[dict[str, Any]] = listed["items"]
        state = "".join(f"{pod['metadata']['uid']}{reason_pending(pod)}" for pod in pods)
        on_the_way = [pod for pod in pods if not runs(pod) and not reason_pending(pod)]
        now = time.monotonic()
        if state != seen:
            quiet_since, seen = now, state
        quiet = _SLOW_SECONDS if unexpectedly_pending(pods) else _QUIET_SECONDS
        if (not on_the_way and now - quiet_since > quiet) or now > deadline:
            return pods
        time.sleep(0.05)


def _explained(cluster: Cluster, pending: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What the controller says of Pods that wait, by their UID, once it has spoken of all, or for a while."""
    deadline = time.monotonic() + _EXPLAIN_SECONDS
    wanted = {str(pod["metadata"]["uid"]) for pod in pending}
    while True:
        selector = f"reason={Reason.CLAIM_NOT_SATISFIABLE},involvedObject.kind=Pod"
        events = cluster.client.list(EVENTS, field_selector=selector)["items"]
        said = {one["involvedObject"]["uid"]: str(one["message"]) for one in events}
        if wanted <= said.keys() or time.monotonic() > deadline:
            return {uid: text for uid, text in said.items() if uid in wanted}
        time.sleep(0.05)


def _wait_for_user(cluster: Cluster) -> None:
    try:
        kubeconfig = cluster.kubeconfig
        print(
            f"Running until Ctrl-C. Try:\n    export KUBECONFIG={kubeconfig}\n    kubectl get resourceslices,pods -A\n"
            "    dra-driver simulate --drain node-1"
        )
        for node in cluster.nodes:
            print(f"    the plugin's log on {node.name}: {node.directory / 'plugin.log'}")
        print(f"    the controller's log: {cluster.directory / 'controller.log'}")
        threading.Event().wait()
    except KeyboardInterrupt:
        print()

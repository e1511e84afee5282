"""Many Pods at once, with plugins that are killed in the middle; and the end of a whole cluster."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dra_driver.embedded.cluster import Cluster
from dra_driver.kube.resources import PODS

_PODS = 30


def test_plugins_killed_amid_many_pods_lose_and_leak_nothing(new_node: Callable[..., Any]) -> None:
    nodes = [new_node("node-a", "dgx-h100"), new_node("node-b", "hgx-h200")]
    for node in nodes:
        node.published(8)
    node = nodes[0]
    names = {f"pod-{number}" for number in range(_PODS)}
    for name in names:
        node.run_pod(name)

    waiting = set(names)
    while waiting:
        name = node.until(
            lambda: next((name for name in sorted(waiting) if node.phase(name) == "Running"), None),
            "a running Pod",
        )
        waiting.remove(name)
        node.cluster.client.delete(PODS, name, namespace="default")
        if len(waiting) in {_PODS - 5, _PODS - 15}:
            killed = nodes[len(waiting) // 10 % 2]
            killed.plugin.stop(signal.SIGKILL)
            killed.restart()

    for name in names:
        node.delete_claim(name)
    for node in nodes:
        node.empty()
        node.ready()
        assert 8 == len(node.published(8))
        assert 0 == node.plugin.stop()
        assert "fault of this driver" not in node.log()


def processes() -> set[int]:
    """The children of this process."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended since
            _, parent, *_ = path.read_text().rpartition(")")[2].split()
            if int(parent) == os.getpid():
                found.add(int(path.parent.name))
    return found


def test_a_cluster_that_ends_leaves_no_process_thread_or_socket(directory: Path) -> None:
    before, threads = processes(), set(threading.enumerate())
    with Cluster(directory) as cluster:
        node = cluster.add_node("node-a", "l4")
        assert node.kubelet.wait_registered("gpu.nvidia.com", 90)
        assert processes() > before

    assert processes() <= before
    assert [] == list(directory.rglob("*.sock"))
    left = set(threading.enumerate()) - threads
    for thread in left:
        thread.join(60)  # connections of the kubelet are closed a while later
    assert [] == [thread for thread in left if thread.is_alive()]

"""Time-slicing and MPS with the plugin and the supervisor as processes: what Pods see, and who may be killed."""

import signal
from pathlib import Path
from typing import Any

import pytest

from dra_driver.files import read


def config(strategy: str, **fields: Any) -> list[dict[str, Any]]:
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": strategy, **fields},
    }
    return [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]


def run_pod(node: Any, name: str, settings: list[dict[str, Any]]) -> None:
    node.create_claim(name, node.request(), config=settings)
    node.create_pod(name)


def settings(node: Any) -> set[str]:
    """What nvidia-smi was told last, of all GPUs."""
    folder = node.plugin_dir / "driver-root" / "simulated"
    return {path.read_text().strip() for path in folder.glob("*.GPU-*")}


def daemons(node: Any) -> list[str]:
    """What the daemons say of their processes; a file may go as it is read."""
    found = (read(path) for path in (node.plugin_dir / "mps").glob("*/pipe/*.pid"))
    return [text.decode() for text in found if text]


def directories(node: Any) -> list[Path]:
    return [path for path in (node.plugin_dir / "mps").iterdir() if path.is_dir()]


@pytest.fixture
def supervised(node: Any) -> Any:
    """The node with a supervisor of MPS daemons, which is stopped when its claims are gone."""
    supervisor = node.cluster.add_mps_supervisor(node.node)
    yield node, supervisor
    node.reset()
    supervisor.stop()


def test_a_plugin_that_is_killed_leaves_the_daemon_of_a_running_pod_alone(supervised: Any) -> None:
    node, _ = supervised
    run_pod(node, "a", config("MPS"))
    before = (node.running("a").env["CUDA_MPS_PIPE_DIRECTORY"], daemons(node))

    node.plugin.stop(signal.SIGKILL)
    node.restart()
    node.ready()
    node.node.restart_kubelet()

    assert before == (node.running("a").env["CUDA_MPS_PIPE_DIRECTORY"], daemons(node))
    node.delete_pod("a")
    node.until(lambda: not directories(node), "the end of the daemon")
    assert {"Default"} == settings(node)


def test_a_daemon_of_a_damaged_record_serves_its_pod_and_is_ended_by_the_start_after_it(
    supervised: Any,
) -> None:
    node, _ = supervised
    run_pod(node, "a", config("MPS"))
    node.running("a")
    before = daemons(node)
    node.plugin.stop()
    (record,) = node.claims_dir.glob("*.json")
    record.write_bytes(record.read_bytes()[:-20])

    node.restart()
    node.ready()
    node.node.restart_kubelet()
    node.running("a")
    node.until(record.exists, "a new record")

    assert before == daemons(node)
    node.plugin.stop()
    record.write_bytes(record.read_bytes()[:-20])
    node.restart()
    node.delete_pod("a")
    node.plugin.stop()
    node.restart()
    node.ready()
    assert ([], {"Default"}) == (directories(node), settings(node))


def test_a_supervisor_that_is_killed_starts_the_daemon_again(supervised: Any) -> None:
    node, supervisor = supervised
    run_pod(node, "a", config("MPS"))
    node.running("a")
    (before,) = daemons(node)

    supervisor.stop(signal.SIGKILL)
    supervisor.start()

    node.until(lambda: daemons(node) not in ([], [before]), "a new daemon")
    node.delete_pod("a")
    node.until(lambda: not directories(node), "the end of the daemon")


def test_a_pod_says_that_there_is_no_supervisor_and_runs_once_there_is_one(node: Any) -> None:
    run_pod(node, "a", config("MPS"))
    node.failed("a", "the supervisor of MPS daemons does not answer")

    supervisor = node.cluster.add_mps_supervisor(node.node)

    assert "CUDA_MPS_PIPE_DIRECTORY" in node.running("a").env
    node.reset()
    assert ([], {"Default"}) == (directories(node), settings(node))
    supervisor.stop()


def test_an_interval_is_the_gpus_as_long_as_the_pod_is_there(node: Any) -> None:
    run_pod(node, "a", config("TimeSlicing", timeSlicingConfig={"interval": "Long"}))
    node.running("a")
    assert "Long" in settings(node)

    node.delete_pod("a")

    node.until(lambda: settings(node) == {"Default"}, "the default interval")


def test_a_mistake_is_told_in_the_pods_event_with_its_path(node: Any) -> None:
    run_pod(node, "a", config("MPS", mpsConfig={"defaultActiveThreadPercentage": 101}))

    node.failed("a", "mpsConfig.defaultActiveThreadPercentage: expected a percentage from 0 to 100, not 101")

"""Plugin, kubelet, or what they share goes and comes back, while Pods run."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from dra_driver.kube.resources import RESOURCE_SLICES

DRIVER = "gpu.nvidia.com"


def specs(node: Any) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in node.cdi_dir.iterdir()}


def test_specs_that_are_wiped_while_the_plugin_is_away_are_written_again(node: Any) -> None:
    node.run_pod("a", count=2)
    ids, before = node.running("a").cdi_ids, specs(node)
    node.plugin.stop()
    shutil.rmtree(node.cdi_dir)

    node.restart()

    node.ready()
    assert before == specs(node)
    node.node.restart_kubelet()
    assert ids == node.running("a").cdi_ids


def test_a_kubelet_that_restarts_gets_the_same_answer_again(node: Any) -> None:
    node.run_pod("a", count=2)
    ids = node.running("a").cdi_ids

    node.node.restart_kubelet()

    assert ids == node.running("a").cdi_ids
    checkpoint = json.loads((node.node.directory / "dra_manager_state").read_bytes())
    (claim,) = json.loads(checkpoint["Data"])["ClaimInfoStateList"]
    answers = claim["DriverState"][DRIVER]["Devices"]
    assert answers[2:] == answers[:2]  # the kubelet adds each answer to those before
    assert ids == tuple(cdi_id for answer in answers[:2] for cdi_id in answer["CDIDeviceIDs"])


def test_slices_that_somebody_deletes_are_made_again(node: Any) -> None:
    names = node.published(4)
    uid = node.slices()[0]["metadata"]["uid"]

    node.cluster.client.delete_collection(RESOURCE_SLICES)

    node.until(lambda: [uid] != [s["metadata"]["uid"] for s in node.slices()], "another slice")
    assert names == node.published(4)


def test_an_emptied_registry_directory_is_no_end(node: Any) -> None:
    node.ready()
    kubelet = node.node.kubelet

    away = node.registry_dir.rename(
        node.registry_dir.with_name("away")
    )  # at once: the plugin may bind anew any time
    shutil.rmtree(away)

    assert kubelet.wait_deregistered(DRIVER, node.seconds)
    answer = (503, "the kubelet has not registered the plugin yet")
    node.until(lambda: node.get("/readyz") == answer, "a plugin that is not ready")
    node.registry_dir.mkdir()
    node.registered()
    node.ready()
    node.run_pod("a")
    node.running("a")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_plugin_that_is_asked_to_stop_leaves_slices_and_records(node: Any, number: int) -> None:
    node.run_pod("a")
    node.running("a")
    before = node.state()

    assert 0 == node.plugin.stop(number)

    assert [] == [path for path in node.node.directory.rglob("*.sock") if "pod-resources" not in path.parts]
    assert before == node.state()
    assert 4 == len(node.devices())
    assert "level=error" not in node.log()


def test_a_plugin_can_be_asked_to_stop_before_it_has_started(node: Any) -> None:
    node.plugin.stop()
    lines = len(node.log().splitlines())

    node.restart()
    node.until(lambda: len(node.log().splitlines()) > lines, "a line of the new process")

    assert 0 == node.plugin.stop()


def test_a_killed_plugin_takes_its_sockets_back(node: Any) -> None:
    node.run_pod("a")
    node.running("a")
    node.plugin.stop(signal.SIGKILL)
    assert (node.plugin_dir / "dra.sock").exists()

    node.restart()

    node.ready()
    node.delete_pod("a")
    node.empty()


def test_a_lost_claims_socket_is_bound_anew(node: Any) -> None:
    node.ready()

    Path(node.plugin_dir, "dra.sock").unlink()

    node.logged("a socket of ours was removed")
    node.run_pod("a")
    node.running("a")

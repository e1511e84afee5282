"""`dra-driver explain` and `simulate` on a running cluster: they say what its scheduler decided, and why."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_driver.kube.resources import PODS

GPU = "device.attributes['gpu.nvidia.com']"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"


def test_a_pod_that_the_scheduler_refused_is_explained(cluster: Any) -> None:
    cluster.template("big", f"{MEMORY}.isGreaterThan(quantity('80Gi'))")
    cluster.pod("train", template="big")
    assert "cannot allocate all claims" in str(cluster.decided("train")["status"])

    ran = cluster.run("explain", "pod", "train")

    assert (1, "") == (ran.code, ran.err)
    assert ran.out.startswith("Pod team/train cannot be scheduled: no node has what it asks for\n")
    assert "selector 0 is false: memory 81559Mi (79.65Gi) is below 80Gi" in ran.out
    assert "compare memory with 79Gi instead of 80Gi (fits on dgx-h100-1)" in ran.out


def test_the_change_that_is_proposed_is_one_that_the_scheduler_takes(cluster: Any) -> None:
    cluster.claim("big", f"{MEMORY}.isGreaterThan(quantity('80Gi'))")
    (change, *_) = cluster.run("explain", "claim", "big", "-o", "json").data["changes"]

    cluster.claim("smaller", change["after"])
    cluster.pod("train", claim="smaller")

    assert change["node"] == cluster.decided("train")["spec"]["nodeName"]


def test_a_pod_that_has_its_device_shows_it(cluster: Any) -> None:
    cluster.template("one", f"{GPU}.productName.contains('L40S')")
    cluster.pod("serve", template="one")
    assert "l40s-1" == cluster.decided("serve")["spec"]["nodeName"]

    ran = cluster.run("explain", "pod/serve", "-o", "json")

    assert (0, "is on node l40s-1") == (ran.code, ran.data["summary"])
    (claim,) = ran.data["claims"]
    (device,) = claim["devices"]
    assert ("allocated,reserved", ["team/serve"]) == (claim["state"], claim["pods"])
    assert "NVIDIA L40S" == device["productName"]
    assert device["uuid"].startswith("GPU-")


def test_who_holds_what_a_pod_lacks_is_named_with_its_priority(cluster: Any) -> None:
    cluster.template("all", f"{GPU}.productName.contains('H100')", count=8)
    cluster.pod("first", template="all")
    cluster.decided("first")
    cluster.pod("second", template="all", priority=1000)
    cluster.decided("second")

    ran = cluster.run("explain", "pod", "second")

    assert 1 == ran.code
    assert "of Pod team/first" in ran.out
    assert "Pods of lower priority than 1000 hold devices that this one could have: team/first (0)" in ran.out
    assert "a template makes a claim for each Pod" in ran.out
    assert "1. wait until claim team/first-gpu-" in ran.out


def test_what_the_kubelet_said_of_a_pod_is_told(cluster: Any) -> None:
    cluster.claim("c")
    cluster.pod("p", claim="c")
    pod = cluster.decided("p")
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "team",
        "name": "p",
        "uid": pod["metadata"]["uid"],
    }
    message = (
        "prepare dynamic resources: NodePrepareResources failed for ResourceClaim c: device gpu-0 is gone"
    )
    event = {"kind": "Event", "metadata": {"name": "p.1"}, "involvedObject": about, "message": message}
    cluster.create({**event, "reason": "FailedPrepareDynamicResources", "type": "Warning"})

    ran = cluster.run("explain", "pod", "p")

    assert 1 == ran.code
    assert "error: not prepared: driver gpu.nvidia.com said: device gpu-0 is gone" in ran.out


def test_files_are_explained_as_if_they_were_applied(cluster: Any, tmp_path: Path) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "mine"},
        "spec": cluster.spec(f"{GPU}.architecture == 'Hopper'"),
    }
    file = tmp_path / "claim.yaml"
    file.write_text(yaml.safe_dump(claim))

    ran = cluster.run("explain", "-f", str(file), "--live")

    assert (0, "") == (ran.code, ran.err)
    assert ran.out.startswith("ResourceClaim team/mine can be allocated, on dgx-h100-1\n")


def test_what_if_a_node_were_drained(cluster: Any) -> None:
    cluster.template("one", f"{GPU}.productName.contains('H100')")
    cluster.pod("train", template="one")
    cluster.decided("train")

    ran = cluster.run("simulate", "--drain", "dgx-h100-1", "-o", "json")

    assert 1 == ran.code
    (waiting,) = ran.data["waiting"]
    assert ["team/train"] == waiting["names"]
    assert "dgx-h100-1" == cluster.client.get(PODS, "train", "team")["spec"]["nodeName"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "pod", "absent"], "there is no Pod team/absent"),
        (["explain", "claim", "absent"], "there is no ResourceClaim team/absent"),
        (["explain", "template", "absent"], "there is no ResourceClaimTemplate team/absent"),
    ],
)
def test_what_is_not_there_is_told(cluster: Any, arguments: list[str], said: str) -> None:
    ran = cluster.run(*arguments)

    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err


def test_the_program_itself_finds_the_cluster_by_its_environment(cluster: Any) -> None:
    cluster.claim("c")
    command = [sys.executable, "-m", "dra_driver", "explain", "claim", "c", "-n", "team"]

    ran = subprocess.run(
        command, env={"KUBECONFIG": str(cluster.kubeconfig)}, capture_output=True, text=True, check=False
    )

    assert (0, "") == (ran.returncode, ran.stderr)
    assert "no Pod uses it; a claim gets its devices when a Pod that names it is scheduled" in ran.stdout

"""`dra-driver demo` as a user starts it."""

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

_DEMO = [sys.executable, "-m", "dra_driver", "demo"]
_KUBECTL = Path(sys.executable).parent / "kubectl"
_CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mine, namespace: team}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: COUNT}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: mine, namespace: team}
spec:
  containers: [{name: app, image: app, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: mine}]
"""


def _demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_DEMO, *arguments], capture_output=True, text=True, timeout=110, check=False)


def _rows(output: str, pods: Sequence[str]) -> dict[str, list[list[str]]]:
    """The rows of the allocation table, by Pod, split at two and more spaces."""
    split = [re.split(r" {2,}", line.strip()) for line in output.splitlines()]
    return {pod: [row for row in split if row[0] == pod and len(row) == 6] for pod in pods}


@pytest.fixture(scope="module")
def examples() -> subprocess.CompletedProcess[str]:
    return _demo()


def test_the_examples_get_what_they_ask_for(examples: subprocess.CompletedProcess[str]) -> None:
    pods = (
        "by-model",
        "by-memory",
        "by-architecture",
        "nvlink-pair",
        "shared-a",
        "shared-b",
        "extended-resource",
    )
    rows = _rows(examples.stdout, pods)

    assert (0, "") == (examples.returncode, examples.stderr)
    assert [1, 1, 2, 2, 1, 1, 1] == [len(rows[pod]) for pod in pods]
    assert {"NVIDIA L40S"} == {row[4] for row in rows["by-model"]}
    assert {"NVIDIA H100 80GB HBM3"} == {
        row[4] for pod in ("by-memory", "by-architecture") for row in rows[pod]
    }
    assert ["node-1", "node-1"] == [row[2] for row in rows["nvlink-pair"]]
    assert rows["shared-a"][0][2:] == rows["shared-b"][0][2:]


def test_no_gpu_is_given_to_two_claims(examples: subprocess.CompletedProcess[str]) -> None:
    found = re.findall(
        r"(\S+)/(?:\S+) +node-\d +gpu-\S+ .*(GPU-[0-9a-f-]{36})$", examples.stdout, re.MULTILINE
    )

    claims_of: dict[str, set[str]] = {}
    for claim, uuid in found:
        claims_of.setdefault(uuid, set()).add(claim)

    assert 8 == len(claims_of)
    assert {1} == {len(claims) for claims in claims_of.values()}


def test_containers_see_their_gpus_nodes_by_their_own_cdi_ids(
    examples: subprocess.CompletedProcess[str],
) -> None:
    (nodes,) = re.findall(r"^nvlink-pair, container app: (.*)$", examples.stdout, re.MULTILINE)
    ids = re.findall(r"k8s\.gpu\.nvidia\.com/claim=[0-9a-f-]{36}-gpu-\S+", examples.stdout)

    assert 2 == len(re.findall(r"/dev/nvidia\d+", nodes))
    assert {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= set(nodes.split())
    assert 9 == len(ids)  # the shared claim's is shown for both its Pods


def test_what_is_pending_has_the_controllers_reason(examples: subprocess.CompletedProcess[str]) -> None:
    (pending,) = re.findall(r"^demo/unsatisfiable +(.*)$", examples.stdout, re.MULTILINE)

    assert pending.startswith(
        "cannot be scheduled: request gpus: 16 devices wanted, and no node has more than 8"
    )


def test_own_files_and_another_profile_are_taken(tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text(_CLAIM.replace("COUNT", "4"))

    done = _demo("--profile", "gb200-nvl72", "-f", str(tmp_path))

    assert (0, "") == (done.returncode, done.stderr)
    assert ["NVIDIA GB200"] * 4 == [row[4] for row in _rows(done.stdout, ["mine"])["mine"]]


def test_what_cannot_be_satisfied_is_told_by_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text(_CLAIM.replace("COUNT", "2"))

    done = _demo("--profile", "gb10", "-f", str(tmp_path / "claim.yaml"))

    assert 1 == done.returncode
    assert "team/mine" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile", "dgx-z100"], "dgx-z100"),
        (["-f", "/does/not/exist.yaml"], "/does/not/exist.yaml does not exist"),
        (["--nodes", "0"], "--nodes"),
        (["--nodes", "many"], "--nodes"),
        (["--unknown"], "--unknown"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(arguments: list[str], message: str) -> None:
    done = _demo(*arguments)

    assert (2, "") == (done.returncode, done.stdout)
    assert message in done.stderr
    assert 1 == len(done.stderr.strip().splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 2, column 1: expected YAML"),
        ("kind: Deployment\napiVersion: apps/v1\n", "not apps/v1 Deployment"),
        ("just text", "expected objects with apiVersion and kind"),
        ("kind: Pod\napiVersion: v1\n", "Pod without a name: metadata.name is missing"),
        (
            "kind: Pod\napiVersion: v1\nmetadata: {name: Bad_Name}\nspec: {containers: [{name: a, image: a}]}\n",
            "Bad_Name",
        ),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)

    done = _demo("-f", str(tmp_path / "bad.yaml"))

    assert done.returncode in {2, 3}
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def _names(kubectl: list[str], kind: str, name: str, selector: str) -> set[str]:
    shown = f"jsonpath={{range .items[*]}}{name} {{end}}"
    command = [*kubectl, "get", kind, "-n", "demo", "-o", shown, "--field-selector", selector]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.kubectl
def test_it_can_be_kept_and_used_with_kubectl() -> None:
    with subprocess.Popen(
        [*_DEMO, "--keep", "--profile", "t4"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        kubeconfig = ""
        for line in demo.stdout:
            if "export KUBECONFIG=" in line:
                kubeconfig = line.strip().removeprefix("export KUBECONFIG=")
            if "the controller's log" in line:
                break
        kubectl = [str(_KUBECTL), "--kubeconfig", kubeconfig]
        slices = subprocess.run(
            [*kubectl, "get", "resourceslices"], capture_output=True, text=True, check=True
        )
        described = subprocess.run(
            [*kubectl, "describe", "pod", "-n", "demo", "unsatisfiable"],
            capture_output=True,
            text=True,
            check=True,
        )
        waiting = _names(kubectl, "pods", "{.metadata.name}", "spec.nodeName=")
        told = _names(kubectl, "events", "{.involvedObject.name}", "reason=ClaimNotSatisfiable")
        demo.send_signal(signal.SIGTERM)  # Ctrl-C sends another signal to the same end
        code = demo.wait(timeout=90)

    assert re.search(r"node-1 +gpu\.nvidia\.com +node-1/gpu", slices.stdout)
    assert "FailedScheduling" in described.stdout
    assert re.search(r"Warning +ClaimNotSatisfiable .*gpu\.nvidia\.com-controller", described.stdout)
    assert {"unsatisfiable", "nvlink-pair"} <= waiting <= told
    assert 1 == code  # with four T4 not all examples can run
    assert not Path(kubeconfig).parent.exists()

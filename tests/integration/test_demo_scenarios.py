"""`dra-driver demo --scenario`: each way of having a part of a GPU, to the end of its Pods."""

import re
import subprocess
import sys

import pytest

NOTHING = "Nothing is set on any node."


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dra_driver", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def shown(scenario: str) -> str:
    """What the scenario prints; it succeeds, and leaves nothing."""
    done = demo("--scenario", scenario)

    assert (0, "") == (done.returncode, done.stderr)
    assert NOTHING == done.stdout.splitlines()[-1]
    return done.stdout


def settings(output: str) -> list[list[str]]:
    """The rows of what the node was set to."""
    (table,) = re.findall(r"^NODE +WHAT +OF +IS\n((?:node-1 .*\n)+)", output, re.MULTILINE)
    return [re.split(r" {2,}", line)[1:] for line in table.splitlines()]


def test_mig_devices_are_made_until_the_gpu_is_full() -> None:
    output = shown("mig")

    rows = settings(output)
    profiles = sorted(re.sub(r".*-mig-(\dg)-.*", r"\1", row[1]) for row in rows)
    assert ["1g", "1g", "2g", "3g"] == profiles
    assert 4 == len({row[2] for row in rows if row[2].startswith("MIG-")})
    assert re.search(r"^demo/one-too-many +cannot be scheduled", output, re.MULTILINE)
    given = re.findall(r"^\S+ +\S+/\S+ +node-1 +(\S+) .* (\S+)$", output, re.MULTILINE)
    assert {(row[1], row[2]) for row in rows if row[0] == "MIG device"} == set(given)


def test_two_gpus_have_turns_of_different_length() -> None:
    assert {"Long", "Short"} == {row[2] for row in settings(shown("time-slicing"))}


def test_containers_of_two_pods_are_clients_of_one_mps_daemon() -> None:
    output = shown("mps")

    rows = {row[0]: row[2] for row in settings(output)}
    assert "Exclusive_Process" == rows["compute mode"]
    assert rows["MPS daemon"].startswith("50 % of the threads, 10240 MiB of GPU-")
    clients = re.findall(r"^demo/(\S+), .*: CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps$", output, re.MULTILINE)
    assert ["client-a", "client-b"] == clients


def test_claims_share_a_gpu_as_long_as_there_is_memory_and_mps_holds_them_to_it() -> None:
    output = shown("shares")

    limits = re.findall(r"^demo/(\S+), .*: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=(\S+)$", output, re.MULTILINE)
    assert [(f"part-{number}", "0=18432M") for number in range(1, 5)] == limits
    assert re.search(r"^demo/one-too-many +cannot be scheduled: .*capacity", output, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scenario", "half"], "'half' is none of mig, time-slicing, mps, shares"),
        (["--scenario", "mig", "--profile", "t4"], "leave --profile, --nodes and --file out"),
        (["--scenario", "mig", "--nodes", "2"], "leave --profile, --nodes and --file out"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(arguments: list[str], message: str) -> None:
    done = demo(*arguments)

    assert (2, "") == (done.returncode, done.stdout)
    assert message in done.stderr

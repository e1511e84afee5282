"""Starts that are refused: exit code, one sentence, and nothing bound or published."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dra_driver.node.flags import FLAGS
from tests.unit.embedded.kubelet.scripted_plugin import ScriptedPlugin

Start = Callable[..., tuple[int, str]]
_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    with TemporaryDirectory(prefix="dra-") as name:
        Path(name, "kubeconfig").write_text(_KUBECONFIG)
        Path(name, "file").touch()
        Path(name, "reg").mkdir()
        yield Path(name)


@pytest.fixture
def start(directory: Path) -> Start:
    """Runs the plugin with valid flags and those given, until it ends: exit code and standard error."""

    def start(*flags: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "dra_driver", "kubelet-plugin", "--node-name=n"]
        command += [f"--kubeconfig={directory}/kubeconfig", "--backend=simulated:t4"]
        command += [f"--kubelet-plugins-dir={directory}/plugins", f"--kubelet-registry-dir={directory}/reg"]
        command += [f"--cdi-dir={directory}/cdi", *(flag.format(directory) for flag in flags)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        return ended.returncode, ended.stderr + ended.stdout

    return start


@pytest.mark.parametrize(
    ("flag", "code", "sentence"),
    [
        ("--cdi-directory=/run/cdi", 2, "unrecognized arguments: --cdi-directory=/run/cdi"),
        (
            "--backend=simulated:dgx-z9",
            2,
            "there is no profile 'dgx-z9': expected one of a100-pcie-bridges, ",
        ),
        ("--backend=simulated:{}/file", 2, "{}/file: "),
        ("--driver-root={}", 2, "the driver root {} is not empty and was not made for simulated GPUs"),
        ("--kubeconfig={}/none", 2, "cannot use the kubeconfig {}/none: "),
        ("--kubelet-plugins-dir={}/" + "x" * 100, 2, "bytes, the kernel allows 107: use a shorter directory"),
        ("--cdi-dir={}/file", 3, "cannot make the directory {}/file: File exists"),
        (
            "--kubelet-plugins-dir={}/file/x",
            3,
            "cannot make the directory {}/file/x/gpu.nvidia.com: Not a dir",
        ),
        ("--metrics-address=203.0.113.1:80", 3, "cannot listen on 203.0.113.1:80 for metrics and probes: "),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(
    start: Start, directory: Path, flag: str, code: int, sentence: str
) -> None:
    ended, text = start(flag)

    *_, last = text.splitlines()
    assert sentence.format(directory) in last
    assert (code, False) == (ended, "Traceback" in text)
    assert [] == list(directory.rglob("*.sock"))


def test_a_health_port_that_is_taken_is_told(start: Start) -> None:
    with socket.create_server(("", 0)) as taken:
        code, text = start(f"--healthcheck-port={taken.getsockname()[1]}")

    assert (3, True) == (code, "for health checks: " in text)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_claims_of_the_official_driver_are_in_the_way(start: Start, directory: Path, version: str) -> None:
    checkpoint = directory / "plugins" / "gpu.nvidia.com" / "checkpoint.json"
    checkpoint.parent.mkdir(parents=True)
    claims: dict[str, object] = {"uid-1": {}, "uid-2": {}}
    checkpoint.write_text(json.dumps({"checksum": 1, version: {"preparedClaims": claims}}))

    code, text = start()

    assert 2 == code
    assert f"{checkpoint} of the official driver holds 2 prepared claims: drain the node" in text


@pytest.mark.parametrize(
    "name", ["gpu.nvidia.com-reg.sock", "gpu.nvidia.com-1b9d6bcd-reg.sock", "x/other.sock"]
)
def test_another_plugin_of_our_name_is_in_the_way(start: Start, directory: Path, name: str) -> None:
    theirs = directory / "theirs"
    registry = directory / "reg"
    with ScriptedPlugin("gpu.nvidia.com", registry, theirs) as plugin:
        path = registry / name
        path.parent.mkdir(exist_ok=True)
        plugin.registration_socket.rename(path)

        code, text = start()

        path.rename(plugin.registration_socket)
    assert 2 == code
    assert "another plugin is registered as gpu.nvidia.com on this node" in text
    assert f"(socket {path}, serving {theirs}/dra.sock): remove that driver from the node" in text


def test_help_names_every_flag(start: Start) -> None:
    code, text = start("--help")

    assert 0 == code
    assert [] == [flag.name for flag in FLAGS if f"--{flag.name} " not in text]

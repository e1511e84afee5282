"""The controller as a process: its exit codes, its probes, and an orderly end."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(door: Any) -> Iterator[Start]:
    """Starts the command with what it needs, and further flags."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> "subprocess.Popen[str]":
        required = [
            f"--kubeconfig={door.kubeconfig}",
            "--namespace=dra-driver",
            "--identity=a",
            "--log-format=json",
        ]
        command = [sys.executable, "-m", "dra_driver", "controller", *required]
        process = subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=90) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""


def test_it_becomes_ready_and_ends_when_asked(door: Any, start: Start, until: Any) -> None:
    door.register()
    port = free_port()
    process = start("--webhook-address=127.0.0.1:0", f"--metrics-address=127.0.0.1:{port}")

    def ready() -> None:
        assert (200, "ok\n") == get(port, "/readyz")

    until(ready)
    metrics = get(port, "/metrics")[1]
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=90)

    assert 0 == process.returncode
    assert "dra_driver_webhook_certificate_expiry_timestamp_seconds 1." in metrics
    events = {json.loads(line)["event"] for line in told.splitlines()}
    assert {"controller started", "certificate in use", "asked to stop"} <= events


def test_without_an_api_server_it_waits_and_says_for_what(door: Any, start: Start, until: Any) -> None:
    port = free_port()
    nowhere = Path(door.kubeconfig).with_name("nowhere")
    nowhere.write_text(Path(door.kubeconfig).read_text().replace(door.server.url, "http://127.0.0.1:1"))
    addresses = ("--webhook-address=127.0.0.1:0", f"--metrics-address=127.0.0.1:{port}")
    process = start(f"--kubeconfig={nowhere}", *addresses)

    def waits() -> None:
        status, why = get(port, "/readyz")
        assert 503 == status
        assert "cannot list" in why or "not been listed" in why

    until(waits)
    assert (200, "ok\n") == get(port, "/healthz")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=90)
    assert 0 == process.returncode


WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "flag": (("--webhook=x",), 2, "unrecognized arguments: --webhook=x"),
    "policy file": (("--config=/nowhere.yaml",), 2, "/nowhere.yaml cannot be read: No such file"),
    "kubeconfig": (("--kubeconfig=/nowhere",), 2, "/nowhere"),
    "address": (("--webhook-address=203.0.113.1:1",), 3, "cannot listen on 203.0.113.1:1 for the webhook"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_at_the_start_ends_it_with_a_sentence(start: Start, name: str) -> None:
    arguments, code, message = WRONG[name]
    process = start(*arguments)

    _, told = process.communicate(timeout=90)

    assert code == process.returncode
    assert message in told
    assert 1 == len(told.splitlines())

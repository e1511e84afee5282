"""What the controller costs in a cluster of 5,000 nodes with 8 GPUs and 10,000 claims, beside what it has to keep to.

The controller is a process, the API server a stub in another one. Every fifth claim waits, in five different ways.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from bench import webhook
from bench.stub_api import kubeconfig

_ROOT = Path(__file__).parent.parent
_NODES, _CLAIMS = 5_000, 10_000
_IDLE_SECONDS = 30.0
_PATIENCE_SECONDS = 600.0


def main() -> None:
    print(
        f"\n{f'controller, {_NODES:,} nodes x 8 GPUs, {_CLAIMS:,} claims':<68} {'measured':>9} {'target':>8}"
    )
    with tempfile.TemporaryDirectory(prefix="dra-bench-") as directory:
        _measure(Path(directory))


def _measure(directory: Path) -> None:
    command = [sys.executable, "-m", "bench.stub_cluster", str(_NODES), str(_CLAIMS)]
    stub = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    assert stub.stdout is not None
    server = f"127.0.0.1:{stub.stdout.readline().strip()}"
    lists: list[str] = []
    output = stub.stdout
    threading.Thread(target=lambda: lists.extend(output), daemon=True).start()
    path = directory / "kubeconfig"
    path.write_text(json.dumps(kubeconfig(server)))
    metrics = f"127.0.0.1:{_free_port()}"
    flags = [f"--kubeconfig={path}", "--namespace=dra-driver", "--identity=bench"]
    port = _free_port()
    flags += [f"--webhook-address=127.0.0.1:{port}", f"--metrics-address={metrics}"]
    begin = time.monotonic()
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dra_driver", "controller", *flags], cwd=_ROOT, stderr=log
        )
    try:
        _until(lambda: _get(f"http://{metrics}/readyz") == "ok\n")
        _row("start to ready", time.monotonic() - begin, 30, "s")
        _row("peak resident memory until then", _memory(process.pid, "VmHWM"), 400, "MiB")
        _until(lambda: "dra_driver_leader 1.0" in _get(f"http://{metrics}/metrics"))
        for label, milliseconds, target in webhook.measure(port):
            _row(f"{label}, while explaining", milliseconds, target, "ms")
        _until(lambda: 'pending_claims{reason="unexplained"} 0.0' in _get(f"http://{metrics}/metrics"))
        _row("start to a reason for each that waits", time.monotonic() - begin, None, "s")
        _row("processor seconds until then", _cpu(process.pid), None, "s")
        before = _cpu(process.pid)
        time.sleep(_IDLE_SECONDS)
        used = 100 * (_cpu(process.pid) - before) / _IDLE_SECONDS
        _row("processor while Events go out and nothing changes", used, None, "%")
        for label, milliseconds, target in webhook.measure(port, first=10_000):
            _row(label, milliseconds, target, "ms")
        _row("peak resident memory", _memory(process.pid, "VmHWM"), 400, "MiB")
        _row("lists of slices asked for", sum("resourceslices" in one for one in lists), None, "")
    finally:
        for one in (process, stub):
            one.send_signal(signal.SIGTERM)
            one.wait(timeout=30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _row(label: str, measured: float, target: float | None, unit: str) -> None:
    shown = "" if target is None else f"{target:g}"
    print(f"{label:<68} {measured:>9,.1f} {shown:>8}  {unit}", flush=True)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it has not come to that")
        time.sleep(0.1)


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, OSError):
        return ""


def _memory(pid: int, name: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:")) / 1024


def _cpu(pid: int) -> float:
    """Processor seconds, of user and of system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

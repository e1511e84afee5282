"""Runs both plugins in turns and prints the table; see the package."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from bench import controller, scheduling
from bench.stub_api import kubeconfig
from dra_driver.kubelet.pb import dra_v1_pb2 as pb
from dra_driver.kubelet.pb import dra_v1_pb2_grpc as pb_grpc

_ROOT = Path(__file__).parent.parent
_DELAY_SECONDS = 0.002
_ROUNDS = 3  # each plugin is started this often
_TURNS = 5  # per round: both run, and are measured in turns of less than a second, since the machine's speed changes
_CALLS = 80  # per turn
_CALLERS = (1, 8)
_HELD = 500
_PLUGINS = ("ours", "bare")
_PREPARE, _UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"


@dataclass
class Figures:
    """What was measured of one plugin, over all rounds."""

    start: list[float] = field(default_factory=list)  # seconds
    # What was called, how many callers at once, claims held -> seconds
    calls: dict[tuple[str, int, int], list[float]] = field(default_factory=dict)
    memory: dict[int, list[int]] = field(default_factory=dict)  # held -> KiB


class Plugin:
    """A running plugin and the stub server it talks to."""

    def __init__(self, kind: str, directory: Path) -> None:
        self._stub = subprocess.Popen(
            [sys.executable, "-m", "bench.stub_api", str(_DELAY_SECONDS)],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._stub.stdout is not None
        server = f"127.0.0.1:{self._stub.stdout.readline().strip()}"
        for name in ("plugins", "registry", "cdi"):
            (directory / name).mkdir(parents=True)
        if kind == "bare":
            command = [
                "-m",
                "bench.bare",
                server,
                *(str(directory / n) for n in ("plugins", "registry", "cdi")),
                "n",
            ]
            endpoint = directory / "plugins" / "dra.sock"
        else:
            path = directory / "kubeconfig"
            path.write_text(json.dumps(kubeconfig(server)))
            command = ["-m", "dra_driver", "kubelet-plugin", "--node-name=n", "--backend=simulated:dgx-h100"]
            command += [f"--kubeconfig={path}", f"--kubelet-plugins-dir={directory / 'plugins'}"]
            command += [f"--kubelet-registry-dir={directory / 'registry'}", f"--cdi-dir={directory / 'cdi'}"]
            endpoint = directory / "plugins" / "gpu.nvidia.com" / "dra.sock"
        begin = time.time()
        with (directory / "log").open("w") as log:
            self._process = subprocess.Popen([sys.executable, *command], cwd=_ROOT, stderr=log)
        self.seconds_to_slices = self._first_devices() - begin
        self._channel = grpc.insecure_channel(f"unix:{endpoint}")
        grpc.channel_ready_future(self._channel).result(timeout=30)
        self._stub_dra = pb_grpc.DRAPluginStub(self._channel)

    def prepare(self, name: str, uid: str) -> float:
        """Seconds that the call took."""
        request = pb.NodePrepareResourcesRequest(claims=[{"namespace": "ns", "name": name, "uid": uid}])
        begin = time.perf_counter()
        response = self._stub_dra.NodePrepareResources(request)
        seconds = time.perf_counter() - begin
        if response.claims[uid].error or not response.claims[uid].devices:
            raise RuntimeError(f"{name} was not prepared: {response.claims[uid].error}")
        return seconds

    def unprepare(self, name: str, uid: str) -> float:
        """Seconds that the call took."""
        request = pb.NodeUnprepareResourcesRequest(claims=[{"namespace": "ns", "name": name, "uid": uid}])
        begin = time.perf_counter()
        response = self._stub_dra.NodeUnprepareResources(request)
        seconds = time.perf_counter() - begin
        if error := response.claims[uid].error:
            raise RuntimeError(f"{name} was not unprepared: {error}")
        return seconds

    @property
    def resident_kib(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))

    def close(self) -> None:
        self._channel.close()
        for process in (self._process, self._stub):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)

    def _first_devices(self) -> float:
        assert self._stub.stdout is not None
        for line in self._stub.stdout:
            _, when, devices = line.split()
            if devices != "0":
                return float(when)
        raise RuntimeError("no slice was published")


@contextmanager
def _plugin(kind: str) -> Iterator[Plugin]:
    directory = Path(tempfile.mkdtemp(prefix="dra-bench-", dir=_directory()))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        plugin = Plugin(kind, directory)
        stack.callback(plugin.close)
        yield plugin


def _measure(plugin: Plugin, callers: int) -> dict[str, list[float]]:
    """Seconds by call, with so many callers at once; each prepares and unprepares one claim after another on a GPU of its own."""
    times: dict[str, list[float]] = {_PREPARE: [], _UNPREPARE: []}
    failures: list[Exception] = []

    def caller(number: int) -> None:
        try:
            for _ in range(_CALLS // callers):
                uid = str(uuid.uuid4())
                name = f"c-{number}-{uid}"
                times[_PREPARE].append(plugin.prepare(name, uid))
                times[_UNPREPARE].append(plugin.unprepare(name, uid))
        except (RuntimeError, grpc.RpcError) as error:
            failures.append(error)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return times


def _round(figures: Mapping[str, Figures]) -> None:
    with ExitStack() as stack:
        plugins = {kind: stack.enter_context(_plugin(kind)) for kind in _PLUGINS}
        for kind, plugin in plugins.items():
            figures[kind].start.append(plugin.seconds_to_slices)
        for held in (0, _HELD):
            for plugin in plugins.values():
                for number in range(held):
                    uid = str(uuid.uuid4())
                    plugin.prepare(f"adm-{number % 8}-{uid}", uid)
            for _ in range(_TURNS):
                for callers in _CALLERS:
                    for kind, plugin in plugins.items():
                        for call, times in _measure(plugin, callers).items():
                            figures[kind].calls.setdefault((call, callers, held), []).extend(times)
            for kind, plugin in plugins.items():
                figures[kind].memory.setdefault(held, []).append(plugin.resident_kib)


def _row(label: str, unit: str, ours: float, bare: float) -> str:
    return f"{label:<58} {ours:>9.1f} {bare:>9.1f} {ours / bare:>6.2f}  {unit}"


def main() -> None:
    os.environ["GRPC_VERBOSITY"] = "NONE"
    figures = {kind: Figures() for kind in _PLUGINS}
    for _ in range(_ROUNDS):
        _round(figures)
    ours, bare = figures["ours"], figures["bare"]
    print(
        f"8 GPUs (simulated:dgx-h100), API server answers in {_DELAY_SECONDS * 1000:g} ms, {_ROUNDS} rounds in turns"
    )
    print(f"all files in {_directory()}, where making one takes {_seconds_of_a_file() * 1e6:.0f} us")
    print(f"{'':<58} {'ours':>9} {'bare':>9} {'ratio':>6}")
    starts = [1000 * statistics.median(f.start) for f in (ours, bare)]
    print(_row("start to slices published, median", "ms", *starts))
    for (call, callers, held), times in sorted(ours.calls.items()):
        for percent in (50, 99):
            pair = [1000 * _percentile(t, percent) for t in (times, bare.calls[call, callers, held])]
            label = f"{call} p{percent}, {callers} caller{'s' * (callers > 1)}, {held} claims held"
            print(_row(label, "ms", *pair))
    for held, sizes in ours.memory.items():
        pair = [statistics.median(s) / 1024 for s in (sizes, bare.memory[held])]
        print(_row(f"resident memory, {held} claims held", "MiB", *pair))
    scheduling.main()
    controller.main()


def _directory() -> str:
    """Where both plugins have all their files: TMPDIR, or tmpfs, as CDI directories are on a node.

    We make three files a claim and bare one, so that on a slow file system that is all that would be seen.
    """
    return os.environ.get("TMPDIR") or ("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir())


def _seconds_of_a_file() -> float:
    """How long the file system takes for a new file, median."""
    with tempfile.TemporaryDirectory(prefix="dra-bench-", dir=_directory()) as directory:
        times = []
        for number in range(200):
            path = Path(directory, str(number))
            begin = time.perf_counter()
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            times.append(time.perf_counter() - begin)
            path.unlink()
    return statistics.median(times)


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    main()

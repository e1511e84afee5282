"""The supervisor as a process: it outlives the plugin, and what it was told outlives it."""

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dra_driver.errors import HardwareError, UnavailableError, UsageError
from dra_driver.sharing import kernel
from dra_driver.sharing import supervisor as supervisor_module
from dra_driver.sharing.daemon import DaemonSpec
from dra_driver.sharing.keeper import Keeper, Surroundings, make_directory
from dra_driver.sharing.supervision import SOCKET, DaemonDirectory, Supervisor
from dra_driver.sharing.supervisor import SupervisorProcess
from tests.exhausted import fail_first_accept

PATIENCE_SECONDS = 60.0
SPEC = DaemonSpec(("GPU-1",), threads=10)


@contextmanager
def process(directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A supervisor of its own, with the socket bound."""
    plugins = directory.parent / "plugins" / "gpu.nvidia.com"
    plugins.mkdir(parents=True, exist_ok=True)
    if not (plugins / "mps").exists():
        (plugins / "mps").symlink_to(directory)
    directory.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "dra_driver", "mps-supervisor"]
    with subprocess.Popen(
        [*command, f"--kubelet-plugins-dir={plugins.parent}"], stderr=subprocess.DEVNULL
    ) as running:
        supervisor = Supervisor(directory)
        wait_until(lambda: answers(supervisor))
        yield running
        running.kill()


@pytest.fixture
def may_mount(tmp_path: Path) -> None:
    """Skip where this process may not mount: being root is not enough in a container."""
    place = tmp_path / "mount"
    place.mkdir()
    try:
        kernel.mount_tmpfs(place, 1 << 20)
    except PermissionError:
        pytest.skip("nothing may be mounted here")
    kernel.unmount(place)


def answers(supervisor: Supervisor) -> bool:
    try:
        supervisor.names()
    except UnavailableError:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pid_of(directory: Path) -> int:
    """The process of the daemon; 0 while it has not said which that is."""
    try:
        return int((directory / SPEC.name / "pipe" / "nvidia-cuda-mps-control.pid").read_text())
    except (FileNotFoundError, ValueError):
        return 0


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_killed_supervisor_takes_its_daemons_along_and_starts_them_again(
    root: Any, mps_directory: Path
) -> None:
    supervisor = Supervisor(mps_directory)
    with process(mps_directory) as running:
        supervisor.start(SPEC, {}, root.path, simulated=True)
        supervisor.wait(SPEC.name, PATIENCE_SECONDS)
        pid = pid_of(mps_directory)
        running.send_signal(signal.SIGKILL)
        running.wait()
        wait_until(lambda: not alive(pid))

    with process(mps_directory) as running:
        supervisor.wait(SPEC.name, PATIENCE_SECONDS)
        other = pid_of(mps_directory)
        supervisor.stop(SPEC.name)
        running.send_signal(signal.SIGTERM)

        assert (0, False) == (running.wait(PATIENCE_SECONDS), alive(other))
    assert pid != other


def test_a_daemon_is_not_started_once_its_supervisor_is_gone(mps_directory: Path) -> None:
    launcher = [sys.executable, "-m", "dra_driver.sharing.launch"]

    def launched_by(process: int) -> int:
        command = [*launcher, str(process), str(mps_directory), "--plain", "/bin/true"]
        return subprocess.run(command, check=False).returncode

    assert (0, -signal.SIGKILL) == (launched_by(os.getpid()), launched_by(os.getppid()))


@pytest.mark.parametrize("left_behind", [[], ["shm"], ["shm", "pipe", "log"]])
def test_a_directory_without_its_file_is_cleared(
    supervise: Any, mps_directory: Path, left_behind: list[str]
) -> None:
    for name in left_behind:
        (mps_directory / SPEC.name / name).mkdir(parents=True)
    mps_directory.mkdir(exist_ok=True)
    (mps_directory / SPEC.name).mkdir(exist_ok=True)

    supervise()

    assert not (mps_directory / SPEC.name).exists()


@pytest.mark.parametrize("spec", [7, {**SPEC.as_dict(), "memoryMiB": [1]}], ids=["number", "limits"])
def test_a_damaged_file_costs_its_daemon_alone(
    supervise: Any, mps_directory: Path, root: Any, spec: Any
) -> None:
    supervise().stop()
    (mps_directory / "broken").mkdir()
    (mps_directory / "broken" / "daemon.json").write_text(json.dumps({"spec": spec}))
    assert Supervisor(mps_directory).left("broken") is None

    supervise()
    Supervisor(mps_directory).start(SPEC, {}, root.path, simulated=True)

    assert {SPEC.name} == Supervisor(mps_directory).names()
    assert not (mps_directory / "broken").exists()


def test_daemons_of_an_earlier_boot_are_not_started(supervise: Any, mps_directory: Path) -> None:
    supervise().stop()
    left = mps_directory / SPEC.name
    (left / "shm").mkdir(parents=True)
    (left / "daemon.json").write_text(
        json.dumps({"spec": SPEC.as_dict(), "driverRoot": "/", "simulated": False})
    )

    supervise()

    assert (frozenset(), False) == (Supervisor(mps_directory).names(), left.exists())


def test_a_daemon_that_is_stopped_just_before_a_supervisor_starts_is_not_started(
    supervise: Any, mps_directory: Path, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = supervise()
    supervisor = Supervisor(mps_directory)
    supervisor.start(SPEC, {}, root.path, simulated=True)
    before.stop()
    ask = Supervisor._ask

    def in_vain(asking: Supervisor, request: dict[str, Any]) -> None:
        """The next supervisor starts right after nobody has answered."""
        monkeypatch.setattr(Supervisor, "_ask", ask)
        try:
            ask(asking, request)
        finally:
            supervise()

    monkeypatch.setattr(Supervisor, "_ask", in_vain)
    supervisor.stop(SPEC.name)

    assert (frozenset(), False) == (supervisor.names(), (mps_directory / SPEC.name).exists())


@pytest.mark.parametrize("what", ["start", "stop"])
def test_a_daemon_whose_directory_could_not_be_removed_is_known_not_to_run(
    supervise: Any, mps_directory: Path, root: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    supervise()
    supervisor = Supervisor(mps_directory)
    supervisor.start(SPEC, {}, root.path, simulated=True)
    supervisor.wait(SPEC.name, PATIENCE_SECONDS)
    pid = pid_of(mps_directory)

    def busy(_: DaemonDirectory) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patch:
        patch.setattr(supervisor_module, "clear_directory", busy)
        with pytest.raises(HardwareError, match="cannot be removed on the node: Device or resource busy"):
            supervisor.stop(SPEC.name)
    assert frozenset() == supervisor.names()

    if what == "stop":
        supervisor.stop(SPEC.name)
        assert not (mps_directory / SPEC.name).exists()
    else:  # for another claim with a share of the device
        supervisor.start(SPEC, {}, root.path, simulated=True)
        supervisor.wait(SPEC.name, PATIENCE_SECONDS)
        assert pid_of(mps_directory) not in {0, pid}


def test_a_daemon_may_be_stopped_while_the_supervisor_stops(
    supervise: Any, mps_directory: Path, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = supervise()
    supervisor = Supervisor(mps_directory)
    for spec in (SPEC, DaemonSpec(("GPU-2",))):
        supervisor.start(spec, {}, root.path, simulated=True)
    stop = Keeper.stop

    def meanwhile(keeper: Keeper) -> None:
        monkeypatch.setattr(Keeper, "stop", stop)
        process.answer({"do": "stop", "name": keeper.spec.name})
        stop(keeper)

    monkeypatch.setattr(Keeper, "stop", meanwhile)
    process.stop()

    assert not (mps_directory / SPEC.name).exists()


@pytest.mark.parametrize(("what", "left"), [("start", {SPEC.name}), ("stop", set[str]())])
def test_what_is_asked_of_a_daemon_that_is_being_started_is_done_afterwards(
    supervise: Any,
    mps_directory: Path,
    root: Any,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    left: set[str],
) -> None:
    supervise()
    supervisor = Supervisor(mps_directory)
    making, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def slowly(directory: DaemonDirectory, around: Surroundings) -> None:
        monkeypatch.setattr(supervisor_module, "make_directory", make_directory)
        making.set()
        assert go_on.wait(PATIENCE_SECONDS)
        make_directory(directory, around)

    monkeypatch.setattr(supervisor_module, "make_directory", slowly)

    def start() -> None:
        supervisor.start(SPEC, {}, root.path, simulated=True)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(start)
        try:
            assert making.wait(PATIENCE_SECONDS)
            second = threads.submit(start if what == "start" else lambda: supervisor.stop(SPEC.name))
            second.add_done_callback(lambda _: over.set())
            assert not over.wait(0.2)
        finally:
            go_on.set()
    assert (None, None) == (first.result(), second.result())

    assert left == supervisor.names()
    assert bool(left) == (mps_directory / SPEC.name).exists()


def test_a_directory_that_cannot_be_made_is_told(supervise: Any, mps_directory: Path, root: Any) -> None:
    supervise()
    (mps_directory / SPEC.name).write_text("in the way")

    with pytest.raises(HardwareError, match=r"the directory .* of an MPS daemon cannot be made on the node"):
        Supervisor(mps_directory).start(SPEC, {}, root.path, simulated=True)


def test_a_daemon_that_ends_is_started_again(supervise: Any, mps_directory: Path, root: Any) -> None:
    supervise()
    supervisor = Supervisor(mps_directory)
    supervisor.start(SPEC, {}, root.path, simulated=True)
    supervisor.wait(SPEC.name, PATIENCE_SECONDS)
    pid = pid_of(mps_directory)

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(mps_directory) not in {0, pid})
    supervisor.wait(SPEC.name, PATIENCE_SECONDS)


_WITH_SERVER = """\
#!/bin/sh
[ "$1" = -f ] || { read -r command; [ "$command" != quit ]; exit; }
sleep 3600 &
echo $$ >"$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
echo $! >"$CUDA_MPS_PIPE_DIRECTORY/server.pid"
wait
"""


def test_the_server_of_a_daemon_ends_with_it(supervise: Any, mps_directory: Path, tmp_path: Path) -> None:
    """It holds a GPU in the mode EXCLUSIVE_PROCESS, where the next one could then not start."""
    program = tmp_path / "usr" / "bin" / "nvidia-cuda-mps-control"
    program.parent.mkdir(parents=True)
    program.write_text(_WITH_SERVER)
    program.chmod(0o755)
    supervise()
    supervisor = Supervisor(mps_directory)
    supervisor.start(SPEC, {}, tmp_path, simulated=True)
    supervisor.wait(SPEC.name, PATIENCE_SECONDS)
    pid_file = mps_directory / SPEC.name / "pipe" / "server.pid"

    def other_than(before: int) -> int:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().strip() not in {"", str(before)})
        return int(pid_file.read_text())

    first = other_than(0)
    os.kill(pid_of(mps_directory), signal.SIGKILL)
    wait_until(lambda: not alive(first))
    second = other_than(first)
    supervisor.stop(SPEC.name)  # which this one refuses, so that it is killed

    assert not alive(second)


@pytest.mark.root
def test_the_shared_memory_is_a_tmpfs_that_goes_with_the_daemon(
    may_mount: None, supervise: Any, mps_directory: Path, root: Any
) -> None:
    supervise()
    supervisor = Supervisor(mps_directory)
    shm = mps_directory / SPEC.name / "shm"

    supervisor.start(SPEC, {}, root.path, simulated=True)
    assert shm.is_mount()
    supervisor.stop(SPEC.name)

    assert (False, []) == (shm.exists(), mounts_below(mps_directory))


def mounts_below(directory: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split()[4].startswith(str(directory))]


def test_starting_and_stopping_twice_is_the_same_as_once(
    supervise: Any, mps_directory: Path, root: Any
) -> None:
    supervise()
    supervisor = Supervisor(mps_directory)
    for _ in range(2):
        supervisor.start(SPEC, {}, root.path, simulated=True)
    assert {SPEC.name} == supervisor.names()
    for _ in range(2):
        supervisor.stop(SPEC.name)

    assert frozenset() == supervisor.names()


def test_two_limits_for_the_same_devices_are_refused(supervise: Any, mps_directory: Path, root: Any) -> None:
    supervise()
    supervisor = Supervisor(mps_directory)
    supervisor.start(SPEC, {}, root.path, simulated=True)

    with pytest.raises(HardwareError, match="an MPS daemon with other limits serves GPU-1 already"):
        supervisor.start(DaemonSpec(SPEC.devices), {}, root.path, simulated=True)


def test_a_supervisor_that_is_there_and_does_not_answer_has_not_ended_a_daemon(mps_directory: Path) -> None:
    mps_directory.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor(1) as threads:
        listening.bind(str(mps_directory / SOCKET))
        listening.listen()
        listening.settimeout(PATIENCE_SECONDS)

        def hang_up() -> None:
            connection, _ = listening.accept()
            connection.close()

        threads.submit(hang_up)
        with pytest.raises(UnavailableError, match="the supervisor of MPS daemons does not answer"):
            Supervisor(mps_directory).stop(SPEC.name)


def test_a_daemon_that_gets_no_thread_is_told_and_is_started_when_it_is_asked_for_again(
    supervise: Any, mps_directory: Path, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervise()
    supervisor = Supervisor(mps_directory)

    def refuse(_: Keeper) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "start", refuse)
        with pytest.raises(HardwareError, match=r"^internal error: can't start new thread; the log of mps-s"):
            supervisor.start(SPEC, {}, root.path, simulated=True)

    supervisor.start(SPEC, {}, root.path, simulated=True)
    supervisor.wait(SPEC.name, PATIENCE_SECONDS)


def test_a_daemon_is_started_again_after_a_fault_of_the_supervisor(
    supervise: Any, mps_directory: Path, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervise()
    supervisor = Supervisor(mps_directory)
    failed = threading.Event()

    def fail(_: Keeper) -> bool:
        monkeypatch.undo()
        failed.set()
        raise KeyError("fault")

    monkeypatch.setattr(Keeper, "_run_once", fail)
    supervisor.start(SPEC, {}, root.path, simulated=True)
    assert failed.wait(PATIENCE_SECONDS)

    supervisor.wait(SPEC.name, PATIENCE_SECONDS)


def test_without_a_file_descriptor_the_supervisor_waits_before_it_accepts_again(
    supervise: Any, mps_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervise()
    tried = fail_first_accept(monkeypatch, str(mps_directory / SOCKET))

    assert frozenset() == Supervisor(mps_directory).names()
    assert tried[1] - tried[0] >= 1.0


def test_only_the_plugin_speaks_to_the_supervisor(supervise: Any, mps_directory: Path) -> None:
    supervise()

    assert 0o600 == (mps_directory / SOCKET).stat().st_mode & 0o777


def test_there_is_one_supervisor(supervise: Any, mps_directory: Path) -> None:
    supervise()

    with pytest.raises(UsageError, match="the supervisor of MPS daemons runs already"):
        SupervisorProcess(mps_directory)


@pytest.mark.parametrize(("name", "why"), [("x" * 100, "path too long"), ("x", "Is a directory")])
def test_a_socket_that_cannot_be_bound_is_told(mps_directory: Path, name: str, why: str) -> None:
    process = SupervisorProcess(mps_directory / name, shm_bytes=1 << 20)
    if len(name) == 1:
        (mps_directory / name / "supervisor.sock").mkdir()

    with pytest.raises(UnavailableError, match=rf"^cannot listen at .*/supervisor\.sock: .*{why}"):
        process.start()
    process.stop()


@pytest.mark.parametrize(
    "request_", [{}, {"do": "dance"}, {"do": "start"}, {"do": "wait", "name": "x", "seconds": 0}]
)
def test_requests_that_make_no_sense_get_an_answer(
    supervise: Any, mps_directory: Path, request_: Any
) -> None:
    supervise()

    with pytest.raises(HardwareError):
        Supervisor(mps_directory)._ask(request_)


def test_names_lead_nowhere_else(supervise: Any, mps_directory: Path) -> None:
    supervise()
    (mps_directory.parent / "kept").mkdir()

    Supervisor(mps_directory).stop("../kept")

    assert (mps_directory.parent / "kept").exists()


@pytest.mark.root
def test_a_driver_root_with_a_system_of_its_own_is_entered(
    may_mount: None, supervise: Any, mps_directory: Path, root: Any, tmp_path: Path
) -> None:
    programs = ("sh", "cat", "dirname", "mkfifo", "rm", "sleep")
    for program in (path for name in programs if (path := shutil.which(name))):
        needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for file in {
            f"/bin/{Path(program).name}": program,
            **{lib: lib for lib in re.findall(r"/\S+", needed)},
        }.items():
            place = tmp_path / file[0].lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file[1], place)
    (tmp_path / "usr/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(root.programs.find("nvidia-cuda-mps-control"), tmp_path / "usr/bin")
    for folder in ("dev/shm", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    supervise()
    supervisor = Supervisor(mps_directory)

    supervisor.start(SPEC, {}, tmp_path, simulated=False)
    supervisor.wait(SPEC.name, PATIENCE_SECONDS)

    assert "10.0" == (mps_directory / SPEC.name / "pipe" / "threads").read_text().strip()
    assert [] == mounts_below(tmp_path)  # they are the daemon's own

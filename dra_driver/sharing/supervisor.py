"""`dra-driver mps-supervisor`: the process whose children the MPS daemons of a node are. See `supervision`.

It answers the plugin over a unix socket, a thread for each connection. What is to run is in files, so that after a
crash the same daemons are started again: the clients of the old ones get CUDA errors, and their containers restart.
The socket is bound before the files are read, so that whoever removes a file, and then finds no socket, can be sure that
its daemon is not started.

A stop by SIGTERM ends the daemons and leaves the files: it is an update, or the node's end.
"""

import json
import socketserver
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import structlog

from dra_driver.errors import DriverError, HardwareError, UnavailableError, UsageError, one_line
from dra_driver.files import Lock, write_atomic
from dra_driver.locks import Locks
from dra_driver.process.accepting import PatientServer
from dra_driver.sharing.daemon import spec_from_dict
from dra_driver.sharing.keeper import Keeper, Surroundings, clear_directory, make_directory
from dra_driver.sharing.supervision import MAX_LINE, SOCKET, DaemonDirectory

log = structlog.get_logger(__name__)

_MEMORY = Path("/proc/meminfo")


class SupervisorProcess:
    """One run of the supervisor, for `process.running`."""

    def __init__(self, directory: Path, *, shm_bytes: int | None = None) -> None:
        """Take the lock; UsageError where another supervisor has it."""
        self._directory = directory
        self._shm_bytes = shm_bytes or _half_of_memory()
        self._closing = ExitStack()
        self._mutex = threading.Lock()  # guards the dict; nothing is waited for under it
        self._keepers: dict[str, Keeper] = {}
        self._turns = Locks()  # of daemons, by name: starts and stops are one at a time
        try:
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise UnavailableError(f"cannot make the directory {directory}: {error.strerror}") from error
        lock = Lock(directory / "supervisor.lock").acquire("the supervisor of MPS daemons")
        self._closing.callback(lock.release)

    def start(self) -> None:
        """Go on with what an earlier one left, and answer; UnavailableError where the socket cannot be bound."""
        path = self._directory / SOCKET
        try:
            path.unlink(missing_ok=True)  # of a supervisor that was killed: we have the lock
            server = _Server(path, self)
        except OSError as error:
            raise UnavailableError(f"cannot listen at {path}: {error.strerror or error}") from error
        self._closing.callback(self._stop_all)
        self._closing.callback(server.server_close)
        for directory in sorted(self._directory.iterdir()):
            if directory.is_dir():
                self._find(DaemonDirectory(directory))
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="mps-requests", daemon=True)
        thread.start()
        self._closing.callback(server.shutdown)
        log.info("supervising MPS daemons", daemons=len(self._keepers), socket=str(path))

    def run(self, stop: "SimpleQueue[int]") -> None:
        stop.get()

    def stop(self) -> None:
        self._closing.close()
        log.info("stopped")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked for; a DriverError says why it cannot be."""
        match request:
            case {"do": "start"}:
                self._start(request)
            case {"do": "wait", "name": name, "seconds": seconds}:
                self._keeper(name).wait(float(seconds))
            case {"do": "stop", "name": name}:
                self._stop(name)
            case {"do": "list"}:
                with self._mutex:
                    return {"names": sorted(self._keepers)}
            case _:
                raise UsageError(f"unknown request {str(request)[:64]!r}")
        return {}

    def _start(self, request: dict[str, Any]) -> None:
        spec = spec_from_dict(request["spec"])
        directory = DaemonDirectory(self._directory / spec.name)
        with self._turns.hold(spec.name):
            with self._mutex:
                known = self._keepers.get(spec.name)
            if known is not None and known.spec == spec:
                return
            if known is not None:
                raise HardwareError(
                    f"an MPS daemon with other limits serves {', '.join(spec.devices)} already; "
                    "delete the Pods that use it"
                )
            keeper = self._new_keeper(request, directory)
            try:
                make_directory(directory, self._around(request))
                write_atomic(directory.spec, json.dumps(request).encode())
            except OSError as error:
                raise HardwareError(
                    f"the directory {directory.path} of an MPS daemon cannot be made on the node: {error.strerror}"
                ) from error
            keeper.start()
            with self._mutex:
                self._keepers[spec.name] = keeper

    def _stop(self, name: str) -> None:
        directory = DaemonDirectory(self._directory / Path(name).name)
        with self._turns.hold(name):
            try:
                directory.spec.unlink(missing_ok=True)
                with self._mutex:
                    keeper = self._keepers.get(name)
                if keeper is not None:
                    keeper.stop()
                    with self._mutex:
                        del self._keepers[name]
                clear_directory(directory)
            except OSError as error:
                raise HardwareError(
                    f"the directory {directory.path} of an MPS daemon cannot be removed on the node: {error.strerror}"
                ) from error

    def _find(self, directory: DaemonDirectory) -> None:
        """Go on with what an earlier supervisor left."""
        try:
            request = json.loads(directory.spec.read_bytes())
            keeper, around = self._new_keeper(request, directory), self._around(request)
            if not around.simulated and not directory.shm.is_mount():
                raise ValueError("it is of an earlier boot, and so is its claim")  # noqa: TRY301 - cleared as well
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("directory of an MPS daemon cleared", daemon=directory.path.name, err=repr(error))
            with suppress(OSError):
                clear_directory(directory)
            return
        self._keepers[keeper.spec.name] = keeper
        keeper.start()

    def _new_keeper(self, request: dict[str, Any], directory: DaemonDirectory) -> Keeper:
        return Keeper(spec_from_dict(request["spec"]), directory, self._around(request))

    def _around(self, request: dict[str, Any]) -> Surroundings:
        return Surroundings(Path(request["driverRoot"]), bool(request["simulated"]), self._shm_bytes)

    def _keeper(self, name: str) -> Keeper:
        with self._mutex:
            keeper = self._keepers.get(name)
        if keeper is None:
            raise HardwareError(f"there is no MPS daemon {name[:64]!r}")
        return keeper

    def _stop_all(self) -> None:
        with self._mutex:
            keepers = list(self._keepers.values())
        for keeper in keepers:
            keeper.stop()


class _Server(PatientServer, socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path, supervisor: SupervisorProcess) -> None:
        self.supervisor = supervisor
        super().__init__(str(path), _Handler)
        path.chmod(0o600)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        try:
            answer = self.server.supervisor.answer(json.loads(self.rfile.readline(MAX_LINE)))
        except DriverError as error:
            answer = {"error": one_line(error)}
        except (ValueError, KeyError, TypeError) as error:
            answer = {"error": f"the request was not understood: {error!r}"}
        except Exception as error:  # an answer is owed: silence means that no daemon runs
            log.exception("request failed for a reason that is a fault of this driver")
            answer = {
                "error": f"internal error: {one_line(error)}; the log of mps-supervisor on the node has more"
            }
        with suppress(OSError):  # who asked has gone, and will ask again
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def _half_of_memory() -> int:
    """What a container may use of a tmpfs, as the kernel's own default is; only what is used takes memory."""
    try:
        total = next(line for line in _MEMORY.read_text().splitlines() if line.startswith("MemTotal:"))
    except (OSError, StopIteration):
        return 64 << 20
    return int(total.split()[1]) * 1024 // 2

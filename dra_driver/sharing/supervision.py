"""How the plugin speaks to the supervisor of MPS daemons: a line of JSON each way, over a unix socket.

Why a supervised process, and not a Pod for each daemon as in the official driver: a daemon has to outlive the plugin's
container, whose end takes all its children along, so it cannot be the plugin's child. A Pod would, but then Prepare
waits for the scheduler's and the kubelet's other work and for an image, Unprepare needs the API server (and Pods
could not end while it is away), and every node's plugin needs the right to create privileged Pods, which is the right to
take over the cluster. The supervisor (`dra-driver mps-supervisor`, a DaemonSet of its own that is updated only when
somebody deletes its Pods) needs no rights in the API and no network. What is lost is `kubectl logs` of a single
daemon: its last lines are in the error of a failed Prepare instead, and its log in its directory.

The supervisor sees the node's files as the plugin does. Every request is idempotent. The supervisor makes and removes the directory of a daemon:

    <plugin dir>/mps/<name>/daemon.json    what is to run, and the compute modes before it; written last and removed
                                           first, so that after a crash of the supervisor a directory without it is one
                                           to be cleared
    <plugin dir>/mps/<name>/{pipe,log}     of the daemon
    <plugin dir>/mps/<name>/shm            a tmpfs, /dev/shm of the daemon and of its clients
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from dra_driver.errors import HardwareError, UnavailableError
from dra_driver.sharing.daemon import DaemonSpec, spec_from_dict

log = structlog.get_logger(__name__)

SOCKET = "supervisor.sock"
CONTAINER_PIPE = "/tmp/nvidia-mps"  # where CUDA looks if nobody says
_ANSWER_SECONDS = 20.0  # beyond what a request is given
MAX_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class DaemonDirectory:
    """The paths of one daemon."""

    path: Path

    @property
    def spec(self) -> Path:
        return self.path / "daemon.json"

    @property
    def pipe(self) -> Path:
        return self.path / "pipe"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def shm(self) -> Path:
        return self.path / "shm"


@dataclass(frozen=True, slots=True)
class StartedDaemon:
    """What was started, by its file."""

    spec: DaemonSpec
    modes: Mapping[str, str]  # the compute modes that its GPUs had before, by UUID


class Supervisor:
    """The plugin's side. HardwareError: a daemon does not run. UnavailableError: nobody answers."""

    def __init__(self, directory: Path) -> None:
        """`directory` is the supervisor's, where its socket is."""
        self._directory = directory

    def of(self, name: str) -> DaemonDirectory:
        return DaemonDirectory(self._directory / name)

    def start(
        self, spec: DaemonSpec, modes: Mapping[str, str], driver_root: Path, *, simulated: bool
    ) -> None:
        """Have a daemon run from now on; it may not be ready yet. The driver root is where we see it.

        `modes` are kept for whoever finds the daemon without a record, see `left`.
        """
        root = {"driverRoot": str(driver_root), "simulated": simulated}
        self._ask({"do": "start", "spec": spec.as_dict(), "modes": dict(modes), **root})

    def left(self, name: str) -> StartedDaemon | None:
        """What is to run under a name; None where nothing is, or where its file does not say."""
        try:
            body = json.loads(self.of(name).spec.read_bytes())
            return StartedDaemon(spec_from_dict(body["spec"]), dict(body.get("modes", {})))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("file of an MPS daemon is not understood", daemon=name, err=repr(error))
            return None

    def wait(self, name: str, seconds: float) -> None:
        """Until the daemon answers; HardwareError with its last lines where it does not in time."""
        self._ask({"do": "wait", "name": name, "seconds": seconds}, seconds)

    def stop(self, name: str) -> None:
        """End the daemon and remove its directory; no error where there is none.

        Without a supervisor no daemon runs either, and a Pod that ends does not wait for one: the next one clears the
        directory. The file goes first, for that one may start right after it was not found.
        """
        self.of(name).spec.unlink(missing_ok=True)
        try:
            self._ask({"do": "stop", "name": name})
        except UnavailableError as error:
            if not isinstance(error.__cause__, ConnectionRefusedError | FileNotFoundError):
                raise
            log.warning("no supervisor to end the MPS daemon", daemon=name, err=str(error))

    def names(self) -> frozenset[str]:
        """The daemons that are to run."""
        return frozenset(self._ask({"do": "list"})["names"])

    def _ask(self, request: dict[str, Any], seconds: float = 0.0) -> dict[str, Any]:
        path = self._directory / SOCKET
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(seconds + _ANSWER_SECONDS)
                connection.connect(str(path))
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as lines:
                    answer = json.loads(lines.readline(MAX_LINE))
        except (OSError, ValueError) as error:
            raise UnavailableError(
                f"the supervisor of MPS daemons does not answer at {path} on the node; see that its DaemonSet "
                "mps-supervisor runs there"
            ) from error
        if "error" in answer:
            raise HardwareError(str(answer["error"]))
        return dict(answer)

"""The two sockets of a kubelet plugin, and keeping them there.

`<plugins dir>/<driver>/dra.sock` serves claims, `<registry dir>/<driver>-reg.sock` announces it. The first is
up before the second, since the kubelet calls as soon as it sees the announcement; at the end the announcement
goes first, so that no new call comes while the running ones finish.

Somebody may empty the registry directory (a kubeadm reset, a clean-up script): the kubelet then forgets us,
and 30 seconds later deletes our ResourceSlices. `tend` notices that a socket is no longer the one that was
bound, and binds it anew.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import structlog

from dra_driver.errors import UnavailableError
from dra_driver.kubelet import dra, sockets
from dra_driver.kubelet.pb import pluginregistration_v1_pb2_grpc as registration_grpc
from dra_driver.kubelet.registration import Registration, RegistrationStatus

log = structlog.get_logger(__name__)


class KubeletPlugin:
    """The plugin's two servers. `start` once, `tend` every few seconds, `stop` once."""

    def __init__(
        self,
        driver_name: str,
        plugin_dir: Path,
        registry_dir: Path,
        claims: dra.ClaimHandler,
        observe: dra.Observer,
    ) -> None:
        self._executors = {
            operation: ThreadPoolExecutor(sockets.MAX_WORKERS, thread_name_prefix=operation)
            for operation in (dra.PREPARE, dra.UNPREPARE)
        }
        handler = dra.Handler(claims, self._executors, observe)
        self.endpoint = plugin_dir / "dra.sock"
        self.registration_socket = registry_dir / f"{driver_name}-reg.sock"
        self._registration = Registration(driver_name, self.endpoint)
        self._claims = _Listener(
            self.endpoint, lambda server: dra.add_services(server, handler), makes_directory=True
        )
        self._announcement = _Listener(
            self.registration_socket,
            lambda server: registration_grpc.add_RegistrationServicer_to_server(self._registration, server),
            self._registration.forget,
        )

    @property
    def registration(self) -> RegistrationStatus:
        """What the kubelet said last."""
        return self._registration.status

    def start(self) -> None:
        """Serve, then announce; UnavailableError where the first is not possible.

        The registry directory need not exist yet: `tend` announces once it does.
        """
        self._claims.bind()
        self.tend()

    def tend(self) -> None:
        """Bind anew what somebody removed, and announce where that was not possible before."""
        for listener in (self._claims, self._announcement):
            try:
                listener.tend()
            except UnavailableError as error:
                log.warning("cannot listen for the kubelet; trying again", err=str(error))

    def stop(self, grace: float) -> None:
        """Withdraw the announcement, let running calls finish for `grace` seconds, close.

        What hangs longer is left behind.
        """
        self._announcement.close(grace=0)
        self._claims.close(grace=grace)
        for executor in self._executors.values():
            executor.shutdown(wait=False, cancel_futures=True)


class _Listener:
    """A gRPC server that stays at its path."""

    def __init__(
        self,
        path: Path,
        add_services: Callable[[grpc.Server], None],
        lost: Callable[[], None] = lambda: None,
        *,
        makes_directory: bool = False,
    ) -> None:
        """`lost` is called when the socket turned out to be removed, before it is bound anew.

        `makes_directory` is for one that is ours, where somebody may have removed it with the socket.
        """
        sockets.check_path(path)
        self._path = path
        self._add_services = add_services
        self._lost = lost
        self._makes_directory = makes_directory
        self._server: grpc.Server | None = None
        self._bound: tuple[int, int] | None = None  # device and inode of the socket we bound
        self._closed = False
        self._lock = threading.Lock()

    def bind(self) -> None:
        with self._lock:
            self._bind()

    def tend(self) -> None:
        with self._lock:
            if self._closed or (self._bound is not None and self._bound == self._found()):
                return
            if self._server is not None:
                log.warning("a socket of ours was removed; binding it anew", path=str(self._path))
                # Closing a server unlinks its path, so that has to come before the new bind. Calls that run
                # on the old connections go on.
                self._server.stop(grace=None)
                self._server, self._bound = None, None
                self._lost()
            self._bind()

    def close(self, grace: float) -> None:
        with self._lock:
            self._closed = True
            if self._server is not None:
                self._server.stop(grace=grace).wait()
                self._server = None

    def _bind(self) -> None:
        if self._makes_directory:
            with contextlib.suppress(OSError):  # told as missing below
                self._path.parent.mkdir(mode=0o700, exist_ok=True)
        if not self._path.parent.is_dir():
            msg = f"{self._path.parent} does not exist; is it the kubelet's directory?"
            raise UnavailableError(msg)
        self._server = sockets.serve(self._path, self._add_services)
        self._bound = self._found()

    def _found(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - two numbers, wherever the path leads
        except OSError:
            return None
        return status.st_dev, status.st_ino

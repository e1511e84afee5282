"""The registry directory: sockets that come, go, and are made anew.

The real kubelet uses inotify and reconciles every second; looking every 200 ms is as quick and needs nothing.
Names that start with a dot, and what is no socket, are ignored. A socket that is no longer the same file is one
that went and came: its plugin is deregistered and registered anew. What failed is tried again with growing delay,
and what a plugin did wrong is told to it in the kubelet's words.
"""

import os
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from dra_driver.embedded.kubelet.errors import KubeletError
from dra_driver.embedded.kubelet.plugins import PluginStore
from dra_driver.embedded.kubelet.timing import Timing
from dra_driver.kube.backoff import Backoff
from dra_driver.kubelet import sockets
from dra_driver.kubelet.pb import pluginregistration_v1_pb2 as pb
from dra_driver.kubelet.pb import pluginregistration_v1_pb2_grpc as pb_grpc
from dra_driver.kubelet.registration import PLUGIN_TYPE

log = structlog.get_logger(__name__)

_WORKERS = 8  # a plugin that does not answer must not keep others from registering

Identity = tuple[int, int, int]  # device, inode, time of making


@dataclass(slots=True)
class _Socket:
    identity: Identity
    backoff: Backoff
    busy: bool = False
    plugin: tuple[str, str] | None = None  # driver and endpoint, once registered
    retry_at: float = 0.0  # by time.monotonic


class PluginWatcher:
    """Registers in `store` the plugins whose sockets are in `directory`."""

    def __init__(self, directory: Path, store: PluginStore, timing: Timing) -> None:
        self._directory = directory
        self._store = store
        self._timing = timing
        self._sockets: dict[Path, _Socket] = {}
        self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="register")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plugin-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._executor.shutdown()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._scan(dict(_sockets(self._directory)))
            self._stop.wait(self._timing.scan)

    def _scan(self, found: dict[Path, Identity]) -> None:
        for path, known in list(self._sockets.items()):
            if found.get(path) != known.identity and not known.busy:
                del self._sockets[path]
                if known.plugin is not None:
                    self._store.deregister(*known.plugin)
        for path, identity in found.items():
            known = self._sockets.get(path) or _Socket(
                identity, Backoff(self._timing.registration_retry, self._timing.registration_retry_cap)
            )
            self._sockets[path] = known
            if known.plugin is None and not known.busy and known.retry_at <= time.monotonic():
                known.busy = True
                self._executor.submit(self._attempt, path, known)

    def _attempt(self, path: Path, socket: _Socket) -> None:
        try:
            socket.plugin = self._register(path)
        except KubeletError as error:
            socket.retry_at = time.monotonic() + socket.backoff.delay()
            log.warning("plugin not registered", socket=str(path), err=str(error))
        except Exception:
            socket.retry_at = time.monotonic() + socket.backoff.delay()
            log.exception("plugin not registered", socket=str(path))
        finally:
            socket.busy = False

    def _register(self, path: Path) -> tuple[str, str]:
        with sockets.connect(path) as channel:
            stub = pb_grpc.RegistrationStub(channel)
            try:
                info = stub.GetInfo(pb.InfoRequest(), timeout=self._timing.get_info)
            except grpc.RpcError as error:
                raise KubeletError(
                    f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {path}, "
                    f"err: {error.code().name}"
                ) from error
            endpoint = info.endpoint or str(path)
            if info.type != PLUGIN_TYPE:
                raise self._refuse(
                    stub, f"no handler registered for plugin type: {info.type} at socket {path}", path
                )
            for what, step in (("validation", self._store.choose), ("registration", self._store.register)):
                try:
                    step(info.name, endpoint, info.supported_versions)
                except KubeletError as error:
                    raise self._refuse(stub, f"plugin {what} failed with err: {error}", path) from error
            try:
                self._notify(stub, path, registered=True)
            except KubeletError:
                self._store.deregister(info.name, endpoint)
                raise
            return info.name, endpoint

    def _refuse(self, stub: pb_grpc.RegistrationStub, reason: str, path: Path) -> KubeletError:
        """Tell the plugin why, and give the error to raise."""
        text = f"RegisterPlugin error -- {reason}"
        self._notify(stub, path, registered=False, error=text)
        return KubeletError(text)

    def _notify(
        self, stub: pb_grpc.RegistrationStub, path: Path, *, registered: bool, error: str = ""
    ) -> None:
        status = pb.RegistrationStatus(plugin_registered=registered, error=error)
        try:
            stub.NotifyRegistrationStatus(status, timeout=self._timing.notify)
        except grpc.RpcError as failure:
            what = "registration status" if registered else "error"
            raise KubeletError(
                f"RegisterPlugin error -- failed to send {what} at socket {path}, err: {failure.code().name}"
            ) from failure


def _sockets(directory: Path) -> Iterator[tuple[Path, Identity]]:
    """The sockets below `directory`."""
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # gone since
            if not name.startswith(".") and stat.S_ISSOCK(status.st_mode):
                yield path, (status.st_dev, status.st_ino, status.st_mtime_ns)

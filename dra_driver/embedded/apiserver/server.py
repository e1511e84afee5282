"""The embedded API server, put together: storage, rules, background work, and HTTP in front of them."""

import threading
from pathlib import Path
from typing import Self

import structlog
import yaml

from dra_driver.embedded.apiserver import gates
from dra_driver.embedded.apiserver.admission import Admission
from dra_driver.embedded.apiserver.application import Application
from dra_driver.embedded.apiserver.calling import Address, Caller
from dra_driver.embedded.apiserver.collector import Collector
from dra_driver.embedded.apiserver.deletion import Deletion
from dra_driver.embedded.apiserver.faults import Faults
from dra_driver.embedded.apiserver.kinds import NAMESPACE
from dra_driver.embedded.apiserver.options import WriteOptions
from dra_driver.embedded.apiserver.paths import Target
from dra_driver.embedded.apiserver.registry import Registry
from dra_driver.embedded.apiserver.storage import Storage
from dra_driver.embedded.apiserver.store import Store
from dra_driver.embedded.apiserver.transport import HttpServer

log = structlog.get_logger(__name__)

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """An API server on 127.0.0.1; `start` it, and `stop` it, once. Also a context manager."""

    def __init__(
        self,
        *,
        port: int = 0,
        kept_events: int = 1000,
        disabled_features: frozenset[str] | set[str] = gates.ALPHA,
    ) -> None:
        """`port` 0 takes any; `kept_events` changes of each kind can be watched from.

        `disabled_features` are gates whose fields are dropped (by default those that are alpha in 1.37).
        """
        storage = Storage(kept_events)
        self.services: dict[tuple[str, str], Address] = {}  # where Services lead, for calls of webhooks
        admission = Admission(storage, Caller(self.services))
        registry = Registry(storage, admission, frozenset(disabled_features))
        deletion = Deletion(storage, admission)
        for name in _NAMESPACES:
            body = {"metadata": {"name": name}}
            registry.create(Target(NAMESPACE, "v1", None), body, WriteOptions(manager="kube-apiserver"))
        self.store = Store(storage, registry, deletion)
        self.faults = Faults(storage)
        self._stopping = threading.Event()
        application = Application(storage, registry, deletion)
        self._storage = storage
        self._collector = Collector(storage, deletion)
        self._http = HttpServer(port, application, self.faults, self._stopping)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="apiserver")

    def start(self) -> Self:
        self._collector.start()
        self._thread.start()
        return self

    def stop(self) -> None:
        """End all requests and threads; no further use."""
        self._stopping.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._storage.close()
        self._http.end_connections()
        self._http.server_close()
        self._collector.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig for kubectl and our client."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "embedded", "cluster": {"server": self.url}}],
            "users": [{"name": "embedded", "user": {"token": "embedded"}}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
            "current-context": "embedded",
        }
        path.write_text(yaml.safe_dump(config, sort_keys=False))

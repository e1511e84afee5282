"""One kubelet: its node, its plugins, its Pods.

It starts by registering the Node and deleting the node's ResourceSlices, as the real one does. `stop` leaves
everything as it is; a new Kubelet on the same root and node is a restarted one. Then all Pods of the node get
their claims prepared again and their containers made anew, since there is no container runtime that outlives
it; a real kubelet does so after a reboot, or when a Pod's sandbox is gone.
"""

import itertools
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import structlog

from dra_driver.embedded.events import PodEvents
from dra_driver.embedded.kubelet import node
from dra_driver.embedded.kubelet.claims import ClaimCache
from dra_driver.embedded.kubelet.containers import ContainerView, Runtime
from dra_driver.embedded.kubelet.errors import KubeletError
from dra_driver.embedded.kubelet.manager import ClaimManager
from dra_driver.embedded.kubelet.plugins import Plugin, PluginStore
from dra_driver.embedded.kubelet.pods import Node, PodWorker
from dra_driver.embedded.kubelet.timing import Timing
from dra_driver.embedded.kubelet.watcher import PluginWatcher
from dra_driver.embedded.kubelet.wiping import SliceWiper
from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.backoff import Backoff
from dra_driver.kube.client import Client
from dra_driver.kube.errors import ResponseError
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import PODS, RESOURCE_CLAIMS
from dra_driver.kubelet.registration import VERSIONS

log = structlog.get_logger(__name__)

_HOST_IP = "127.0.0.1"


class Kubelet:
    """The kubelet of the node `node_name`, with its directory tree under `root`.

    Drivers find `root/plugins_registry` and `root/plugins`. `cdi_dirs` and `placeholders` are the container
    runtime's (see `containers.Runtime`). `supported_versions` are the DRA protocols this kubelet speaks: one before
    1.34 knows v1beta1 only.
    """

    def __init__(
        self,
        client: Client,
        *,
        node_name: str,
        root: Path,
        cdi_dirs: Sequence[Path],
        placeholders: bool = False,
        supported_versions: Sequence[str] = VERSIONS,
        timing: Timing | None = None,
    ) -> None:
        self.node_name = node_name
        self.registry_dir = root / "plugins_registry"
        self.plugins_dir = root / "plugins"
        timing = timing or Timing()
        for directory in (self.registry_dir, self.plugins_dir):
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._client = client
        self._timing = timing
        self._wiper = SliceWiper(client, node_name, timing.wipe)
        self._plugins = PluginStore(self._wiper, supported=supported_versions, timeout=timing.call)
        self._watcher = PluginWatcher(self.registry_dir, self._plugins, timing)
        self._claims = ClaimManager(ClaimCache(root / "dra_manager_state"), self._plugins, self._get_claim)
        self._node = Node(
            client,
            self._claims,
            Runtime(cdi_dirs, placeholders=placeholders),
            PodEvents(client, "kubelet", node_name),
            timing,
            _HOST_IP,
        )
        self._pods = Reflector(
            client, PODS, field_selector=f"spec.nodeName={node_name}", on_event=self._pod_changed
        )
        self._workers: dict[str, PodWorker] = {}  # by Pod UID
        self._addresses = itertools.count(2)
        self._lock = threading.Lock()  # of the two above
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> Self:
        """Register the node, then look after plugins and Pods; an API server that is away is waited for."""
        loops = [self._reconcile] if self._try_to_join() else [self._reconcile, self._join_cluster]
        self._watcher.start()
        self._pods.start()
        for loop in loops:
            thread = threading.Thread(target=loop, name=f"kubelet-{self.node_name}", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def stop(self) -> None:
        """Stop everything in this process; Pods, claims and devices stay as they are."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._pods.stop()
        self._watcher.stop()
        self._wiper.close()
        with self._lock:
            workers = list(self._workers.values())
            self._workers.clear()
        for worker in workers:
            worker.stop()
        self._plugins.close()  # which ends the calls that workers wait for
        for worker in workers:
            worker.join()
        for thread in self._threads:
            thread.join()

    def registered(self) -> Mapping[str, Sequence[Plugin]]:
        """The registered plugins by driver name, oldest first."""
        return self._plugins.registered()

    def wait_registered(self, driver: str, timeout: float) -> bool:
        """Wait until `driver` is registered and connected; False after `timeout` seconds."""
        return self._plugins.wait_connected(driver, timeout)

    def wait_deregistered(self, driver: str, timeout: float) -> bool:
        """Wait until `driver` is not registered; False after `timeout` seconds."""
        return self._plugins.wait_deregistered(driver, timeout)

    def views(self) -> dict[str, dict[str, ContainerView]]:
        """The running containers by name, by Pod ("namespace/name")."""
        with self._lock:
            workers = list(self._workers.values())
        return {worker.key: views for worker in workers if (views := worker.views())}

    def _get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        try:
            return self._client.get(RESOURCE_CLAIMS, name, namespace)
        except ResponseError as error:
            # client-go prints the server's message alone.
            text = str(error).removeprefix(f"cannot get ResourceClaim {namespace}/{name}: ")
            raise KubeletError(text.removesuffix(f" ({error.status})")) from error

    def _try_to_join(self) -> bool:
        try:
            node.register(self._client, self.node_name, _HOST_IP)
            self._wiper.wipe_all()
        except (ApiError, UnavailableError) as error:
            log.warning("cannot register the node", node=self.node_name, err=str(error))
            return False
        return True

    def _join_cluster(self) -> None:
        backoff = Backoff()
        while not self._stopping.wait(backoff.delay()):
            if self._try_to_join():
                return

    def _pod_changed(self, kind: str, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        uid, key = metadata["uid"], f"{metadata['namespace']}/{metadata['name']}"
        with self._lock:
            if self._stopping.is_set():
                return
            # A Pod that was deleted and made anew between two lists shows up as one that changed.
            gone = [w for w in self._workers.values() if w.key == key and (w.uid != uid or kind == "DELETED")]
            worker = self._workers.get(uid)
            if kind != "DELETED" and worker is None:
                worker = PodWorker(pod, self._node, self._new_address(), self._pod_ended)
                self._workers[uid] = worker
                worker.start()
        for old in gone:
            old.deleted()
        if worker is not None and kind != "DELETED":
            worker.update(pod)

    def _pod_ended(self, worker: PodWorker) -> None:
        with self._lock:
            self._workers.pop(worker.uid, None)

    def _new_address(self) -> str:
        """An address for a Pod; nothing listens there."""
        number = next(self._addresses)
        return f"10.{zlib.crc32(self.node_name.encode()) % 256}.{number // 254 % 256}.{number % 254 + 1}"

    def _reconcile(self) -> None:
        """Unprepare what Pods used that went while this kubelet was not there."""
        while not self._stopping.wait(self._timing.reconcile):
            if not self._pods.synced.is_set():
                continue
            noted = self._claims.pods()  # first, since a Pod that comes in between is no Pod that went
            with self._lock:
                if self._stopping.is_set():
                    return  # which takes the workers away, and not the Pods
                active = set(self._workers)
            for uid in noted - active:
                try:
                    self._claims.unprepare(uid)
                except KubeletError as error:
                    log.warning("claims of a pod that is gone stay prepared", pod_uid=uid, err=str(error))

"""The node plugin: all rooms wired together, started in order, tended, and stopped.

Order of start, and why:

1. the lock: nothing below may run twice for one driver name on a node;
2. a look for other drivers of our name, before we bind over their sockets;
3. probes and metrics, so that an address that is taken is told before anything else happens;
4. the records are read: what claims hold stays published, whatever the hardware answers;
5. the first look at the hardware, in a thread, and waited for only a moment: NVML may hang, and even then
   running Pods must be able to end, so the kubelet must be able to reach us;
6. the records, checked against the hardware and the CDI directory;
7. the ResourceSlices, once the first look is over and no device plugin hands out the same GPUs;
8. the sockets. From here on the kubelet calls; at the end they are the first to close.

Publishing waits for the first look and not only for its time limit: a plugin that restarts while NVML is slow
must not take its node's GPUs away from the scheduler for a moment.
"""

import gc
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, SimpleQueue

import structlog

import dra_driver.files
from dra_driver.cdi.store import SpecStore
from dra_driver.devices.model import DeviceSet, HeldDevice
from dra_driver.errors import UnavailableError
from dra_driver.files import Files, Lock
from dra_driver.kube.client import Client
from dra_driver.kube.resources import NODES
from dra_driver.kubelet.plugin import KubeletPlugin
from dra_driver.kubelet.probe import serve_health
from dra_driver.node import coexistence, restored
from dra_driver.node.claim_status import ClaimStatus
from dra_driver.node.claims import ClaimsOfServer
from dra_driver.node.flags import Settings
from dra_driver.node.hardware import Hardware
from dra_driver.node.health import NodeHealth
from dra_driver.node.machine import FRESH_SECONDS, open_machine
from dra_driver.node.metrics import Metrics, NodeState
from dra_driver.partitions.mig_device import MigDevices
from dra_driver.prepare.claim import ClaimRef
from dra_driver.prepare.engine import Engine
from dra_driver.prepare.metadata_store import MetadataStore
from dra_driver.prepare.record import PreparedDevice
from dra_driver.prepare.records import RecordStore, read_boot_id
from dra_driver.process import collector
from dra_driver.process.probes import ProbeServer
from dra_driver.sharing.sharing import NodeSharing
from dra_driver.slices.publisher import Publisher

log = structlog.get_logger(__name__)

_FIRST_LOOK_SECONDS = 5.0
_TEND_SECONDS = 2.0
_GRACE_SECONDS = 20.0  # below the 30 s that a Pod is given by default


class NodePlugin:
    """One run of the plugin on one node: `start`, `run` until asked to stop, and `stop` in any case."""

    def __init__(
        self,
        settings: Settings,
        *,
        files: Files = dra_driver.files,
        device_plugin_check_seconds: float = coexistence.CHECK_SECONDS,
    ) -> None:
        """Take the lock and see that the node is ours; UsageError or UnavailableError says what is in the way.

        All state is written through `files`, so that a test can end the process between any two writes.
        """
        self._settings = settings
        self._publishing = threading.Lock()
        self.metrics = Metrics()
        _make_directory(settings.plugin_dir, 0o700)
        _make_directory(settings.cdi_dir, 0o755)
        self._closing = ExitStack()  # undoes what was started, latest first
        lock = Lock(settings.plugin_dir / "plugin.lock").acquire(
            f"the kubelet plugin of {settings.driver_name}"
        )
        self._closing.callback(lock.release)
        coexistence.refuse_other_driver(
            settings.driver_name, settings.kubelet_registry_dir, settings.plugin_dir
        )
        machine = open_machine(settings, files)
        self._hardware = Hardware(
            machine.backend,
            held=self._held,
            driver_name=settings.driver_name,
            node=settings.node_config,
            interval_seconds=settings.rescan_seconds,
            on_change=self._hardware_changed,
        )
        self._client = Client.connect(settings.kubeconfig)
        self._closing.callback(self._client.close)
        claims = ClaimsOfServer(self._client, settings.driver_name)
        self._records = RecordStore(settings.plugin_dir / "claims", boot_id=read_boot_id(), files=files)
        self._engine = Engine(
            driver_name=settings.driver_name,
            pool_name=settings.pool,
            claims=claims,
            hardware=lambda: self._hardware.snapshot,
            edits=machine.edits,
            records=self._records,
            specs=SpecStore(settings.cdi_dir, settings.driver_name, files=files, fresh_seconds=FRESH_SECONDS),
            metadata=MetadataStore(
                settings.plugin_dir / "device-metadata", settings.driver_name, files=files
            ),
            partitions=MigDevices(machine.backend.mig, self._managed, self._hardware.look_and_wait),
            sharing=NodeSharing(machine.programs, settings.plugin_dir / "mps"),
        )
        self._claim_status = ClaimStatus(settings.driver_name, claims.apply_status)
        self._kubelet = KubeletPlugin(
            settings.driver_name,
            settings.plugin_dir,
            settings.kubelet_registry_dir,
            self,
            self.metrics.observe_claim,
        )
        self._publisher = Publisher(
            self._client,
            driver_name=settings.driver_name,
            node_name=settings.node_name,
            pool_name=settings.pool,
            on_sync=lambda report: self.metrics.syncs.labels("ok" if report.ok else "failed").inc(),
        )
        self._device_plugins = coexistence.DevicePluginWatch(
            lambda: self._client.get(NODES, settings.node_name), self._publish, device_plugin_check_seconds
        )

    def start(self) -> None:
        """Everything up to the sockets; the rest follows in threads. UnavailableError where that is not possible."""
        settings, closing = self._settings, self._closing
        self._serve_probes()
        self._engine.load()
        self._hardware.start()
        closing.callback(self._hardware.stop)
        if not self._hardware.scanned.wait(_FIRST_LOOK_SECONDS):
            log.warning("the hardware has not answered yet; going on without", seconds=_FIRST_LOOK_SECONDS)
        restored.tell(self._engine.restore())
        self._publisher.start()
        closing.callback(self._publisher.stop)
        self._device_plugins.start()
        closing.callback(self._device_plugins.stop)
        self._claim_status.start()
        closing.callback(self._claim_status.stop)
        closing.callback(self._kubelet.stop, _GRACE_SECONDS)
        self._kubelet.start()
        _settle_memory()
        log.info(
            "started", pool=settings.pool, backend=settings.backend, endpoint=str(self._kubelet.endpoint)
        )

    def run(self, stop: SimpleQueue[int]) -> None:
        """Tend the sockets until something is in `stop`, which a signal handler may put there."""
        while True:
            try:
                stop.get(timeout=_TEND_SECONDS)
            except Empty:
                self._kubelet.tend()
            else:
                return

    def stop(self) -> None:
        """Let running calls finish, then end everything. Slices and records stay: the node may come back."""
        self._closing.close()
        log.info("stopped")

    def prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
        prepared = self._engine.prepare(ref)
        self._claims_changed()
        record = self._records.get(ref.uid)
        if record is not None and record.steps:
            self._claim_status.tell(record)
        return prepared

    def unprepare(self, ref: ClaimRef) -> None:
        self._engine.unprepare(ref)
        self._claim_status.forget(ref.uid)
        self._claims_changed()
        if any(device.taints for device in self._hardware.snapshot.devices):
            self._hardware.look()  # what stayed published only for this claim can go now

    def _serve_probes(self) -> None:
        settings = self._settings
        health = NodeHealth(self._kubelet, self._hardware, self._device_plugins, self._publisher)
        self.metrics.show(self._state)
        if settings.metrics_address is not None:
            probes = ProbeServer(
                settings.metrics_address,
                self.metrics.registry,
                healthy=health.check_alive,
                ready=health.check_ready,
            )
            self._closing.callback(probes.stop)
            probes.start()
            log.info("serving metrics and probes", port=probes.port)
        if settings.healthcheck_port >= 0:
            server, port = serve_health(
                settings.healthcheck_port, self._kubelet.registration_socket, self._kubelet.endpoint
            )
            self._closing.callback(server.stop, None)
            log.info("serving gRPC health checks", port=port)

    def _claims_changed(self) -> None:
        if self._device_plugins.answer:
            self._publish()  # which then depends on what is held

    def _managed(self) -> dict[str, bool]:
        """The GPUs that are cut on demand; what looks like nobody's may be of a claim whose record is damaged."""
        may_destroy = not self._records.damaged()
        return {gpu: unowned and may_destroy for gpu, unowned in self._hardware.managed().items()}

    def _held(self) -> tuple[HeldDevice, ...]:
        return self._engine.held()

    def _hardware_changed(self) -> None:
        self._publish()
        # A GPU may have another minor number than before, or be there again: containers that restart need
        # specs that say so.
        restored.tell(self._engine.repair())

    def _publish(self) -> None:
        with self._publishing:
            if not self._hardware.scanned.is_set() or self._device_plugins.answer is None:
                return
            devices = self._hardware.snapshot.devices
            if self._device_plugins.answer:
                held = {held.device.name for held in self._held()}
                kept = tuple(device for device in devices if device.name in held)
                devices = DeviceSet(kept, devices.counter_sets if kept else ())
            self._publisher.publish(devices)

    def _state(self) -> NodeState:
        snapshot, claims = self._hardware.snapshot, {held.claim_uid for held in self._held()}
        return NodeState(
            registered=bool(self._kubelet.registration.registered),
            hardware_available=snapshot.inventory.available,
            problems=len(snapshot.inventory.problems),
            devices=dict(Counter((d.target.kind, bool(d.taints)) for d in snapshot.devices)),
            claims_held=len(claims),
            quarantined_records=len(self._records.damaged()),
            slices_synced=self._publisher.status().ok,
            notes={str(reason): number for reason, number in self._hardware.notes.counts().items()},
        )


def _settle_memory() -> None:
    """Keep the garbage collector from walking through all modules again and again.

    What start-up made stays to the end, and a Prepare leaves hardly any cycles behind; with the defaults the
    collector took a sixth of its time.
    """
    collector.settled()
    gc.set_threshold(20_000, 20, 20)


def _make_directory(path: Path, mode: int) -> None:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"cannot make the directory {path}: {error.strerror}") from error

"""The loop that looks at the hardware and keeps the published devices in line with it.

One thread scans, builds the devices, and hands them to the publisher; everybody else reads the last
`Snapshot`, so a Prepare never waits for NVML. The hardware is looked at again every few seconds: drivers load
late, GPUs appear one by one after boot, fall off the bus, or get a new minor number.
"""

import threading
from collections.abc import Callable, Iterable

import structlog

from dra_driver.config.node import MigMode, NodeConfig
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import DeviceSet, HeldDevice
from dra_driver.devices.notes import NoteLog
from dra_driver.devices.snapshot import Snapshot
from dra_driver.errors import one_line
from dra_driver.inventory.backend import Backend
from dra_driver.inventory.model import Inventory

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 5.0


class Hardware:
    """Scans in a thread of its own; `snapshot` is what it found last."""

    def __init__(
        self,
        backend: Backend,
        held: Callable[[], Iterable[HeldDevice]],
        driver_name: str,
        node: NodeConfig,
        interval_seconds: float,
        on_change: Callable[[], None],
    ) -> None:
        self._backend = backend
        self._held = held
        self._driver_name = driver_name
        self._node = node
        self._interval = interval_seconds
        self._on_change = on_change
        self.snapshot = Snapshot(Inventory(available=False), DeviceSet())
        self.notes = NoteLog()
        self.scanned = threading.Event()  # set after the first look, whatever it found
        self.error: str | None = None  # of the last look, which then left what was known before
        self._wake = threading.Event()
        self._looks = threading.Condition()  # guards the two numbers
        self._begun = self._ended = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="hardware", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def managed(self) -> dict[str, bool]:
        """The UUIDs of GPUs whose MIG mode is ours to switch, and whether instances of no claim may be destroyed there."""
        found = ((gpu, self._node.of(gpu)) for gpu in self.snapshot.inventory.gpus)
        return {
            gpu.uuid: settings.destroy_unowned
            for gpu, settings in found
            if settings.mig in {MigMode.DYNAMIC, MigMode.OFF} and gpu.mig is not None and gpu.fault is None
        }

    def look(self) -> None:
        """Look again now: a claim was released, or somebody wants to know."""
        self._wake.set()

    def look_and_wait(self, seconds: float = _LOOK_SECONDS) -> None:
        """Look again now, and return when `snapshot` is what that look found, or the time is up."""
        if threading.current_thread() is self._thread:
            self._wake.set()  # which is what we would wait for
            return
        with self._looks:
            wanted = self._begun + 1
            self._wake.set()
            self._looks.wait_for(lambda: self._ended >= wanted, seconds)

    def stop(self) -> None:
        """End the loop. A scan that hangs is left behind: its thread ends with the process."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout=1.0)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._look()
                self.error = None
            except Exception as error:
                # Every other part lives on with the last snapshot, so this loop must not end either.
                self.error = one_line(error)
                log.exception("looking at the hardware failed for a reason that is a fault of this driver")
            self._wake.wait(self._interval)
            self._wake.clear()
        self._backend.close()

    def _look(self) -> None:
        with self._looks:
            self._begun += 1
        before = self.snapshot
        held = self._held()
        inventory = self._backend.scan()
        if inventory.problems != before.inventory.problems or not self.scanned.is_set():
            for problem in inventory.problems:
                log.warning(
                    "problem with the hardware", err=problem.message, gpu=problem.uuid or problem.pci_address
                )
        # MIG devices come and go with claims while we look; what was anybody's at either end is not nobody's.
        owners = {(hold.claim_uid, hold.device.name): hold for hold in (*held, *self._held())}
        devices = build_devices(inventory, owners.values(), driver_name=self._driver_name, node=self._node)
        self.snapshot = Snapshot(inventory, devices)
        with self._looks:
            self._ended = self._begun
            self._looks.notify_all()
        self.notes.update(devices.notes)
        changed = (
            devices != before.devices
            or _minors(inventory) != _minors(before.inventory)
            or not self.scanned.is_set()
        )
        self.scanned.set()
        if changed:
            log.info(
                "devices found",
                gpus=len(inventory.gpus),
                devices=len(devices),
                driver_version=inventory.driver_version,
                available=inventory.available,
            )
            self._on_change()


def _minors(inventory: Inventory) -> dict[str, int | None]:
    """What CDI specs say of GPUs and slices do not, by UUID."""
    return {gpu.uuid: gpu.minor for gpu in inventory.gpus}

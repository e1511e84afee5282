"""The one writer of a node's ResourceSlices: devices in, slices kept so.

One thread, which wakes for

* new devices: it writes at once;
* slices that others deleted or doubled (kubelet deletes all when it starts): it writes within a second. Where
  that goes on, each repair waits longer, up to 30 s;
* slices that others changed: it writes after 30 s. Nobody does that but another instance of the plugin, whose
  devices may differ while the DaemonSet is updated; the pause lets the older one end before it turns the newer
  one's slices back, so that they do not fight;
* a failed pass: after 1 s to 30 s, doubling, with jitter, and not before a Retry-After. What the server refused for
  its content (422) is not tried again until the devices change;
* ten minutes without any of these, to look whether the Node is still the same.

Slices stay when the plugin stops: running Pods need none, a restart is no reason for the scheduler to forget
GPUs, kubelet deletes them 30 s after the plugin's socket is gone, and the owner reference takes them with the Node.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from dra_driver.devices.model import DeviceSet
from dra_driver.errors import ApiError, UnavailableError, one_line
from dra_driver.kube.backoff import Backoff
from dra_driver.kube.client import Client
from dra_driver.kube.errors import TooManyRequestsError
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import RESOURCE_SLICES
from dra_driver.slices.compare import DroppedField
from dra_driver.slices.diff import Pool
from dra_driver.slices.lessons import RefusedError
from dra_driver.slices.pack import Withheld
from dra_driver.slices.writer import Writer, Written

log = structlog.get_logger(__name__)

_REPAIR_SECONDS = 0.2
_CALM_SECONDS = 60.0  # after which a repair is the first one again
_FOREIGN_CHANGE_SECONDS = 30.0  # as Kubernetes' own controller waits
_RECHECK_SECONDS = 600.0
_SYNC_POLL_SECONDS = 0.2
_STOP_SECONDS = 5.0  # one request may be on its way; the process may end under it


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How the pool stands; the numbers are those of the last pass that succeeded."""

    error: str | None = "nothing has been published yet"  # one sentence; None: slices are as desired
    generation: int | None = None  # None: no pass has succeeded yet
    slices: int = 0
    devices: int = 0
    withheld: tuple[Withheld, ...] = ()  # what is not published, and why
    dropped_fields: tuple[DroppedField, ...] = ()  # what the API server does not keep, and why
    writes: int = 0  # creates, updates and deletes of that pass

    @property
    def ok(self) -> bool:
        return self.error is None


class Publisher:
    """Keeps the pool `pool_name` of `driver_name` on `node_name` equal to the devices last published."""

    def __init__(
        self,
        client: Client,
        *,
        driver_name: str,
        node_name: str,
        pool_name: str,
        on_sync: Callable[[SyncReport], None] | None = None,
    ) -> None:
        """`on_sync` gets a report after each pass, in the publisher's thread."""
        self._on_sync = on_sync
        self._reflector = Reflector(
            client,
            RESOURCE_SLICES,
            field_selector=f"spec.driver={driver_name},spec.nodeName={node_name}",
            on_event=self._on_event,
        )
        self._writer = Writer(client, self._reflector, Pool(driver_name, node_name, pool_name))
        self._report = SyncReport()
        self._changed = threading.Condition()  # of what follows, up to _stopping
        self._desired: DeviceSet | None = None
        self._write_at = math.inf  # by time.monotonic: when to write whatever differs
        self._repair_at = math.inf  # when to write if something is missing
        self._failing = False
        self._stopping = False
        self._retry = Backoff()
        self._repair = Backoff(_REPAIR_SECONDS)
        self._repair_pause = self._repair.delay()
        self._repaired_at = -math.inf
        self._thread = threading.Thread(target=self._run, name="publish-slices", daemon=True)

    def start(self) -> None:
        self._reflector.start()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and the watch; the slices stay."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._reflector.stop()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def publish(self, devices: DeviceSet) -> None:
        """Make `devices` the desired state; returns at once, and does nothing where they are the same."""
        with self._changed:
            if devices == self._desired:
                return
            self._desired = devices
            self._write_at = 0.0
            self._changed.notify()

    def status(self) -> SyncReport:
        report = self._report
        if not self._reflector.synced.is_set() and self._reflector.error is not None:
            return replace(report, error=self._reflector.error)
        return report

    def _on_event(self, kind: str, obj: dict[str, Any]) -> None:
        """Somebody else changed a slice: decide, in the reflector's thread, when to look at them."""
        now = time.monotonic()
        with self._changed:
            if self._desired is None or self._failing:
                return  # the pass to come looks at everything
            log.debug("slice changed by somebody else", kind=kind, slice=obj["metadata"]["name"])
            if now - self._repaired_at > _CALM_SECONDS:
                self._repair.reset()
                self._repair_pause = self._repair.delay()
            self._write_at = min(self._write_at, now + _FOREIGN_CHANGE_SECONDS)
            self._repair_at = min(self._repair_at, now + self._repair_pause)
            self._changed.notify()

    def _run(self) -> None:
        while not self._reflector.synced.wait(_SYNC_POLL_SECONDS):
            if self._stopping:
                return
        while (order := self._next()) is not None:
            devices, repairs_only = order
            self._pass(devices, repairs_only=repairs_only)

    def _next(self) -> tuple[DeviceSet, bool] | None:
        """Wait for the next pass: its devices, and whether it is for repairs only; None: stop."""
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                due = min(self._write_at, self._repair_at)
                if self._desired is not None and due <= now:
                    repairs_only = self._write_at > now
                    self._failing = False  # else what happens once the pass has looked would be missed
                    self._repair_at = math.inf
                    if not repairs_only:
                        self._write_at = math.inf
                    return self._desired, repairs_only
                idle = self._desired is None or due == math.inf
                self._changed.wait(None if idle else due - now)
        return None

    def _pass(self, devices: DeviceSet, *, repairs_only: bool) -> None:
        retry_in: float | None = None
        try:
            written = self._writer.sync(devices, repairs_only=repairs_only)
        except RefusedError as error:
            report = replace(self._report, error=one_line(error))
            log.error("slices refused", err=report.error)  # noqa: TRY400 - the text says it, a trace adds nothing
        except (ApiError, UnavailableError) as error:
            report = replace(self._report, error=one_line(error))
            retry_in = self._retry.delay(
                error.retry_after if isinstance(error, TooManyRequestsError) else None
            )
            log.warning("cannot publish slices", retry_in=round(retry_in, 1), err=report.error)
        except Exception as error:  # the thread must outlive our own mistakes: without it devices go stale
            report = replace(self._report, error=f"publishing slices failed inside: {one_line(error)}")
            retry_in = self._retry.delay()
            log.exception("publishing slices failed")
        else:
            report = self._succeeded(written, repairs_only=repairs_only)
        with self._changed:
            if retry_in is not None:
                self._failing = True
                self._repair_at = math.inf  # the retry looks at everything
            # What came up in the meantime, such as new devices, is due earlier.
            wait = _RECHECK_SECONDS if retry_in is None else retry_in
            self._write_at = min(self._write_at, time.monotonic() + wait)
        self._report = report
        if self._on_sync is not None:
            try:
                self._on_sync(report)
            except Exception:  # as above
                log.exception("handler of a sync report failed")

    def _succeeded(self, written: Written, *, repairs_only: bool) -> SyncReport:
        self._retry.reset()
        if written.writes and repairs_only:
            self._repaired_at = time.monotonic()
            self._repair_pause = self._repair.delay()
        for withheld in written.withheld:
            if withheld not in self._report.withheld:
                log.error("not published", device=withheld.name, part=withheld.part, err=withheld.reason)
        if written.writes:
            log.info(
                "slices published",
                generation=written.generation,
                slices=written.slices,
                devices=written.devices,
                writes=written.writes,
            )
        return SyncReport(
            error=None,
            generation=written.generation,
            slices=written.slices,
            devices=written.devices,
            withheld=written.withheld,
            dropped_fields=written.dropped_fields,
            writes=written.writes,
        )

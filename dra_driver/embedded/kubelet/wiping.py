"""Deleting the ResourceSlices of drivers that are not there, as the kubelet does.

All slices of the node go when the kubelet starts, since no driver has registered yet; those of one driver go some
time after its last connection dropped. A driver must write its slices anew, also without a restart of its own.
"""

import threading

import structlog

from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.backoff import Backoff
from dra_driver.kube.client import Client
from dra_driver.kube.resources import RESOURCE_SLICES

log = structlog.get_logger(__name__)

_RETRY_SECONDS, _RETRY_CAP_SECONDS = 1.0, 300.0


class SliceWiper:
    """Deletes slices of a node; `delay` is in seconds."""

    def __init__(self, client: Client, node_name: str, delay: float) -> None:
        self._client = client
        self._node_name = node_name
        self._delay = delay
        self._pending: dict[str, threading.Event] = {}  # by driver; set to cancel
        self._closed = False
        self._lock = threading.Lock()

    def wipe_all(self) -> None:
        """Delete the slices of all drivers, once; ApiError or UnavailableError where that failed."""
        self._delete(f"spec.nodeName={self._node_name}")

    def usable(self, driver: str) -> None:
        """The driver is back: its slices stay."""
        with self._lock:
            if cancelled := self._pending.pop(driver, None):
                cancelled.set()

    def unusable(self, driver: str) -> None:
        """Delete the driver's slices after the delay; a time that runs already goes on."""
        with self._lock:
            if driver in self._pending or self._closed:
                return
            cancelled = self._pending[driver] = threading.Event()
        threading.Thread(
            target=self._wipe_later, args=(driver, cancelled), name=f"wipe-{driver}", daemon=True
        ).start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for cancelled in self._pending.values():
                cancelled.set()
            self._pending.clear()

    def _wipe_later(self, driver: str, cancelled: threading.Event) -> None:
        backoff = Backoff(_RETRY_SECONDS, _RETRY_CAP_SECONDS)
        wait = self._delay
        while not cancelled.wait(wait):
            try:
                self._delete(f"spec.nodeName={self._node_name},spec.driver={driver}")
            except (ApiError, UnavailableError) as error:
                log.warning(
                    "cannot delete the slices of a driver that is gone", driver=driver, err=str(error)
                )
                wait = backoff.delay()
                continue
            log.info("deleted the slices of a driver that is gone", driver=driver)
            break
        with self._lock:
            if self._pending.get(driver) is cancelled:
                del self._pending[driver]

    def _delete(self, field_selector: str) -> None:
        self._client.delete_collection(RESOURCE_SLICES, field_selector=field_selector)

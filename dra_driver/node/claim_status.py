"""Tells the API server which MIG device was made for a claim: `status.devices[].data` of the ResourceClaim.

    {"driver": "gpu.nvidia.com", "pool": "node-a/gpu", "device": "gpu-...-mig-1g10gb-19-0", "data": {"uuid": "MIG-..."}}

The UUID of a MIG device is new each time one is made, so slices cannot carry it, and monitoring joins on it.
It is told by server-side apply under the driver's name, in a thread of its own: no Pod waits for it, and what the
server refuses (no permission, an older API) costs nothing but that piece of information. The record keeps it, so
it is told again after a restart when the kubelet asks for the claim again.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import structlog

from dra_driver.errors import ApiError, UnavailableError, one_line
from dra_driver.kube.backoff import Backoff
from dra_driver.kube.errors import NotFoundError, ObjectConflictError, ServerError, TooManyRequestsError
from dra_driver.prepare.record import Record

log = structlog.get_logger(__name__)

_TRIES = 6  # about half a minute

Apply = Callable[
    [str, str, dict[str, Any]], object
]  # namespace, name and the body; the answer is of no interest


class ClaimStatus:
    """What claims were told so far; `tell` may be called from any thread."""

    def __init__(self, driver_name: str, apply: Apply) -> None:
        self._driver_name = driver_name
        self._apply = apply
        self._queue: SimpleQueue[Record | None] = SimpleQueue()
        self._mutex = threading.Lock()  # guards the dict
        self._told: dict[str, tuple[str, ...]] = {}  # UUIDs by claim UID
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="claim-status", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what is still to be told is told after the next start."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join(timeout=1.0)

    def tell(self, record: Record) -> None:
        """Have the claim's status name its MIG devices, unless it has none or does so already."""
        uuids = tuple(device.partition.uuid for device in record.devices if device.partition)
        with self._mutex:
            if self._told.get(record.ref.uid, ()) == uuids:
                return
            self._told[record.ref.uid] = uuids
        self._queue.put(record)

    def forget(self, claim_uid: str) -> None:
        """The claim was released."""
        with self._mutex:
            self._told.pop(claim_uid, None)

    def _run(self) -> None:
        while (record := self._queue.get()) is not None:
            try:
                self._tell(record)
            except Exception:
                log.exception(
                    "telling a claim of its MIG devices failed for a reason that is a fault of this driver"
                )

    def _tell(self, record: Record) -> None:
        backoff, body = Backoff(), self._body(record)
        for last in (*(False,) * (_TRIES - 1), True):
            try:
                self._apply(record.ref.namespace, record.ref.name, body)
            except (NotFoundError, ObjectConflictError):
                return  # deleted, or another claim of the same name
            except (ServerError, TooManyRequestsError, UnavailableError) as error:
                if last or self._stopping.wait(backoff.delay()):
                    self._give_up(record, error)
                    return
            except ApiError as error:
                self._give_up(record, error)
                return
            else:
                return

    def _give_up(self, record: Record, error: Exception) -> None:
        self.forget(record.ref.uid)
        log.warning(
            "the claim's status does not name its MIG devices",
            claim=str(record.ref),
            claim_uid=record.ref.uid,
            err=one_line(error),
        )

    def _body(self, record: Record) -> dict[str, Any]:
        devices = []
        for recorded in record.devices:
            if recorded.partition is not None:
                share = {} if recorded.share_id is None else {"shareID": recorded.share_id}
                devices.append(
                    {
                        "driver": self._driver_name,
                        "pool": recorded.pool,
                        "device": recorded.name,
                        **share,
                        "data": {"uuid": recorded.partition.uuid},
                    }
                )
        metadata = {"name": record.ref.name, "namespace": record.ref.namespace, "uid": record.ref.uid}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "status": {"devices": devices},
        }

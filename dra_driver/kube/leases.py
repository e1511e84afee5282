"""Leader election on a Lease: of several replicas one acts, and when it is gone another one does.

As client-go does it, so that `kubectl get lease` and people's habits work, with the same numbers: the lease holds for
15 s, is renewed every 2 s, and a leader that could not renew for 10 s stops calling itself one.

* Clocks of machines never matter. A leader counts from before its last successful renewal was sent, everybody else
  from when it last saw the Lease change, each by its own monotonic clock. 10 s is less than 15 s, so there is never a
  second leader before the first has stopped.
* Each write carries the resource version that was read; a 409 means that somebody else wrote first, and the Lease is
  read again at the next turn.
* The holder is this process, not the Pod: a container that restarts must not go on with what its predecessor held.
* `stop` gives the lease back, so that an orderly end costs no 15 s. A crash does.

What one process decides while it leads may still reach the server after it stopped leading: all that leaders write
has to bear that.
"""

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from dra_driver.errors import ApiError, UnavailableError, one_line
from dra_driver.kube.client import Client
from dra_driver.kube.errors import AlreadyExistsError, NotFoundError, ObjectConflictError
from dra_driver.kube.resources import LEASES

log = structlog.get_logger(__name__)

_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds; `renew_within` has to be less than `duration`, or there would be two leaders."""

    duration: float = 15.0  # how long others wait for a leader that says nothing
    renew_within: float = 10.0  # how long a leader goes on without a renewal
    retry: float = 2.0


class Election:
    """Stands for election from `start` to `stop`, in a thread of its own."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_elected: Callable[[], None] = lambda: None,
        timing: Timing | None = None,
    ) -> None:
        """`identity`: who stands, such as a Pod's name; `on_elected` is called in the election's thread."""
        self.error: str | None = None  # why the lease can be neither read nor written at the moment
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = f"{identity}_{uuid.uuid4()}"
        self._on_elected = on_elected
        self._timing = timing or Timing()
        self._lease: dict[str, Any] | None = None  # as last read or written; None: to be read
        self._seen = ""  # the version of it that we saw last, and since when, by time.monotonic
        self._seen_at = 0.0
        self._leads_until = 0.0  # by time.monotonic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    @property
    def is_leader(self) -> bool:
        """Whether this process may act now; to be asked before each act."""
        return time.monotonic() < self._leads_until

    @property
    def leader(self) -> str | None:
        """Who holds the lease, as far as is known: an identity, with a suffix for its process."""
        lease = self._lease
        return _holder(lease) if lease is not None else None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End, and give the lease back."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        led = False
        while not self._stop.is_set():
            self._turn()
            if self.is_leader != led:
                led = self.is_leader
                log.info("leading" if led else "no longer leading", lease=f"{self._namespace}/{self._name}")
                if led:
                    self._on_elected()
            self._stop.wait(self._timing.retry)
        if self.is_leader:
            self._give_back()

    def _turn(self) -> None:
        """Renew the lease, or try to get it."""
        try:
            if self._lease is None or not self._holds(self._lease):
                self._read()
            self._take()
        except ObjectConflictError:
            self._lease = None
        except (ApiError, UnavailableError) as error:
            self._lease = None  # it may be gone, and a write whose answer got lost may have been done
            if self.error is None:
                log.warning("cannot stand for election", err=one_line(error))
            self.error = one_line(error)
        except Exception as error:  # an answer of another shape must not leave the replicas without a leader
            self._lease = None
            self.error = one_line(error)
            log.exception("cannot stand for election")
        else:
            self.error = None

    def _read(self) -> None:
        try:
            read = self._client.get(LEASES, self._name, self._namespace)
        except NotFoundError:
            self._lease = None
            return
        self._saw(read)

    def _saw(self, lease: dict[str, Any]) -> None:
        if _version(lease) != self._seen:
            self._seen, self._seen_at = _version(lease), time.monotonic()
        self._lease = lease

    def _take(self) -> None:
        """Write ourselves into the lease where it is ours, nobody's, or has not changed for its duration."""
        sent = time.monotonic()
        lease = self._lease
        if lease is None:
            try:
                self._saw(self._client.create(LEASES, self._renewed(None)))
            except AlreadyExistsError:
                return  # somebody was faster
        elif self._holds(lease) or not _holder(lease) or sent - self._seen_at >= self._duration_of(lease):
            self._saw(self._client.replace(LEASES, self._renewed(lease)))
        else:
            return
        self._leads_until = sent + self._timing.renew_within

    def _give_back(self) -> None:
        lease = self._lease
        self._leads_until = 0.0
        if lease is None:
            return
        spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
        try:
            self._client.replace(LEASES, {**lease, "spec": spec})
        except (ApiError, UnavailableError) as error:
            log.info("lease not given back", err=one_line(error))

    def _renewed(self, lease: dict[str, Any] | None) -> dict[str, Any]:
        """The lease as ours from now on."""
        now = _now()
        mine = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "renewTime": now,
        }
        if lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            spec = {**mine, "acquireTime": now, "leaseTransitions": 0}
            return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        former = lease.get("spec") or {}
        if not self._holds(lease):
            transitions = int(former.get("leaseTransitions") or 0) + 1
            mine |= {"acquireTime": now, "leaseTransitions": transitions}
        return {**lease, "spec": {**former, **mine}}

    def _holds(self, lease: dict[str, Any]) -> bool:
        return _holder(lease) == self._identity

    def _duration_of(self, lease: dict[str, Any]) -> float:
        """As its holder has promised to renew it; ours where it promised nothing."""
        return float((lease.get("spec") or {}).get("leaseDurationSeconds") or self._timing.duration)


def _holder(lease: dict[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _version(lease: dict[str, Any]) -> str:
    return str(lease["metadata"].get("resourceVersion"))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""Faults on demand: what a server or a network may do to a request, for tests of those who must survive it.

A fault names the verb and resource it is for (None: any) and how often it strikes. Faults are looked at in
the order they were added; one that is used up is gone. Streams that already run are broken with
`break_watches` and `expire_watches`.
"""

import threading
from dataclasses import dataclass
from enum import StrEnum

from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.storage import Storage
from dra_driver.kube.resources import Resource


class Kind(StrEnum):
    """What happens to a request."""

    DROP = "drop"  # the connection is closed, the request is not done
    LOSE = "lose"  # the request is done, then the connection is closed
    DELAY = "delay"  # the request is done after a while
    REFUSE = "refuse"  # a Status is answered, the request is not done


@dataclass(slots=True)
class Fault:
    """One fault; `times` None strikes until it is cleared."""

    kind: Kind
    verb: str | None = None  # get, list, watch, create, update, patch, delete, deletecollection
    resource: str | None = None  # plural
    times: int | None = 1
    seconds: float = 0.0
    refusal: status.StatusError | None = None


class BrokenStreamError(Exception):
    """A watch ends as if the network had broken."""


class Faults:
    """The faults in force; thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self.taken = threading.Event()  # set once a fault has struck

    def add(self, fault: Fault) -> Fault:
        """Put a fault in force; give it to `remove` to end one without a limit."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def drop(
        self,
        verb: str | None = None,
        resource: Resource | None = None,
        *,
        times: int | None = 1,
        done: bool = False,
    ) -> Fault:
        """Close the connection without an answer; with `done`, after the request took effect."""
        return self.add(Fault(Kind.LOSE if done else Kind.DROP, verb, _plural(resource), times))

    def delay(
        self,
        seconds: float,
        verb: str | None = None,
        resource: Resource | None = None,
        *,
        times: int | None = 1,
    ) -> Fault:
        """Let requests wait before they are done."""
        return self.add(Fault(Kind.DELAY, verb, _plural(resource), times, seconds=seconds))

    def refuse(
        self,
        code: int,
        verb: str | None = None,
        resource: Resource | None = None,
        *,
        times: int | None = 1,
        retry_after: int = 1,
    ) -> Fault:
        """Answer with a Status: 410, 429 (with Retry-After), 500, 503, or any other code."""
        if code == 429:
            refusal = status.too_many_requests(retry_after)
        elif code == 410:
            refusal = status.expired("The resourceVersion for the provided list is too old.")
        elif code == 503:
            text = "the server is currently unable to handle the request"
            refusal = status.StatusError(503, "ServiceUnavailable", text, {})
        else:
            refusal = status.StatusError(code, "InternalError", "Internal error occurred: asked for", {})
        return self.add(Fault(Kind.REFUSE, verb, _plural(resource), times, refusal=refusal))

    def unavailable(self) -> Fault:
        """Drop every request until the returned fault is removed."""
        return self.drop(times=None)

    def remove(self, fault: Fault) -> None:
        with self._lock:
            if fault in self._faults:
                self._faults.remove(fault)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def break_watches(self, resource: Resource | None = None) -> None:
        """Cut the running watches of a resource, or all."""
        self._storage.interrupt(_plural(resource), BrokenStreamError())

    def expire_watches(self, resource: Resource | None = None) -> None:
        """End the running watches of a resource, or all, with 410 in the stream."""
        reason = status.expired("The resourceVersion for the provided watch is too old.")
        self._storage.interrupt(_plural(resource), reason)

    def forget_history(self) -> None:
        """Forget kept changes, so that a watch from an older revision gets 410."""
        self._storage.compact()

    def take(self, verb: str, plural: str | None) -> Fault | None:
        """The fault that strikes this request, if any; counted."""
        with self._lock:
            for fault in self._faults:
                if fault.verb in {None, verb} and fault.resource in {None, plural}:
                    self.taken.set()
                    if fault.times is not None:
                        fault.times -= 1
                        if fault.times <= 0:
                            self._faults.remove(fault)
                    return fault
        return None


def _plural(resource: Resource | None) -> str | None:
    return resource.plural if resource else None

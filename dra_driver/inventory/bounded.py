"""A worker that bounds how long its caller waits, not how long a job runs.

Calls into NVML can hang for good (go-nvml#152: nvmlInit after hours of uptime), and a thread that hangs in C
cannot be stopped. So a job runs in a daemon thread, the caller waits up to a deadline, and while a job is
still running no other is started: however often somebody asks, one thread hangs, not one per try. A child
process could be killed instead, but costs tens of MiB on every node, for a case that a reboot has to mend
anyway: a process that is stuck in the driver cannot be killed either.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")


class StillRunningError(Exception):
    """The job, or one before it, has not ended within the deadline; it goes on and holds the worker."""


class _Job(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._value: T
        self.done = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            self.error = error
        finally:
            self.done.set()

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return self._value


class BoundedWorker:
    """Runs one job at a time, for one caller at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._late: _Job[Any] | None = None

    def run(self, work: Callable[[], T], seconds: float) -> T:
        """The result of `work`, or its exception; StillRunningError after `seconds`.

        A job that was late is waited for first; its answer is stale by now, and dropped.
        """
        end = time.monotonic() + seconds
        if self._late is not None:
            if not self._late.done.wait(seconds):
                raise StillRunningError
            log.info("late answer dropped", worker=self._name, err=repr(self._late.error))
        job = _Job(work)
        threading.Thread(target=job.run, name=self._name, daemon=True).start()
        self._late = job  # not before: a job without a thread would be waited for for ever
        if not job.done.wait(max(0.0, end - time.monotonic())):
            raise StillRunningError
        self._late = None
        return job.result()

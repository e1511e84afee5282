"""From a process's beginning to its exit code.

0: stopped as asked (SIGTERM, SIGINT). 2: a flag or a file is wrong. 3: something outside is not there, such as a port
that is taken. What goes wrong once it runs is survived and told, never a reason to end. SIGUSR1 writes the stacks of
all threads to standard error.
"""

import faulthandler
import signal
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

import structlog

from dra_driver.errors import DriverError, UsageError, one_line

STOPPED, USAGE, UNAVAILABLE = 0, 2, 3

log = structlog.get_logger(__name__)


class Process(Protocol):
    """What is run; each method is called once."""

    def start(self) -> None: ...
    def run(self, stop: "SimpleQueue[int]") -> None:
        """Until `stop` yields something, which is the number of a signal."""

    def stop(self) -> None:
        """Called also where `start` failed halfway."""


def stop_signals() -> "SimpleQueue[int]":
    """The queue that SIGTERM and SIGINT are put into from now on.

    To be called first of all: a container's first process does not get a signal that it has no handler for. And a
    queue, since its `put` alone may interrupt the thread that waits for it.
    """
    stop: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stop.put(number))
    faulthandler.register(signal.SIGUSR1)
    return stop


def run(build: Callable[[], Process], stop: "SimpleQueue[int]") -> int:
    """Start, run and stop what `build` makes; the exit code."""
    try:
        process = build()
        try:
            process.start()
            process.run(stop)
        finally:
            process.stop()
    except DriverError as error:
        log.error("cannot start", err=one_line(error))  # noqa: TRY400 - its text is all there is to say
        return USAGE if isinstance(error, UsageError) else UNAVAILABLE
    return STOPPED

"""From a process's beginning to its exit code.

0: stopped as asked (SIGTERM, SIGINT). 2: a flag or a file is wrong. 3: something outside is not there, such as a port
that is taken. What goes wrong once it runs is survived and told, never a reason to end. SIGUSR1 writes the stacks of
all threads to standard error.
"""

import faulthandler
import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

import structlog

from dra_driver.errors import DriverError, UsageError, one_line

STOPPED, USAGE, UNAVAILABLE = 0, 2, 3
_LAST_SECONDS = 2.0  # for what is about to end

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


def end(code: int) -> int:
    """`code`, with which the process ends soon whatever its threads do.

    Python waits for every thread of a pool, also for one that hangs in a file system or on an API server. The process
    would be killed for it, and its exit code say nothing.
    """

    def leave() -> None:
        log.warning("ended under calls that hang")
        os._exit(code)

    timer = threading.Timer(_LAST_SECONDS, leave)
    timer.daemon = True  # it does not keep the process
    timer.start()
    return code

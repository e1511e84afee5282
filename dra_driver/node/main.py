"""The entry point of the node plugin: from flags to an exit code.

0: stopped as asked (SIGTERM, SIGINT). 2: a flag, a profile or a file is wrong, or another driver of this name
is on the node. 3: something outside is not there (a directory that cannot be made, a socket that cannot be
bound). What goes wrong later, API server and hardware included, is survived and told, never a reason to end.
SIGUSR1 writes the stacks of all threads to standard error.
"""

import faulthandler
import os
import signal
import sys
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

from dra_driver.errors import DriverError, UsageError, one_line
from dra_driver.node import flags, logs

STOPPED, USAGE, UNAVAILABLE = 0, 2, 3


def main(arguments: Sequence[str]) -> int:
    """Run the plugin until it is told to stop; its exit code."""
    try:
        settings = flags.parse(arguments)
    except UsageError as error:
        print(f"dra-driver kubelet-plugin: {error}", file=sys.stderr)  # noqa: T201 - before there are logs
        return USAGE
    return serve(settings)


def serve(settings: flags.Settings, **options: Any) -> int:
    """As `main`, with settings that were read already; `options` are further arguments of `NodePlugin`."""
    # From the first moment on: a container's first process does not get a signal that it has no handler for. And a
    # queue, since its `put` alone may interrupt the thread that waits for it.
    stop: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stop.put(number))
    faulthandler.register(signal.SIGUSR1)
    logs.configure(settings.log_format, settings.log_level, node=settings.node_name)
    # gRPC would print its own warnings between our lines.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from dra_driver.node.plugin import NodePlugin, log

    try:
        plugin = NodePlugin(settings, **options)
        try:
            plugin.start()
            plugin.run(stop)
        finally:
            plugin.stop()
    except UsageError as error:
        log.error("cannot start", err=one_line(error))
        return USAGE
    except DriverError as error:
        log.error("cannot start", err=one_line(error))
        return UNAVAILABLE
    return STOPPED

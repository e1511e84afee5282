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

from dra_driver.errors import DriverError, UnavailableError, UsageError, one_line
from dra_driver.node import flags, logs

STOPPED, USAGE, UNAVAILABLE = 0, 2, 3


def main(arguments: Sequence[str]) -> int:
    """Run the plugin until it is told to stop; its exit code."""
    try:
        settings = flags.parse(arguments)
    except UsageError as error:
        print(f"dra-driver kubelet-plugin: {error}", file=sys.stderr)  # noqa: T201 - before there are logs
        return USAGE
    logs.configure(settings.log_format, settings.log_level, node=settings.node_name)
    # gRPC would print its own warnings between our lines.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from dra_driver.node.plugin import NodePlugin, log

    faulthandler.register(signal.SIGUSR1)
    try:
        plugin = NodePlugin(settings)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: plugin.request_stop())
        try:
            plugin.start()
            plugin.run()
        finally:
            plugin.stop()
    except UsageError as error:
        log.error("cannot start", err=one_line(error))
        return USAGE
    except (UnavailableError, DriverError) as error:
        log.error("cannot start", err=one_line(error))
        return UNAVAILABLE
    return STOPPED

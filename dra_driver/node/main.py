"""The entry point of the node plugin: from flags to an exit code.

The codes are those of `dra_driver.process.running`; 2 is also that another driver of this name is on the node, or a
profile is wrong.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

from dra_driver.errors import UsageError
from dra_driver.node import flags
from dra_driver.process import logs, running


def main(arguments: Sequence[str]) -> int:
    """Run the plugin until it is told to stop; its exit code."""
    try:
        settings = flags.parse(arguments)
    except UsageError as error:
        print(f"dra-driver kubelet-plugin: {error}", file=sys.stderr)  # noqa: T201 - before there are logs
        return running.USAGE
    return serve(settings)


def serve(settings: flags.Settings, **options: Any) -> int:
    """As `main`, with settings that were read already; `options` are further arguments of `NodePlugin`."""
    stop = running.stop_signals()
    logs.configure(settings.log_format, settings.log_level, node=settings.node_name)
    # gRPC would print its own warnings between our lines.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from dra_driver.node.plugin import NodePlugin

    return running.end(running.run(lambda: NodePlugin(settings, **options), stop))

"""The entry point of the controller: from flags to an exit code, which is one of `dra_driver.process.running`."""

import sys
from collections.abc import Sequence

from dra_driver.controller import flags
from dra_driver.errors import UsageError
from dra_driver.process import logs, running

# How long a thread that computes keeps others waiting: explaining takes seconds, and an admission milliseconds.
_SWITCH_SECONDS = 0.0005


def main(arguments: Sequence[str]) -> int:
    """Run the controller until it is told to stop; its exit code."""
    try:
        settings = flags.parse(arguments)
    except UsageError as error:
        print(f"dra-driver controller: {error}", file=sys.stderr)  # noqa: T201 - before there are logs
        return running.USAGE
    stop = running.stop_signals()
    logs.configure(settings.log_format, settings.log_level, replica=settings.identity)
    sys.setswitchinterval(_SWITCH_SECONDS)
    from dra_driver.controller.process import Controller

    return running.run(lambda: Controller(settings), stop)

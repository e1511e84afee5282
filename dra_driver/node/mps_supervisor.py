"""The entry point of the supervisor of MPS daemons: from flags to an exit code, as `dra_driver.process.running` has it.

A process beside the node plugin, in a DaemonSet of its own; why, is in `dra_driver.sharing.supervision`.
"""

import sys
from collections.abc import Sequence

from dra_driver.errors import UsageError
from dra_driver.process import logs, running
from dra_driver.process.flags import LOGGING, Flag, read
from dra_driver.sharing.supervisor import SupervisorProcess

FLAGS = (
    Flag("driver-name", "gpu.nvidia.com", "name of the driver, as the node plugin has it"),
    Flag("kubelet-plugins-dir", "/var/lib/kubelet/plugins", "where the node plugin has its directory"),
    *LOGGING,
)


def main(arguments: Sequence[str]) -> int:
    """Run the supervisor until it is told to stop; its exit code."""
    try:
        values = read(
            FLAGS, arguments, None, command="mps-supervisor", description="Run the MPS daemons of this node."
        )
        directory = values.directory("kubelet_plugins_dir") / values.text("driver_name") / "mps"
    except UsageError as error:
        print(f"dra-driver mps-supervisor: {error}", file=sys.stderr)  # noqa: T201 - before there are logs
        return running.USAGE
    stop = running.stop_signals()
    logs.configure(values.text("log_format"), values.text("log_level"))
    return running.run(lambda: SupervisorProcess(directory), stop)

"""`python -m dra_driver`, and the command `dra-driver`.

The processes are dispatched before anything of the command line is imported: the node plugin runs on every node, and
needs neither typer nor rich.
"""

import sys


def main() -> int:
    if sys.argv[1:2] == ["kubelet-plugin"]:
        from dra_driver.node.main import main as run_node_plugin

        return run_node_plugin(sys.argv[2:])
    if sys.argv[1:2] == ["controller"]:
        from dra_driver.controller.main import main as run_controller

        return run_controller(sys.argv[2:])
    if sys.argv[1:2] == ["mps-supervisor"]:
        from dra_driver.node.mps_supervisor import main as run_supervisor

        return run_supervisor(sys.argv[2:])
    from dra_driver.cli.main import main as run_command

    return run_command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

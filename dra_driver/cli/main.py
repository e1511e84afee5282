"""The commands, and how they end.

Exit codes: 0 fine, 1 findings or not satisfiable, 2 bad input or usage, 3 cluster or hardware not reachable.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dra_driver import __version__
from dra_driver.cli import cdi
from dra_driver.errors import ApiError, DriverError, UnavailableError, UsageError, one_line

FINE, FINDINGS, USAGE, UNREACHABLE = 0, 1, 2, 3

# typer's rich help costs half a second at each start.
app = typer.Typer(
    name="dra-driver",
    help="A DRA driver for NVIDIA GPUs on Kubernetes.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cdi.app, name="cdi")


@app.command()
def demo(
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            "-p",
            help="Kind of node, by name or YAML file; several take turns.",
            metavar="PROFILE",
        ),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, max=64, help="How many nodes. Default: one per profile.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", "-f", help="Apply this file or directory instead of the examples; repeatable."
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            help="A part of a GPU: mig, time-slicing, mps or shares, on a node of its own.",
            metavar="NAME",
        ),
    ] = None,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running, with a kubeconfig for kubectl.")
    ] = False,
) -> None:
    """GPUs discovered, published, selected, allocated and prepared, on an embedded cluster without a GPU."""
    from dra_driver.cli.demo import run

    raise typer.Exit(
        run(profiles=profile or [], nodes=nodes or 0, files=file or [], keep=keep, scenario=scenario)
    )


@app.command()
def convert(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The device plugin's configuration; - is standard input.")
    ],
) -> None:
    """A configuration of NVIDIA's device plugin for sharing GPUs, as node configuration and classes of this driver."""
    from dra_driver.cli.convert import run

    raise typer.Exit(run(file))


@app.command(
    name="kubelet-plugin", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def kubelet_plugin(context: typer.Context) -> None:
    """Run the node plugin; see `dra-driver kubelet-plugin --help` for its flags."""
    from dra_driver.node.main import main as run_node_plugin

    raise typer.Exit(run_node_plugin(context.args))


@app.command(
    name="mps-supervisor", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def mps_supervisor(context: typer.Context) -> None:
    """Run the MPS daemons of a node; see `dra-driver mps-supervisor --help` for its flags."""
    from dra_driver.node.mps_supervisor import main as run_supervisor

    raise typer.Exit(run_supervisor(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def controller(context: typer.Context) -> None:
    """Run the controller; see `dra-driver controller --help` for its flags."""
    from dra_driver.controller.main import main as run_controller

    raise typer.Exit(run_controller(context.args))


@app.command()
def lint(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]", help="Files or directories; - is standard input. None: a cluster."
        ),
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", help="The same as an argument; repeatable.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="table, lines, json or yaml. Default: a table on a terminal, else lines."
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Whose objects are judged in a cluster.")
    ] = "default",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Default: KUBECONFIG, ~/.kube/config, or in cluster.")
    ] = None,
    convert: Annotated[
        str | None,
        typer.Option(help="Print the objects in this version of resource.k8s.io instead.", metavar="VERSION"),
    ] = None,
    *,
    fix: Annotated[bool, typer.Option("--fix", help="Mend in the files what can be mended safely.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="With files: judged by the devices and classes of the cluster.")
    ] = False,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Without files: the objects of all namespaces.")
    ] = False,
    list_attributes: Annotated[
        bool,
        typer.Option(
            "--list-attributes", help="Attributes may be lists of values, as in clusters with that gate."
        ),
    ] = False,
) -> None:
    """Find what is wrong with claims, templates, classes, slices and Pods before they are applied."""
    from dra_driver.cli.lint import Question, run

    question = Question(
        files=[*(files or ()), *(file or ())],
        with_cluster=live,
        namespace=None if all_namespaces else namespace,
        kubeconfig=kubeconfig,
        lists=list_attributes,
    )
    raise typer.Exit(run(question, output=output, fixing=fix, version=convert))


@app.command()
def explain(
    kind: Annotated[
        str | None, typer.Argument(metavar="[claim|pod|template]", help="What to explain; with -f all.")
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", help="Read this file or directory, not a cluster; repeatable."),
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where it is.")] = "default",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Default: KUBECONFIG, ~/.kube/config, or in cluster.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="table, lines, json or yaml. Default: a table on a terminal, else lines."
        ),
    ] = None,
    *,
    live: Annotated[
        bool, typer.Option("--live", help="With -f: as if the files were applied to the cluster.")
    ] = False,
    list_attributes: Annotated[
        bool,
        typer.Option(
            "--list-attributes", help="Attributes may be lists of values, as in clusters with that gate."
        ),
    ] = False,
) -> None:
    """Why a claim or Pod has no devices: per node, request and device, and what would change that."""
    from dra_driver.cli.explain import run

    code = run(
        kind,
        name,
        namespace=namespace,
        files=file or [],
        with_cluster=live,
        kubeconfig=kubeconfig,
        lists=list_attributes,
        output=output,
    )
    raise typer.Exit(code)


@app.command()
def profiles() -> None:
    """List the kinds of nodes that can be simulated."""
    from dra_driver.inventory.profile import load_profile, profile_names

    for name in profile_names():
        print(f"{name:<22} {load_profile(name).description}")


@app.command()
def simulate(
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", help="Read this file or directory, in this order; repeatable."),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="Simulated nodes. Default: those of the files, else of a cluster.", metavar="PROFILE=N,..."
        ),
    ] = None,
    mig: Annotated[
        str, typer.Option(help="How GPUs of simulated nodes are offered: auto, static, dynamic or off.")
    ] = "auto",
    config: Annotated[
        Path | None, typer.Option(help="The node plugin's configuration file on simulated nodes.")
    ] = None,
    add_nodes: Annotated[
        list[str] | None, typer.Option(help="What if there were these nodes too.", metavar="PROFILE=N,...")
    ] = None,
    drain: Annotated[
        list[str] | None, typer.Option(help="What if this node were drained.", metavar="NODE")
    ] = None,
    taint: Annotated[
        list[str] | None,
        typer.Option(
            help="What if a device, or all of a node, had this taint.",
            metavar="NODE[/DEVICE]:KEY[=VALUE]:EFFECT",
        ),
    ] = None,
    without_claim: Annotated[
        list[str] | None,
        typer.Option(help="What if this claim and its Pods were gone.", metavar="[NAMESPACE/]NAME"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Leave the order of equals to chance, this one.")] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Of objects that name none.")
    ] = "default",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Default: KUBECONFIG, ~/.kube/config, or in cluster.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="table, lines, json or yaml. Default: a table on a terminal, else lines."
        ),
    ] = None,
    *,
    live: Annotated[bool, typer.Option("--live", help="Lay files and nodes over the cluster.")] = False,
    list_attributes: Annotated[
        bool,
        typer.Option(
            "--list-attributes", help="Attributes may be lists of values, as in clusters with that gate."
        ),
    ] = False,
) -> None:
    """Who would get which devices in which order, what stays pending and why, and what is left."""
    from dra_driver.cli.simulate import Hardware, WhatIf, run

    code = run(
        files=file or [],
        hardware=Hardware(nodes, mig, config),
        namespace=namespace,
        with_cluster=live,
        kubeconfig=kubeconfig,
        what_if=WhatIf(add_nodes or (), without_claim or (), taint or (), drain or ()),
        seed=seed,
        lists=list_attributes,
        output=output,
    )
    raise typer.Exit(code)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main(arguments: Sequence[str]) -> int:
    """Run a command; its exit code."""
    try:
        code = app(args=list(arguments), prog_name="dra-driver", standalone_mode=False)
    except typer.Exit as exit_:
        return int(exit_.exit_code)
    except typer.Abort:
        return FINDINGS
    except UsageError as error:
        return _failed(error, USAGE)
    except (UnavailableError, ApiError) as error:
        return _failed(error, UNREACHABLE)
    except DriverError as error:
        return _failed(error, USAGE)
    except Exception as error:
        # click's own usage errors; anything else is a fault of ours and keeps its traceback.
        if not hasattr(error, "format_message"):
            raise
        return _failed(error, USAGE)
    return int(code or FINE)


def _failed(error: Exception, code: int) -> int:
    text = error.format_message() if hasattr(error, "format_message") else one_line(error)
    print(f"dra-driver: {text}", file=sys.stderr)
    return code

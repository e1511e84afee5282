"""The commands, and how they end.

Exit codes: 0 fine, 1 findings or not satisfiable, 2 bad input or usage, 3 cluster or hardware not reachable; as of any
program 130 after Ctrl-C, 141 where whoever read the output has gone, such as `head`.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dra_driver import __version__
from dra_driver.cli import cdi
from dra_driver.cli.output import printable
from dra_driver.errors import ApiError, DriverError, UnavailableError, one_line

USAGE, UNREACHABLE, INTERRUPTED, UNREAD = 2, 3, 130, 141

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

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="table, lines, json or yaml. Default: a table on a terminal, else lines.",
    ),
]
Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Default: KUBECONFIG, ~/.kube/config, or in cluster.")
]
Lists = Annotated[
    bool,
    typer.Option(
        "--list-attributes", help="Attributes may be lists of values, as in clusters with that gate."
    ),
]


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
        int | None,
        typer.Option(
            "--nodes", metavar="NUMBER", min=1, max=64, help="How many nodes. Default: one per profile."
        ),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Apply this file or directory instead of the examples; repeatable.",
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
) -> int:
    """Show all of it, on an embedded cluster without a GPU.

    GPUs are discovered, published, selected, allocated and prepared.
    """
    from dra_driver.cli.demo import run

    return run(profiles=profile or [], nodes=nodes or 0, files=file or [], keep=keep, scenario=scenario)


@app.command()
def convert(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The device plugin's configuration; - is standard input.")
    ],
) -> int:
    """Turn a device plugin's configuration into this driver's.

    Of NVIDIA's device plugin, for sharing GPUs: as node configuration and classes.
    """
    from dra_driver.cli.convert import run

    return run(file)


@app.command()
def lint(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]", help="Files or directories; - is standard input. None: a cluster."
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", metavar="FILE", help="The same as an argument; repeatable."),
    ] = None,
    output: Output = None,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Whose objects are judged in a cluster."),
    ] = "default",
    kubeconfig: Kubeconfig = None,
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
    list_attributes: Lists = False,
) -> int:
    """Find mistakes in manifests before they are applied.

    In claims, templates, classes, slices and Pods, of files or of a cluster.
    """
    from dra_driver.cli.lint import Question, run

    question = Question(
        files=[*(files or ()), *(file or ())],
        with_cluster=live,
        namespace=None if all_namespaces else namespace,
        kubeconfig=kubeconfig,
        lists=list_attributes,
    )
    return run(question, output=output, fixing=fix, version=convert)


@app.command()
def explain(
    kind: Annotated[
        str | None, typer.Argument(metavar="[claim|pod|template]", help="What to explain; with -f all.")
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read this file or directory, not a cluster; repeatable."
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Where it is.")
    ] = "default",
    kubeconfig: Kubeconfig = None,
    output: Output = None,
    *,
    live: Annotated[
        bool, typer.Option("--live", help="With -f: as if the files were applied to the cluster.")
    ] = False,
    list_attributes: Lists = False,
) -> int:
    """Say why a claim or Pod has no devices.

    Per node, request and device, and what would change that.
    """
    from dra_driver.cli.explain import run

    return run(
        kind,
        name,
        namespace=namespace,
        files=file or [],
        with_cluster=live,
        kubeconfig=kubeconfig,
        lists=list_attributes,
        output=output,
    )


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
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read this file or directory, in this order; repeatable."
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="Simulated nodes. Default: those of the files, else of a cluster.", metavar="PROFILE=N,..."
        ),
    ] = None,
    mig: Annotated[
        str,
        typer.Option(
            metavar="MODE", help="How GPUs of simulated nodes are offered: auto, static, dynamic or off."
        ),
    ] = "auto",
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The node plugin's configuration file on simulated nodes."),
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
    seed: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Leave the order of equals to chance, this one.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Of objects that name none.")
    ] = "default",
    kubeconfig: Kubeconfig = None,
    output: Output = None,
    *,
    live: Annotated[bool, typer.Option("--live", help="Lay files and nodes over the cluster.")] = False,
    list_attributes: Lists = False,
) -> int:
    """Say who would get which devices, and what waits.

    In which order, why what stays pending does, and what is left.
    """
    from dra_driver.cli.simulate import Hardware, WhatIf, run

    return run(
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


@app.command("kubelet-plugin", help="Run the node plugin.")
@app.command("mps-supervisor", help="Run the MPS daemons of a node.")
@app.command("controller", help="Run the controller.")
def _process() -> None:
    """Here for the list of commands: `dra_driver.__main__` starts these before any of this is loaded."""


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main(arguments: Sequence[str]) -> int:
    """Run a command; its exit code."""
    _open_streams()
    try:
        code = app(args=list(arguments), prog_name="dra-driver", standalone_mode=False)
        sys.stdout.flush()  # while a full disk can still be told
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # SystemExit is what click makes of the other
        _drop_output()
        return UNREAD
    except (UnavailableError, ApiError) as error:
        return _failed(one_line(error), UNREACHABLE)
    except DriverError as error:
        return _failed(one_line(error), USAGE)
    except OSError as error:
        if error.errno != errno.ENOSPC and error.filename is None:
            raise
        _drop_output()
        return _failed(f"{error.filename or 'cannot write'}: {error.strerror}", UNREACHABLE)
    except Exception as error:
        # click's own usage errors; anything else is a fault of ours and keeps its traceback.
        if not hasattr(error, "format_message"):
            raise
        return _misused(error)
    return int(code or 0)


def _open_streams() -> None:
    """Output is UTF-8 whatever the locale, as kubectl's is, and goes nowhere where the shell has closed it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _drop_output() -> None:
    """What could not be written is not tried once more when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _misused(error: Any) -> int:
    """What click says of wrong arguments, and where to read on; of a command without its subcommand, the help."""
    text = error.format_message()
    if "\n" in text:
        print(text, file=sys.stderr)
        return USAGE
    command = error.ctx.command_path if error.ctx else "dra-driver"
    return _failed(f"{text.rstrip('.')}; {command} --help says what there is", USAGE)


def _failed(text: str, code: int) -> int:
    print(printable(f"dra-driver: {text}"), file=sys.stderr)
    return code

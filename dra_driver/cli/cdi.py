"""`dra-driver cdi`: CDI specs as a container runtime sees them.

A runtime that skips a spec, or a device, says only "unresolvable CDI devices"; these commands say why. Exit codes: 1
for what a runtime would refuse, or a claim without a spec; 2 for a file that cannot be read or is no spec, or a UID that is none;
3 for a directory that cannot be read.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dra_driver.cli.sources import STDIN, content
from dra_driver.errors import ClaimError, UnavailableError, UsageError

FINE, FINDINGS = 0, 1
_MAX_BYTES = 16 << 20  # far more than any spec

app = typer.Typer(help="Check and show CDI specs.", rich_markup_mode=None, no_args_is_help=True)


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Spec files; - is standard input.")],
) -> int:
    """Say whether a container runtime would take these CDI specs, and if not, every reason."""
    return FINDINGS if [file for file in files if not _is_valid(file)] else FINE


@app.command()
def show(
    claim_uid: Annotated[
        str, typer.Argument(metavar="CLAIM_UID", help="The UID in the claim's metadata, not its name.")
    ],
    cdi_dir: Annotated[
        list[Path] | None,
        typer.Option(
            help="As the runtime has them, repeatable; the last has the claims. Default: /etc/cdi, /var/run/cdi."
        ),
    ] = None,
    driver_name: Annotated[str, typer.Option(help="The driver that prepared it.")] = "gpu.nvidia.com",
    output: Annotated[str, typer.Option("--output", "-o", help="table, json or yaml.")] = "table",
) -> int:
    """Show what a container of a prepared claim gets, on the node where it was prepared."""
    directories = cdi_dir or [Path("/etc/cdi"), Path("/var/run/cdi")]
    return _show(claim_uid, directories, driver_name, output)


def _is_valid(file: str) -> bool:
    from dra_driver.cdi import registry
    from dra_driver.cdi.validate import validate as problems_of

    try:
        body = registry.parse(content(file, _MAX_BYTES).decode())
    except UnicodeDecodeError:
        print(f"{file}: is no text")
        return False
    except ValueError as error:
        problems = [f"is neither JSON nor YAML: {error}"]
    else:
        problems = [str(problem) for problem in problems_of(body)]
    if file != STDIN and not registry.is_spec_name(file):
        problems.append("its name ends neither in .json nor in .yaml, so that runtimes pass it over")
    for problem in problems:
        print(f"{file}: {problem}")
    if not problems:
        assert isinstance(body, Mapping)
        print(
            f"{file}: fine, {body['kind']} of version {body['cdiVersion']}, devices: {len(body['devices'])}"
        )
    return not problems


def _show(claim_uid: str, directories: Sequence[Path], driver_name: str, output: str) -> int:
    from dra_driver.cdi import registry
    from dra_driver.cdi.store import SpecStore
    from dra_driver.cli.output import STRUCTURED, format_of, rendered

    form = format_of(output)
    store = SpecStore(directories[-1], driver_name)
    try:
        path = store.path(claim_uid)
    except ClaimError as error:
        raise UsageError(str(error)) from error
    body = _read(path)
    if body is None:
        print(
            f"dra-driver: claim {claim_uid} has no spec in {store.directory}; is it prepared on this node, and is this "
            "the UID in its metadata?",
            file=sys.stderr,
        )
        return FINDINGS
    found = registry.load(directories)
    names = [f"{body['kind']}={device['name']}" for device in body["devices"]]
    unresolved = [name for name in names if name not in found.devices or found.devices[name].path != path]
    sys.stdout.write(
        rendered(body, output=form) if form in STRUCTURED else "\n".join(_table(path, body)) + "\n"
    )
    for name in unresolved:
        why = "; ".join(found.problems.get(path, ())) or "another file has it"
        print(f"dra-driver: container runtimes do not find {name}: {why}", file=sys.stderr)
    return FINDINGS if unresolved else FINE


def _read(path: Path) -> Mapping[str, Any] | None:
    """The valid spec of a claim; None where there is none."""
    from dra_driver.cdi.registry import read_spec

    try:
        return read_spec(path)
    except FileNotFoundError:
        if path.parent.is_dir():
            return None
        raise UnavailableError(f"the CDI directory {path.parent} does not exist") from None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"container runtimes skip {path}: {error}") from error


def _table(path: Path, body: Mapping[str, Any]) -> Iterator[str]:
    yield f"{path}, version {body['cdiVersion']}"
    for device in body["devices"]:
        yield f"{body['kind']}={device['name']}"
        yield from _edits(device["containerEdits"])
    yield "with any of them, once"
    yield from _edits(body.get("containerEdits") or {})


def _edits(edits: Mapping[str, Any]) -> Iterator[str]:
    for variable in edits.get("env") or ():
        yield f"  env    {variable}"
    for gid in edits.get("additionalGids") or ():
        yield f"  group  {gid}"
    for node in edits.get("deviceNodes") or ():
        made = f"made as {node['type']} {node['major']}:{node['minor']}" if "major" in node else None
        yield _line("node", node["path"], made or node.get("hostPath"))
    for mount in edits.get("mounts") or ():
        yield _line("mount", mount["containerPath"], mount["hostPath"])
    for hook in edits.get("hooks") or ():
        yield f"  hook   {hook['hookName']}: {' '.join(hook.get('args') or [hook['path']])}"


def _line(what: str, path: str, source: str | None) -> str:
    return f"  {what:<6} {path}" + (f" <- {source}" if source not in {None, path} else "")

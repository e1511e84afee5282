"""NVIDIA's hook program for CDI, where the host has it.

Hooks run on the host before the container's root is entered, so the program must be the host's; the driver image has
none of its own. Its commands grew over the releases of NVIDIA's toolkit, and one that it does not know makes every
container fail. So it is asked first, without being run: the name of a command stands in the program as text. Where
the GPU Operator installs the toolkit, the program is a wrapper of the one beside it that ends in `.real`, so that one is
asked; a spec has the wrapper, which sets the PATH that the program needs there.
"""

import os
from dataclasses import dataclass

import structlog

from dra_driver.cdi.look import Look
from dra_driver.cdi.spec import Hook

log = structlog.get_logger(__name__)

# The toolkit's package, and the GPU Operator's copy of it.
PLACES = ("/usr/bin/nvidia-cdi-hook", "/usr/local/nvidia/toolkit/nvidia-cdi-hook")
_WRAPPED = ".real"
_NEEDED = ("create-symlinks", "update-ldcache")
_WELCOME = ("enable-cuda-compat", "disable-device-node-modification", "update-application-profile")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class HookProgram:
    """The program at `path` on the host, and which of the commands that we use it has."""

    path: str
    files: tuple[str, ...]  # what this was read from, under the root that was looked at, all links followed
    commands: frozenset[str]

    def hook(self, command: str, *arguments: str) -> Hook:
        args = ("nvidia-cdi-hook", command, *arguments)
        return Hook("createContainer", self.path, args, env=("NVIDIA_CTK_DEBUG=false",))


def find_hook(look: Look, path: str | None) -> HookProgram | None:
    """The program at `path`, or in its usual places; None where there is none that we can use."""
    for place in (path,) if path else PLACES:
        real = look.content(place)
        if real is None:
            continue
        wrapped = look.content(f"{real}{_WRAPPED}")
        files = (real,) if wrapped is None else (real, wrapped)
        try:
            is_program = all(os.stat(look.local_path(file)).st_mode & 0o111 for file in files)  # noqa: PTH116 - paths are strings here
            commands = _commands(look.local_path(files[-1]))
        except OSError as error:
            log.warning("hook program cannot be read", path=place, err=error.strerror)
            continue
        if not is_program:
            log.warning("hook program cannot be run: its mode does not allow it", path=place)
        elif commands.issuperset(_NEEDED):
            return HookProgram(look.host_path(place), files, commands)
        else:
            log.warning("hook program is too old", path=place, lacks=sorted(set(_NEEDED) - commands))
    if path:
        log.warning("no hook program to use; going on without hooks", path=path)
    return None


def _commands(path: str) -> frozenset[str]:
    """Those of our commands whose names stand in the file."""
    wanted = {name.encode() for name in (*_NEEDED, *_WELCOME)}
    longest = max(map(len, wanted))
    found: set[bytes] = set()
    tail = b""
    with open(path, "rb") as file:  # noqa: PTH123 - paths are strings here
        while chunk := file.read(_CHUNK):
            text = tail + chunk
            found |= {name for name in wanted - found if name in text}
            tail = text[-longest:]
    return frozenset(name.decode() for name in found)

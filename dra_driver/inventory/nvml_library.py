"""Where libnvidia-ml.so.1 is: the host, a driver container, GKE's or Talos' own places.

pynvml loads the library by its bare name, which finds it only where the driver is installed into the
plugin's own file system. In a DaemonSet it is under a driver root: `/` for a host install,
`/run/nvidia/driver` for a driver container, `/home/kubernetes/bin/nvidia` on GKE. So it is looked for here,
by path, and preloaded.

Symlinks are followed inside the root, as the driver's own processes see them: an absolute link in
`/run/nvidia/driver` means a file of that root, not of the plugin. The search is repeated before every try to
open a session, since a driver container brings the files up late, and takes them away for an upgrade.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from dra_driver.errors import UnavailableError, one_line
from dra_driver.inventory.nvml_api import NvmlModule

log = structlog.get_logger(__name__)

LIBRARY = "libnvidia-ml.so.1"

# By distribution: RHEL and SUSE, Debian and Ubuntu (with the packages' own directory), merged and unmerged
# /usr, WSL2, NixOS, Talos, GKE and flat roots.
LIBRARY_DIRECTORIES = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib",
    "lib",
    "usr/lib/wsl/lib",
    "usr/lib/wsl/drivers/*",
    "run/opengl-driver/lib",
    "glibc/usr/lib",
    ".",
)
_KNOWN_ROOTS = (".", "run/nvidia/driver", "home/kubernetes/bin/nvidia", "usr/local")
_VERSIONED = re.compile(r"^libnvidia-ml\.so\.\d+\.\d+")
_MAX_LINKS = 40  # the kernel's own limit


@dataclass(frozen=True, slots=True)
class Library:
    """A file that may be NVML, and the driver root it belongs to."""

    path: Path
    root: Path


def known_roots(host: Path = Path("/")) -> tuple[Path, ...]:
    """The driver roots that are tried where none is given."""
    return tuple(host / root for root in _KNOWN_ROOTS)


def find_libraries(roots: Sequence[Path]) -> Iterator[Library]:
    """Every candidate under `roots`, best first; nothing is loaded, and unreadable places are passed over."""
    seen: set[Path] = set()
    for root in roots:
        for directory in LIBRARY_DIRECTORIES:
            for path in _in_directory(root, directory):
                if path not in seen:
                    seen.add(path)
                    yield Library(path, root)


def _in_directory(root: Path, pattern: str) -> Iterator[Path]:
    try:
        directories = sorted(root.glob(pattern)) if "*" in pattern else [root / pattern]
        for directory in directories:
            inside = resolve_in_root(root, directory)
            if not inside.is_dir():
                continue
            # Roots that were assembled by hand may lack the link that ldconfig makes.
            names = [LIBRARY, *sorted(name for name in os.listdir(inside) if _VERSIONED.match(name))]  # noqa: PTH208 - names, not paths
            for name in names:
                path = resolve_in_root(root, inside / name)
                if path.is_file():
                    yield path
    except OSError:  # no permission, a loop of links, gone meanwhile: not a place with a library
        return


def resolve_in_root(root: Path, path: Path) -> Path:
    """`path`, which lies under `root`, with its symlinks followed as a process chrooted to `root` would.

    A path that does not exist is returned as far as it goes; OSError (ELOOP) where links go in circles.
    """
    pending = list(reversed(path.relative_to(root).parts))
    current, links = root, 0
    while pending:
        part = pending.pop()
        if part == "..":
            current = current if current == root else current.parent
            continue
        step = current / part
        if not step.is_symlink():
            current = step
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = step.readlink()
        if target.is_absolute():
            current = root
        pending.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
    return current


def _not_found(roots: Sequence[Path]) -> str:
    """The sentence for a node where no root has the library."""
    places = ", ".join(str(root) for root in roots)
    return (
        f"{LIBRARY} was not found under {places} (in {', '.join(LIBRARY_DIRECTORIES)}): "
        "install the NVIDIA driver on this node, or set --driver-root to where it is"
    )


class Loader:
    """Has pynvml use the library that is installed now."""

    def __init__(self, nvml: NvmlModule, roots: Sequence[Path], open_library: Callable[[str], Any]) -> None:
        self._nvml, self._roots, self._open_library = nvml, roots, open_library
        self.loaded: Library | None = None

    def load(self) -> Library:
        """The library in use from now on; UnavailableError names the places where none was found.

        Another file than last time (an upgrade of the driver) is loaded beside the old one.
        """
        refusals: list[str] = []
        for library in self._candidates():
            if library == self.loaded:
                return library
            try:
                if library.path.is_absolute():
                    # A file that hangs does so here: dlopen would keep the interpreter, and let no thread start.
                    library.path.open("rb").close()
                opened = self._open_library(str(library.path))
            except OSError as error:  # made for another architecture, or not there
                if library.path.is_absolute():
                    refusals.append(f"{library.path} ({one_line(error)})")
                continue
            self._nvml.nvmlLib = opened
            # Its functions are looked up once, and would stay those of the library before.
            self._nvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - pynvml has no other way to change libraries
            self.loaded = library
            log.info("nvml library loaded", library=str(library.path))
            return library
        if refusals:
            msg = f"no NVML library could be loaded, tried {', '.join(refusals)}: install the driver for this machine"
            raise UnavailableError(msg)
        raise UnavailableError(_not_found(self._roots))

    def _candidates(self) -> Iterator[Library]:
        yield from find_libraries(self._roots)
        if Path("/") in self._roots:  # what the dynamic loader knows beyond our list
            yield Library(Path(LIBRARY), Path("/"))

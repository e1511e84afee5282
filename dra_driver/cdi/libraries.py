"""The driver's libraries under a root: all of its version, with the names that programs know them by.

A driver's libraries end in its version, `libcuda.so.580.95.05`, whatever the distribution puts them into. They are
looked for in the well-known directories, in those where the dynamic loader's cache has libcuda or libnvidia-ml, and in
those where links to these two lead: Debian has each driver in a directory of its own. The version is that of the loaded
kernel module, for two may be installed, and libraries of the other one do nothing but say "driver/library version
mismatch". Where no kernel module says (the plugin does not see the host's /sys) it is the one that `libcuda.so.1`, or
else `libnvidia-ml.so.1`, leads to.

A library that cannot be read, or is for another machine than the node, is left out. Only libcuda and libnvidia-ml are
missed by every container, so their absence is the caller's to tell.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from dra_driver.cdi import ldcache
from dra_driver.cdi.elf import Machine, read_elf
from dra_driver.cdi.look import Look
from dra_driver.inventory.nvml_library import LIBRARY_DIRECTORIES

log = structlog.get_logger(__name__)

REQUIRED = ("libcuda", "libnvidia-ml")
DIRECTORIES = tuple(f"/{path}" for path in LIBRARY_DIRECTORIES if "*" not in path and "wsl" not in path)
LD_CACHE = "/etc/ld.so.cache"
_MAX_CACHE_BYTES = 1 << 26
_LINKS = tuple(f"{stem}.so.1" for stem in REQUIRED)
_SUBDIRECTORIES = ("", "vdpau/")
# Parts of the driver with versions of their own.
_OF_OTHER_VERSIONS = re.compile(
    r"libnvidia-(?:egl-(?:gbm|wayland2?|xcb|xlib)|nvvm70|api)\.so\.\d+(?:\.\d+)*", re.ASCII
)
# Names that programs open, and that no soname gives; upstream makes them whether the host has them or not.
_ALWAYS_PLAIN = frozenset({"libcuda", "libnvidia-opticalflow", "libnvidia-vulkan-producer"})
_EXTRA_NAMES = {
    "libGLX_nvidia": ("libGLX_indirect.so.0",),  # what libGLX asks for when the X server is elsewhere
    "libnvidia-allocator": ("gbm/nvidia-drm_gbm.so",),  # the GBM backend, by the driver's name
}
_VERSION = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)", re.ASCII)
# Sonames are bytes of a file, as names of files are, and become paths in a container.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Library:
    """A library. `names` are all that containers shall find it by, relative to its directory, its file's first."""

    host_path: str  # of the file itself, on the host
    directory: str  # where it stands in the driver root, "/usr/lib64"
    names: tuple[str, ...]  # "libcuda.so.580.95.05", "libcuda.so.1", "libcuda.so"
    machine: Machine

    @property
    def path(self) -> str:
        """In the driver root."""
        return f"{self.directory}/{self.names[0]}"

    @property
    def stem(self) -> str:
        return _stem(self.names[0])


@dataclass(frozen=True, slots=True)
class Libraries:
    """All libraries of one driver."""

    version: str | None  # None: there is none, or several and nothing that tells which one counts
    found: tuple[Library, ...] = ()
    versions: tuple[str, ...] = ()  # all that there are
    # Why a file of the driver is left out, by its path.
    problems: dict[str, str] = field(default_factory=dict)

    def missing(self) -> tuple[str, ...]:
        """The required libraries that are not there, by file name."""
        stems = {library.stem for library in self.found}
        return tuple(f"{stem}.so.{self.version or '<version>'}" for stem in REQUIRED if stem not in stems)


def find_libraries(look: Look, kernel_version: str | None) -> Libraries:
    """The libraries under the root that is looked at, for the kernel module of that version, where it is known."""
    directories = list(_directories(look))
    names = {name for directory in directories for name in look.names(f"{directory}/")}
    versions = sorted({match[1] for name in names if (match := _VERSION.fullmatch(name))})
    version = kernel_version or _version_in_use(look, directories, versions)
    problems: dict[str, str] = {}
    libraries = [
        library
        for directory in directories
        for subdirectory in _SUBDIRECTORIES
        for library in _in_directory(look, directory, subdirectory, version, problems)
    ]
    machine = _machine(libraries)
    found: dict[str, Library] = {}
    for library in libraries:
        if library.machine is machine:
            found.setdefault(library.names[:2][-1], library)  # of those with one soname, the first
        else:
            problems[library.path] = f"it is for {library.machine.name.lower()}"
    return Libraries(version, tuple(found.values()), tuple(versions), problems)


def _machine(libraries: Sequence[Library]) -> Machine | None:
    """The node's own, if there is a library for it; a simulated node may be of another machine."""
    own = os.uname().machine.upper()
    machines = [library.machine for library in libraries]
    return next((machine for machine in machines if machine.name == own), machines[0] if machines else None)


def _is_drivers(name: str, version: str | None) -> bool:
    if version is not None and name.endswith(f".so.{version}"):
        return _NAME.fullmatch(name) is not None
    return _OF_OTHER_VERSIONS.fullmatch(name) is not None and not _is_short(name)


def _is_short(name: str) -> bool:
    """Whether this is but a link's name: `libnvidia-egl-gbm.so.1` of `libnvidia-egl-gbm.so.1.1.2`."""
    return name.startswith("libnvidia-egl-") and name.rpartition(".so.")[2].isdigit()


def _directories(look: Look) -> Iterator[str]:
    """Every directory with libraries once, by the first of its names."""
    seen: set[str] = set()
    for directory in (*DIRECTORIES, *_cached_directories(look)):
        for place in (directory, *_behind_links(look, directory)):
            real = look.directory(place)
            if real is not None and real not in seen:
                seen.add(real)
                yield "" if place == "/." else place


def _behind_links(look: Look, directory: str) -> Iterator[str]:
    for name in _LINKS:
        real = look.file(f"{directory}/{name}")
        if real is not None:
            yield real.rpartition("/")[0] or "/."


def _cached_directories(look: Look) -> Iterator[str]:
    real = look.content(LD_CACHE)
    if real is None:
        return
    try:
        with open(look.local_path(real), "rb") as file:  # noqa: PTH123 - paths are strings here
            cache = ldcache.parse(file.read(_MAX_CACHE_BYTES))
    except OSError as error:
        cache = ldcache.LibraryCache(problem=error.strerror)
    if cache.problem is not None:
        log.warning("loader cache passed over", path=look.host_path(real), err=cache.problem)
    for name in _LINKS:
        for path in cache.paths(name):
            if path.startswith("/"):
                yield path.rpartition("/")[0] or "/."


def _version_in_use(look: Look, directories: list[str], versions: list[str]) -> str | None:
    for stem in REQUIRED:
        for directory in directories:
            real = look.file(f"{directory}/{stem}.so.1")
            match = _VERSION.fullmatch(real.rpartition("/")[2]) if real else None
            if match:
                return match[1]
    return versions[0] if len(versions) == 1 else None


def _in_directory(
    look: Look, directory: str, subdirectory: str, version: str | None, problems: dict[str, str]
) -> Iterator[Library]:
    names = look.names(f"{directory}/{subdirectory}")
    for name in sorted(names):
        if not _is_drivers(name, version):
            continue
        path = f"{directory}/{subdirectory}{name}"
        real = look.content(path)  # it may be copied into place at this moment, which no directory tells
        if real is None:
            problems[path] = "it leads to no file"
            continue
        try:
            elf = read_elf(look.local_path(real))
        except ValueError as error:
            problems[path] = str(error)
        except OSError as error:
            problems[path] = f"it cannot be read ({error.strerror})"
        else:
            if not _is_passed_over(look, path, real, elf.soname):
                known_by = dict.fromkeys(subdirectory + known for known in _names(name, elf.soname, names))
                yield Library(look.host_path(real), directory, tuple(known_by), elf.machine)


def _is_passed_over(look: Look, path: str, real: str, soname: str | None) -> bool:
    """Whether this is a part with a version of its own that another version, which the link leads to, has replaced."""
    directory, _, name = path.rpartition("/")
    linked = soname and _OF_OTHER_VERSIONS.fullmatch(name) and look.file(f"{directory}/{soname}")
    return bool(linked) and linked != real


def _names(name: str, soname: str | None, siblings: frozenset[str]) -> Iterator[str]:
    """What a library is known by, in its directory."""
    stem = _stem(name)
    plain = f"{stem}.so"
    yield name
    if soname is not None and _NAME.fullmatch(soname):
        yield soname
    if plain in siblings or stem in _ALWAYS_PLAIN:
        yield plain
    yield from _EXTRA_NAMES.get(stem, ())


def _stem(name: str) -> str:
    return name.rpartition("/")[2].partition(".so")[0]

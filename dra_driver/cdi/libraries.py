"""The driver's libraries under a root: all of its version, with the names that programs know them by.

A driver's libraries end in its version, `libcuda.so.580.95.05`, whatever the distribution puts them into. They are
looked for in the well-known directories, in those where the dynamic loader's cache has libcuda or libnvidia-ml, and in
those where links to these two lead: Debian has each driver in a directory of its own. The version is that of the loaded kernel module, for two may be installed, and libraries of the other
one do nothing but say "driver/library version mismatch". Where no kernel module says (the plugin does not see the
host's /sys) it is the one that `libcuda.so.1`, or else `libnvidia-ml.so.1`, leads to.

A library that cannot be read, or is for another machine, is left out. Only libcuda and libnvidia-ml are missed by
every container, so their absence is the caller's to tell.
"""

import re
from collections.abc import Iterator
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
_LINKS = tuple(f"{stem}.so.1" for stem in REQUIRED)
_SUBDIRECTORIES = ("", "vdpau/")
# Parts of the driver with versions of their own.
_OF_OTHER_VERSIONS = re.compile(
    r"libnvidia-(?:egl-(?:gbm|wayland2?|xcb|xlib)|nvvm70|api)\.so\.\d+(?:\.\d+)*", re.ASCII
)
# Names that programs open, and that no soname gives; upstream makes them whether the host has them or not.
_ALWAYS_PLAIN = frozenset({"libcuda", "libnvidia-opticalflow"})
_EXTRA_NAMES = {
    "libGLX_nvidia": ("libGLX_indirect.so.0",),  # what libGLX asks for when the X server is elsewhere
    "libnvidia-allocator": ("gbm/nvidia-drm_gbm.so",),  # the GBM backend, by the driver's name
}
_VERSION = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)", re.ASCII)
# Sonames are bytes of a file, and become paths in a container.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Library:
    """A library. `names` are all that containers shall find it by, relative to its directory, its file's first."""

    host_path: str  # of the file itself, on the host
    directory: str  # where it stands in the driver root, "/usr/lib64"
    names: tuple[str, ...]  # "libcuda.so.580.95.05", "libcuda.so.1", "libcuda.so"
    machine: Machine

    @property
    def stem(self) -> str:
        return _stem(self.names[0])


@dataclass(frozen=True, slots=True)
class Libraries:
    """All libraries of one driver."""

    version: str | None  # None: there is none, or several and nothing that tells which one counts
    found: tuple[Library, ...] = ()
    versions: tuple[str, ...] = ()  # all that there are
    problems: dict[str, str] = field(
        default_factory=dict
    )  # why a file of the driver is left out, by its path

    def missing(self) -> tuple[str, ...]:
        """The required libraries that are not there, by file name."""
        stems = {library.stem for library in self.found}
        return tuple(f"{stem}.so.{self.version or '<version>'}" for stem in REQUIRED if stem not in stems)


def find_libraries(look: Look, kernel_version: str | None) -> Libraries:
    """The libraries under the root that is looked at, for the kernel module of that version, where it is known."""
    directories = list(_directories(look))
    listings = {
        directory + subdirectory: look.names(f"{directory}/{subdirectory}")
        for directory in directories
        for subdirectory in _SUBDIRECTORIES
    }
    versions = sorted(
        {m[1] for names in listings.values() for name in names if (m := _VERSION.fullmatch(name))}
    )
    version = kernel_version or _version_in_use(look, directories, versions)
    problems: dict[str, str] = {}
    found: dict[str, Library] = {}
    for directory in directories:
        for subdirectory in _SUBDIRECTORIES:
            names = listings[directory + subdirectory]
            for name in sorted(names):
                if not _is_drivers(name, version) or subdirectory + name in found:
                    continue
                library = _library(look, directory, subdirectory, name, names, problems)
                if library is not None:
                    found[subdirectory + name] = library
    return Libraries(version, tuple(found.values()), tuple(versions), problems)


def _is_drivers(name: str, version: str | None) -> bool:
    if version is not None and name.endswith(f".so.{version}"):
        return True
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
            cache = ldcache.parse(file.read())
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


def _library(
    look: Look,
    directory: str,
    subdirectory: str,
    name: str,
    siblings: frozenset[str],
    problems: dict[str, str],
) -> Library | None:
    path = f"{directory}/{subdirectory}{name}"
    real = look.file(path)
    if real is None:
        problems[path] = "it leads to no file"
        return None
    try:
        elf = read_elf(look.local_path(real))
    except ValueError as error:
        problems[path] = str(error)
        return None
    except OSError as error:
        problems[path] = f"it cannot be read ({error.strerror})"
        return None
    stem = _stem(name)
    names = [name]
    if elf.soname is not None and _NAME.fullmatch(elf.soname):
        names.append(elf.soname)
    plain = f"{stem}.so"
    if plain in siblings or stem in _ALWAYS_PLAIN:
        names.append(plain)
    names += _EXTRA_NAMES.get(stem, ())
    unique = dict.fromkeys(subdirectory + name for name in names)
    return Library(look.host_path(real), directory, tuple(unique), elf.machine)


def _stem(name: str) -> str:
    return name.rpartition("/")[2].partition(".so")[0]

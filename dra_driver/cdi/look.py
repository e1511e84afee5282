# ruff: noqa: PTH115, PTH116, PTH208 - paths are strings: pathlib would make a Prepare half as slow again
"""A look at the files under a root, which remembers all that it saw.

What is made of a driver's files is kept from one Prepare to the next, and must not outlive them: drivers come
late, are upgraded under the plugin, and half an installation looks like a whole one of fewer files. So every
directory, link and file that was asked for is noted, present or not, and `same` asks for all of them again.
That costs some hundred lstat calls, a fifth of a millisecond, and needs no rule about which files matter.

Links are followed inside the root, as the driver's own processes see them: an absolute link in
`/run/nvidia/driver` means a file of that root. Whatever is in the way (loops, no permission, a link to
nothing) is "not there"; the caller says what it missed.

Paths are strings that start with a slash and mean the root; nothing above it can be reached.
"""

import os
import stat
import time
from collections.abc import Callable

from dra_driver.cdi.root import Root

_MAX_LINKS = 40  # the kernel's own limit
# Kernels stamp files with the time of the last tick, so that a second change within one leaves no trace.
_SETTLED_NANOSECONDS = 50_000_000

_Sight = tuple[int, ...] | None


class Look:
    """One look at `root`. Not thread-safe while it is made; `same` is."""

    def __init__(self, root: Root, *, now: Callable[[], int] = time.time_ns) -> None:
        self.root = root
        self._now = now
        self._local = str(root.local).rstrip("/")
        self._seen: dict[str, _Sight] = {}
        self._listed: dict[str, int] = {}
        self._settled = True

    def real(self, path: str) -> str | None:
        """`path` with all its links followed; None where that leads nowhere."""
        pending = _parts(path)
        done: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                del done[-1:]
                continue
            here = f"/{'/'.join([*done, part])}"
            sight = self._look_at(here)
            if sight is None:
                return None
            if not stat.S_ISLNK(sight[0]):
                done.append(part)
                continue
            links += 1
            target = self._target(here)
            if target is None or links > _MAX_LINKS:
                return None
            if target.startswith("/"):
                done.clear()
            pending += _parts(target)
        return f"/{'/'.join(done)}"

    def file(self, path: str) -> str | None:
        """The real path of a regular file; None where there is no such file."""
        return self._of_type(path, stat.S_ISREG)

    def directory(self, path: str) -> str | None:
        return self._of_type(path, stat.S_ISDIR)

    def socket(self, path: str) -> str | None:
        return self._of_type(path, stat.S_ISSOCK)

    def names(self, path: str) -> frozenset[str]:
        """What is in a directory; nothing where there is no such directory, or it may not be read."""
        real = self.directory(path)
        if real is None:
            return frozenset()
        local = self._local + real
        try:
            changed = os.stat(local).st_mtime_ns
            names = frozenset(os.listdir(local))
        except OSError:
            return frozenset()
        self._listed[local] = changed
        self._settled &= abs(self._now() - changed) > _SETTLED_NANOSECONDS
        return names

    def local_path(self, real: str) -> str:
        """Where the plugin finds a path that one of the methods above gave."""
        return self._local + real

    def host_path(self, real: str) -> str:
        """What the host calls it."""
        return self.root.host_path(real)

    def same(self) -> bool:
        """Whether another look would see the same."""
        if not self._settled:
            return False
        try:
            return all(_sight(path) == sight for path, sight in self._seen.items()) and all(
                os.stat(path).st_mtime_ns == changed for path, changed in self._listed.items()
            )
        except OSError:  # a directory went between the two
            return False

    def _of_type(self, path: str, is_type: Callable[[int], bool]) -> str | None:
        real = self.real(path)
        if real is None:
            return None
        sight = self._look_at(real)
        return real if sight is not None and is_type(sight[0]) else None

    def _look_at(self, path: str) -> _Sight:
        local = self._local + (path if path != "/" else "")
        if local not in self._seen:
            self._seen[local] = _sight(local or "/")
        return self._seen[local]

    def _target(self, path: str) -> str | None:
        try:
            return os.readlink(self._local + path)
        except OSError:  # it went, or was replaced, meanwhile
            self._settled = False
            return None


def _parts(path: str) -> list[str]:
    """The parts of a path, last one first."""
    return [part for part in reversed(path.split("/")) if part not in {"", "."}]


def _sight(path: str) -> _Sight:
    """What identifies a file; of a directory not its time, which says nothing of the one file that is wanted."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    mode = found.st_mode
    if stat.S_ISREG(mode):
        return mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return mode, found.st_dev, found.st_ino

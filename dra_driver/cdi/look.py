# ruff: noqa: PTH115, PTH116, PTH208 - paths are strings: pathlib would make a Prepare half as slow again
"""A look at the files under a root, which knows whether it would see the same again.

What is made of a driver's files is kept from one Prepare to the next, and must not outlive them: drivers come
late, are upgraded under the plugin, and half an installation looks like a whole one of fewer files. So whatever was
asked for, present or not, is covered by the time of the last change of the directory that it is in, or would be;
`same` asks for these times again, two dozen system calls, and needs no rule about which files matter; `is_same` asks
for one directory. Where directories change all the time (/run, /tmp) it asks for the files themselves.

Links are followed inside the root, as the driver's own processes see them: an absolute link in
`/run/nvidia/driver` means a file of that root. Whatever is in the way (loops, no permission, a link to
nothing) is "not there"; the caller says what it missed.

Paths are strings that start with a slash and mean the root; nothing above it can be reached. A path that no spec can
say, since it is no text or beyond what the runtimes' YAML has escapes for, leads to nothing.
"""

import os
import re
import stat
import time
from collections.abc import Callable

from dra_driver.cdi.root import Root

_MAX_LINKS = 40  # the kernel's own limit
# Kernels stamp changes with the time of the last tick, so that a second change within one leaves no trace.
_SETTLED_NANOSECONDS = 50_000_000
_BUSY = frozenset({"/run", "/tmp", "/var/run"})

_UNSAYABLE = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")

_Sight = tuple[int, ...] | None


class Look:
    """One look at `root`. Not thread-safe while it is made; `same` is."""

    def __init__(self, root: Root, *, now: Callable[[], int] = time.time_ns) -> None:
        self.root = root
        self._now = now
        self._local = str(root.local).rstrip("/")
        self._seen: dict[str, _Sight] = {}
        # And when they were changed, before anything in them was seen.
        self._directories: dict[str, _Sight] = {}
        self._files: dict[str, _Sight] = {}
        self._settled = True

    def real(self, path: str) -> str | None:
        """`path` with all its links followed; None where that leads nowhere."""
        if _UNSAYABLE.search(path):
            return None
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
            if target is None or links > _MAX_LINKS or _UNSAYABLE.search(target):
                return None
            if target.startswith("/"):
                done.clear()
            pending += _parts(target)
        return f"/{'/'.join(done)}"

    def file(self, path: str) -> str | None:
        """The real path of a regular file; None where there is no such file."""
        return self._of_type(path, stat.S_ISREG)

    def content(self, path: str) -> str | None:
        """As `file`, where what is in the file matters: it may be written over in place."""
        real = self.file(path)
        if real is not None:
            local = self._local + real
            self._files[local] = _sight(local)
        return real

    def directory(self, path: str) -> str | None:
        return self._of_type(path, stat.S_ISDIR)

    def socket(self, path: str) -> str | None:
        return self._of_type(path, stat.S_ISSOCK)

    def names(self, path: str) -> frozenset[str]:
        """What is in a directory; nothing where there is no such directory, or it may not be read."""
        real = self.directory(path)
        if real is None:
            return frozenset()
        self._watch(self._local + real)
        try:
            return frozenset(os.listdir(self._local + real))
        except OSError:
            return frozenset()

    def local_path(self, real: str) -> str:
        """Where the plugin finds a path that one of the methods above gave."""
        return self._local + real

    def host_path(self, real: str) -> str:
        """What the host calls it."""
        return self.root.host_path(real)

    def same(self) -> bool:
        """Whether another look would see the same."""
        return (
            self._settled
            and all(_change(path) == change for path, change in self._directories.items())
            and all(_sight(path) == sight for path, sight in self._files.items())
        )

    def is_same(self, directory: str) -> bool:
        """Whether this real directory, which was looked into, is as it was."""
        local = self._local + directory
        return self._settled and _change(local) == self._directories.get(local)

    def is_same_file(self, real: str) -> bool:
        """Whether this file, whose `content` mattered, is as it was."""
        local = self._local + real
        return _sight(local) == self._files.get(local)

    def _of_type(self, path: str, is_type: Callable[[int], bool]) -> str | None:
        real = self.real(path)
        if real is None:
            return None
        sight = self._look_at(real)
        return real if sight is not None and is_type(sight[0]) else None

    def _look_at(self, path: str) -> _Sight:
        if path not in self._seen:
            parent = path.rpartition("/")[0]
            local = self._local + path
            if parent in _BUSY:
                self._files[local] = self._seen[path] = _sight(local)
            else:
                self._watch(self._local + parent)
                self._seen[path] = _sight(local)
        return self._seen[path]

    def _watch(self, local: str) -> None:
        local = local or "/"
        if local in self._directories:
            return
        change = self._directories[local] = _change(local)
        if change is not None:
            self._settled &= abs(self._now() - change[-1]) > _SETTLED_NANOSECONDS

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
    """What a file is; of a directory no time, which says nothing of the one file in it that is wanted."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return found.st_mode, found.st_dev, found.st_ino
    return found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _change(directory: str) -> _Sight:
    """Which directory it is, and when it was changed last: not its mtime, which unpackers set back."""
    try:
        found = os.stat(directory)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns

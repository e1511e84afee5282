# ruff: noqa: PTH104, PTH108, PTH120, PTH123 - paths may be strings, as AnyPath says
"""Files that must survive a crash: written whole or not at all, and locked by one process.

`write_atomic` is the way this project writes state: a temporary file in the same directory, fsync,
rename, fsync of the directory. A reader, or the next start after a power cut, sees the old content or the
new one. Temporary names start with a dot and end in `.tmp`: container runtimes watch the CDI directory for
`*.json` and `*.yaml`, and a left-over of a killed process is recognised by `is_temporary`.
"""

import contextlib
import fcntl
import itertools
import os
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from dra_driver.errors import UnavailableError, UsageError

_PREFIX, _SUFFIX = ".dra-", ".tmp"
_OWN_MODE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_numbers = itertools.count()

AnyPath = str | Path
"""What a Prepare names its files by is a string: making a Path of it takes as long as a write."""


def write_atomic(path: AnyPath, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """Replace `path` by `data`; OSError leaves the old file. `sync=False` is for files on tmpfs."""
    fd, name = _create_temporary(os.fspath(path))
    try:
        _fill(fd, data, mode, sync=sync)
        os.rename(name, path)
    except BaseException:
        _unlink(name)
        raise
    if sync:
        sync_directory(os.path.dirname(path))


def write_new(path: AnyPath, data: bytes, *, mode: int = 0o600) -> bool:
    """Make a file that nobody looks at before this call is over; False, and no change, where there is one.

    A process that is killed in between leaves half a file, so this is for files that count only once another tells
    of them. It saves a rename, with which a Prepare would wait for the interpreter once more.
    """
    try:
        fd = os.open(path, _NEW, _OWN_MODE)
    except FileExistsError:
        return False
    try:
        _fill(fd, data, mode, sync=False)
    except BaseException:
        _unlink(path)
        raise
    return True


def _create_temporary(path: str) -> tuple[int, str]:
    """A new file beside `path`. Its name need not be secret, so it is made without tempfile's random numbers,
    which cost a Prepare a tenth of its time.
    """
    directory, _, file = path.rpartition("/")
    while True:
        name = f"{directory or '.'}/{_PREFIX}{file}-{os.getpid():x}-{next(_numbers):x}{_SUFFIX}"
        try:
            return os.open(name, _NEW, _OWN_MODE), name
        except FileExistsError:  # of a killed process that had our number
            continue


def _fill(fd: int, data: bytes, mode: int, *, sync: bool) -> None:
    try:
        if mode != _OWN_MODE:
            os.fchmod(fd, mode)  # whatever the umask
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def _unlink(path: AnyPath) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def read(path: AnyPath) -> bytes | None:
    """What is in a file; None where there is none, or it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with open(fd, "rb") as file:
            return file.read()
    except OSError:
        return None


def remove(path: AnyPath, *, sync: bool = True) -> bool:
    """Delete `path`, durably; False where it was not there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    if sync:
        sync_directory(os.path.dirname(path))
    return True


def sync_directory(path: AnyPath) -> None:
    """Make renames and removals inside `path` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_temporary(name: str, of: str = "") -> bool:
    """Whether `name` is a left-over of an interrupted `write_atomic` of a file whose name starts with `of`.

    In a directory that others use too, `of` keeps us from a file that they are writing right now.
    """
    return name.startswith(_PREFIX + of) and name.endswith(_SUFFIX)


class Files(Protocol):
    """How state is written: this module itself, or what a test puts in its place to stop between two writes."""

    def write_atomic(self, path: AnyPath, data: bytes, *, mode: int = ..., sync: bool = ...) -> None: ...

    def write_new(self, path: AnyPath, data: bytes, *, mode: int = ...) -> bool: ...

    def remove(self, path: AnyPath, *, sync: bool = ...) -> bool: ...


class Lock:
    """An exclusive lock on a file, held while the process lives; the kernel drops it with the process.

    The holder's process id is written into the file, for the message the second process gets.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self, purpose: str) -> Self:
        """Take the lock at once, or raise UsageError that names the holder and `purpose`.

        UnavailableError where the file cannot be opened.
        """
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnavailableError(f"cannot open the lock {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            msg = f"{purpose} runs already: process {holder} holds {self.path}; stop that one first"
            raise UsageError(msg) from None
        except OSError as error:
            os.close(fd)
            raise UnavailableError(f"cannot lock {self.path}: {error.strerror}") from error
        self._fd = fd
        with contextlib.suppress(OSError):  # on a full disk, which must not keep Pods from ending
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())
        return self

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

"""The system calls that a daemon's surroundings need, of which Python has none before 3.12, or none at all."""

import ctypes
import os
import signal
from pathlib import Path

_NEW_NAMESPACE = 0x00020000  # CLONE_NEWNS
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _SLAVE = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x80000  # MS_*
_DETACH = 2  # MNT_DETACH
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG

_libc = ctypes.CDLL(None, use_errno=True)


def mount_tmpfs(path: Path, size: int) -> None:
    """A tmpfs of at most `size` bytes at `path`; OSError where that is not allowed."""
    _mount(b"tmpfs", path, b"tmpfs", _NOSUID | _NODEV | _NOEXEC, f"mode=1777,size={size}".encode())


def bind(source: Path, path: Path) -> None:
    _mount(bytes(source), path, b"", _BIND, b"")


def unmount(path: Path) -> None:
    """Take away whatever is mounted at `path`, also while it is used; no error where nothing is."""
    while path.is_mount():
        _check(_libc.umount2(bytes(path), _DETACH), path)


def own_mounts() -> None:
    """What this process mounts from now on is seen by it and its children alone."""
    _check(_libc.unshare(_NEW_NAMESPACE), Path("/"))
    _mount(b"none", Path("/"), b"", _REC | _SLAVE, b"")


def die_with(parent: int) -> None:
    """Be killed when the thread ends that has started this process, which is one of the process `parent`."""
    _check(_libc.prctl(_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0), Path("/"))
    if os.getppid() != parent:  # it has ended already, and no signal comes for that
        os.kill(os.getpid(), signal.SIGKILL)


def _mount(source: bytes, path: Path, kind: bytes, flags: int, data: bytes) -> None:
    _check(_libc.mount(source, bytes(path), kind, ctypes.c_ulong(flags), data), path)


def _check(result: int, path: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))

"""A process that has no file descriptor left for a moment."""

import errno
import socket
import time

import pytest


def fail_first_accept(monkeypatch: pytest.MonkeyPatch, address: int | str) -> list[float]:
    """Have the next accept at a port or path fail; the times of it and of those that follow come into the list."""
    accept = socket.socket.accept
    tried: list[float] = []

    def exhausted(listening: socket.socket) -> object:
        name = listening.getsockname()
        if address not in (
            name if isinstance(name, tuple) else (name,)
        ):  # others in this process accept as well
            return accept(listening)
        tried.append(time.monotonic())
        if len(tried) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", exhausted)
    return tried

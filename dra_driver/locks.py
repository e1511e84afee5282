"""Who goes first.

`Locks` has one lock per name, so that what is about one claim, or one GPU, comes one after the other and others don't wait.
`Turn` keeps threads from getting in each other's way where nothing would be wrong if they did.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Locks:
    """Locks that exist while somebody holds or awaits them."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # guards _locks; never held while a claim's lock is awaited
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        with self._mutex:
            lock, users = self._locks.get(name) or (threading.Lock(), 0)
            self._locks[name] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._mutex:
                lock, users = self._locks[name]
                if users == 1:
                    del self._locks[name]
                else:
                    self._locks[name] = (lock, users - 1)

    def is_held(self, name: str) -> bool:
        """Whether somebody holds the lock right now."""
        return name in self._locks

    def __len__(self) -> int:
        return len(self._locks)


class Turn:
    """Lets one thread after another do short work, for speed alone.

    One interpreter runs one thread, and at each system call hands itself to another that is ready. Threads that wait for
    their turn are not. Who has waited for long goes on all the same: the other may be stuck in a file system.
    """

    _PATIENCE_SECONDS = 0.1

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._behind = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[None]:
        had = self._lock.acquire(timeout=self._PATIENCE_SECONDS)
        try:
            yield
        finally:
            if had:
                self._lock.release()

    @contextmanager
    def taken_behind(self) -> Iterator[None]:
        """For work that can wait: of all who have such, one at a time stands in line with the others."""
        had = self._behind.acquire(timeout=self._PATIENCE_SECONDS)
        try:
            with self.taken():
                yield
        finally:
            if had:
                self._behind.release()

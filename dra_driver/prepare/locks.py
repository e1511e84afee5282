"""One lock per claim, so that the calls for a claim come one after the other and others don't wait."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ClaimLocks:
    """Locks that exist while somebody holds or awaits them."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # guards _locks; never held while a claim's lock is awaited
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, claim_uid: str) -> Iterator[None]:
        with self._mutex:
            lock, users = self._locks.get(claim_uid) or (threading.Lock(), 0)
            self._locks[claim_uid] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._mutex:
                lock, users = self._locks[claim_uid]
                if users == 1:
                    del self._locks[claim_uid]
                else:
                    self._locks[claim_uid] = (lock, users - 1)

    def __len__(self) -> int:
        return len(self._locks)

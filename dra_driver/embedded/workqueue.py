"""A queue of keys to look at: each at most once at a time, now or after a while."""

import threading
import time
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys in order of when they are due; adding one that waits already moves it forward, never back."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[K, float] = {}  # by time.monotonic
        self._stopped = False

    @property
    def stopped(self) -> bool:
        return self._stopped

    def add(self, key: K, delay: float = 0.0) -> None:
        """Have `key` looked at in `delay` seconds."""
        due = time.monotonic() + delay
        with self._changed:
            if due < self._due.get(key, float("inf")):
                self._due[key] = due
                self._changed.notify()

    def get(self) -> K | None:
        """The next key, once it is due; None when the queue was stopped."""
        with self._changed:
            while not self._stopped:
                key = min(self._due, key=self._due.__getitem__, default=None)
                wait = None if key is None else self._due[key] - time.monotonic()
                if key is not None and wait is not None and wait <= 0:
                    del self._due[key]
                    return key
                self._changed.wait(wait)
        return None

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

"""A queue of keys to look at: each at most once at a time, now or after a while."""

import heapq
import threading
import time
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys in order of when they are due; adding one that waits already moves it forward, never back."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._stopped = False

    @property
    def stopped(self) -> bool:
        return self._stopped

    def add(self, key: K, delay: float = 0.0) -> None:
        """Have `key` looked at in `delay` seconds."""
        due = time.monotonic() + delay
        with self._changed:
            if self._due.get(key, float("inf")) <= due:
                return
            self._due[key] = due
            self._count += 1
            heapq.heappush(self._heap, (due, self._count, key))
            self._changed.notify()

    def get(self) -> K | None:
        """The next key, once it is due; None when the queue was stopped."""
        with self._changed:
            while not self._stopped:
                while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
                    heapq.heappop(self._heap)  # was moved forward since
                wait = self._heap[0][0] - time.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    _, _, key = heapq.heappop(self._heap)
                    del self._due[key]
                    return key
                self._changed.wait(wait)
        return None

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

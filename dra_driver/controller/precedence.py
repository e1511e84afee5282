"""Requests first: whoever computes for seconds lets those through for whom an API server waits.

Python runs one thread at a time and shares its time equally, so beside the explainer a review would take twice as long.
Therefore the explainer stops while there are requests. It need not know where: what it reads are lists of thousands of
objects, and each step through one of them is a place to stop.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, overload

_MOST_SECONDS = 0.02  # of each stop, so that endless requests make the explainer slow, and not still

T = TypeVar("T")


class Precedence:
    """Who goes first in a process; thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests = 0

    @contextmanager
    def request(self) -> Iterator[None]:
        """What is done within goes first."""
        with self._changed:
            self._requests += 1
        try:
            yield
        finally:
            with self._changed:
                self._requests -= 1
                self._changed.notify_all()

    def give_way(self) -> None:
        """Return when there is no request, or after a moment."""
        if self._requests:
            with self._changed:
                self._changed.wait_for(lambda: not self._requests, _MOST_SECONDS)

    def steps(self, items: Sequence[T]) -> Sequence[T]:
        """The same items; whoever walks through them gives way at each."""
        return _Steps(self, items)


class _Steps(Sequence[T]):
    def __init__(self, precedence: Precedence, items: Sequence[T]) -> None:
        self._precedence = precedence
        self._items = items

    def __iter__(self) -> Iterator[T]:
        for item in self._items:
            self._precedence.give_way()
            yield item

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

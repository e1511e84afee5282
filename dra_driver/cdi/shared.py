"""One answer for all who ask at the same time, that is never older than the question.

A kubelet prepares many claims at once, and each Prepare wants to know how the driver is now. The look is all system
calls, and each of those lets another thread have the interpreter; so eight threads that look are much slower than one
that looks for all eight. Who asks while a look goes on waits for the next one, since that one may have passed what
has changed meanwhile.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Calls `make` for its callers, one call at a time."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._turn = threading.Lock()  # held during a call
        self._started = 0  # calls, changed by who has the turn
        self._answer: T | None = None  # of the last call; None where that failed

    def get(self) -> T:
        """What `make` gives, in a call that begins after this one; what it raises is raised to one caller each."""
        wanted = self._started + 1
        with self._turn:
            answer = self._answer
            if self._started < wanted or answer is None:
                self._started += 1
                self._answer = None
                self._answer = answer = self._make()
            return answer

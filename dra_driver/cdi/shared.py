"""One answer for all who ask at the same time, that is never older than the question by more than is allowed.

A kubelet prepares many claims at once, and each Prepare wants to know how the driver is now. The look is all system
calls, and each of those lets another thread have the interpreter; so eight threads that look are much slower than one
that looks for all eight. Who asks while a look goes on waits for the next one, since that one may have passed what
has changed meanwhile. A container starts a moment after its Prepare, so an answer may be a moment old too; but a failure
is never given twice, or the retry after something was mended would not work.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Calls `make` for its callers, one call at a time."""

    def __init__(
        self,
        make: Callable[[], T],
        *,
        fresh_seconds: float = 0.0,
        lasts: Callable[[T], bool] = lambda _: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fresh_seconds`: for how long, from the begin of its call, an answer that `lasts` is given again."""
        self._make = make
        self._fresh_seconds = fresh_seconds
        self._lasts = lasts
        self._clock = clock
        self._fresh: tuple[float, T] | None = None  # until when, and what; replaced as a whole
        self._turn = threading.Lock()  # held during a call
        self._started = 0  # calls, changed by who has the turn
        self._answer: T | None = None  # of the last call; None where that failed

    def get(self) -> T:
        """What `make` gives, in a call that begins after this one; what it raises is raised to one caller each."""
        begin, fresh = self._clock(), self._fresh
        if fresh is not None and begin < fresh[0]:
            return fresh[1]
        wanted = self._started + 1
        with self._turn:
            answer = self._answer
            if self._started < wanted or answer is None:
                self._started += 1
                self._answer = self._fresh = None
                begin = self._clock()
                self._answer = answer = self._make()
                if self._lasts(answer):
                    self._fresh = (begin + self._fresh_seconds, answer)
            return answer

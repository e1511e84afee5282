"""How long to wait before trying again: doubling, with jitter, up to a cap.

Jitter only ever lengthens a wait, so that "at most once a second" holds, and spreads the nodes of a cluster
whose API server comes back.
"""

import random

_JITTER = 0.5


class Backoff:
    """Delays in seconds for failures in a row; not thread-safe, each loop has its own."""

    def __init__(self, initial: float = 1.0, cap: float = 30.0) -> None:
        self._initial = initial
        self._cap = cap
        self._next = initial

    def delay(self, at_least: float | None = None) -> float:
        """The wait after one more failure, and never less than `at_least`, which a server asked for."""
        base = max(self._next, at_least or 0.0)
        self._next = min(self._next * 2, self._cap)
        return base * (1 + _JITTER * random.random())  # noqa: S311 - spreads load, guards nothing

    def reset(self) -> None:
        self._next = self._initial

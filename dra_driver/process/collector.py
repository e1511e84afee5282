"""Python's garbage collector, out of the way of those who hold a cluster in memory.

A cluster of 5,000 nodes is some million objects, and none is garbage before the answer is there; walking over them
again and again takes longer than the answer does, and stops every thread meanwhile.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 1000  # times that the middle generation is walked over, where Python's default is 10


@contextmanager
def paused() -> Iterator[None]:
    """Within it only what nobody refers to any more is freed, not what refers to itself in circles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def settled() -> None:
    """What is there now stays: it is never walked over again. Freed it still is, once nobody refers to it."""
    gc.collect()
    gc.freeze()


def seldom() -> None:
    """Walk over everything a hundred times less often than by default: it takes longer than an answer may.

    What is young is still looked at as often, and nearly all circles die young.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _SELDOM)

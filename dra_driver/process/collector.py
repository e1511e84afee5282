"""Python's garbage collector, out of the way of those who hold a cluster in memory.

A cluster of 5,000 nodes is some million objects, and none is garbage before the answer is there; walking over them
again and again takes longer than the answer does, and stops every thread meanwhile.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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

"""What one evaluation may spend.

Kubernetes gives an expression 1,000,000 cost units per device. Counting them exactly would need cel-go's cost
model for every function; what is counted here are the things that can grow: iterations (weighted by the size of
their body), the lengths of strings and lists that are read and made, and calls that take microseconds. So whatever
an expression is, it ends in about half a second. The budget is slot 0 of the frame, so that charging costs no
attribute access and threads share nothing.
"""

from typing import Any

from dra_driver.cel.errors import LimitError

Frame = list[Any]
DEFAULT_BUDGET = 1_000_000


def charge(frame: Frame, units: int) -> None:
    """Spend; LimitError when there is nothing left."""
    frame[0] -= units
    if frame[0] < 0:
        raise LimitError("operation cancelled: actual cost limit exceeded")

"""How long ago something was, as kubectl abbreviates it."""

import time
from datetime import datetime

UNKNOWN = "<unknown>"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
# As apimachinery's duration.HumanDuration: up to how many of a unit, in which unit, and what beside it while that
# says something.
_STEPS = (
    (2, "m", "s", ""),
    (10, "m", "m", "s"),
    (3, "h", "m", ""),
    (8, "h", "h", "m"),
    (2, "d", "h", ""),
    (8, "d", "d", "h"),
    (2, "y", "d", ""),
    (8, "y", "y", "d"),
)


def age(timestamp: str | None) -> str:
    """How long ago, as kubectl abbreviates it."""
    if not timestamp:
        return UNKNOWN
    return human_duration(int(time.time() - datetime.fromisoformat(timestamp).timestamp()))


def human_duration(seconds: int) -> str:
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    for limit, of, unit, finer in _STEPS:
        if seconds < limit * _SECONDS[of]:
            count, left = divmod(seconds, _SECONDS[unit])
            rest = left // _SECONDS[finer] if finer else 0
            return f"{count}{unit}{rest}{finer}" if rest else f"{count}{unit}"
    return f"{seconds // _SECONDS['y']}y"

"""How long ago something was, as kubectl abbreviates it."""

import time
from calendar import timegm

UNKNOWN = "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(timestamp: str | None) -> str:
    """How long ago, as kubectl abbreviates it."""
    if not timestamp:
        return UNKNOWN
    then = timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S"))
    return human_duration(int(time.time()) - then)


def human_duration(seconds: int) -> str:
    """apimachinery's duration.HumanDuration: two units at most, the finer one only while it says something."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two(seconds: int, large: int, name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{name}{f'{rest}{small_name}' if rest else ''}"

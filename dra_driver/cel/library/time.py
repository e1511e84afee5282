"""Durations and timestamps: duration("1h30m"), timestamp("2026-01-01T00:00:00Z") and their parts."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dra_driver.cel.arithmetic import duration_of, timestamp_of
from dra_driver.cel.declarations import Library, Overload, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.types import DURATION, INT, STRING, TIMESTAMP
from dra_driver.cel.values import Duration, Timestamp

_SECOND = 10**9
_PRICE = 20  # of reading one, or taking it apart
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"([+-]?)(0|(?:{_PART.pattern})+)", re.ASCII)
_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?(Z|[+-]\d{2}:\d{2})", re.ASCII
)
_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d{2})", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> Duration:
    """A Go duration; EvaluationError where `text` is none."""
    match = _DURATION.fullmatch(text)
    if match is None or len(text) > 128:
        raise EvaluationError(f'time: invalid duration "{text}"')
    nanos = 0
    for number, unit in _PART.findall(match[2]):
        whole, _, fraction = number.partition(".")
        scale: int = 10 ** len(fraction)
        nanos += int(f"{whole}{fraction}" or "0") * _UNITS[unit] // scale
    return duration_of(-nanos if match[1] == "-" else nanos)


def parse_timestamp(text: str) -> Timestamp:
    """An RFC 3339 time; EvaluationError where `text` is none."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise EvaluationError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')
    date, time, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{time}{'+00:00' if zone == 'Z' else zone}")
        delta = moment - _EPOCH
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f'parsing time "{text}": {error}') from error
    nanos = (delta.days * 86400 + delta.seconds) * _SECOND
    return timestamp_of(nanos + int((fraction or "").ljust(9, "0")))


def text_of_duration(value: Duration) -> str:
    """Seconds, as cel-go writes a duration: "5400s", "0.5s"."""
    seconds, rest = divmod(abs(value.nanos), _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if value.nanos < 0 else ''}{seconds}{fraction}s"


def text_of_timestamp(value: Timestamp) -> str:
    seconds, rest = divmod(value.nanos, _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{(_EPOCH + timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S').rjust(19, '0')}{fraction}Z"


def _zone(name: str) -> tzinfo:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    if name in {"", "Local"}:  # the scheduler's own; in a container that is UTC
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise EvaluationError(f"unknown time zone {name}") from error


def _moment(value: Timestamp, zone: tzinfo = UTC) -> datetime:
    try:
        return (_EPOCH + timedelta(microseconds=value.nanos // 1000)).astimezone(zone)
    except OverflowError as error:
        raise EvaluationError("timestamp overflow") from error


def _parts(name: str, part: Callable[[datetime], int]) -> tuple[Overload, Overload]:
    return (
        method(name, (TIMESTAMP,), INT, lambda value: part(_moment(value)), price=_PRICE),
        method(
            name,
            (TIMESTAMP, STRING),
            INT,
            lambda value, zone: part(_moment(value, _zone(zone))),
            price=10 * _PRICE,  # zones are files
        ),
    )


def _units(name: str, nanos: int) -> Overload:
    def whole(value: Duration) -> int:
        return abs(value.nanos) // nanos * (-1 if value.nanos < 0 else 1)

    return method(name, (DURATION,), INT, whole)


LIBRARY = Library(
    (
        function("duration", (DURATION,), DURATION, lambda value: value),
        function("duration", (STRING,), DURATION, parse_duration, price=_PRICE),
        function("timestamp", (TIMESTAMP,), TIMESTAMP, lambda value: value),
        function("timestamp", (STRING,), TIMESTAMP, parse_timestamp, price=_PRICE),
        function("timestamp", (INT,), TIMESTAMP, lambda seconds: timestamp_of(seconds * _SECOND)),
        function("string", (DURATION,), STRING, text_of_duration),
        function("string", (TIMESTAMP,), STRING, text_of_timestamp),
        *_parts("getFullYear", lambda moment: moment.year),
        *_parts("getMonth", lambda moment: moment.month - 1),
        *_parts("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1),
        *_parts("getDayOfMonth", lambda moment: moment.day - 1),
        *_parts("getDate", lambda moment: moment.day),
        *_parts("getDayOfWeek", lambda moment: moment.isoweekday() % 7),
        *_parts("getHours", lambda moment: moment.hour),
        *_parts("getMinutes", lambda moment: moment.minute),
        *_parts("getSeconds", lambda moment: moment.second),
        *_parts("getMilliseconds", lambda moment: moment.microsecond // 1000),
        _units("getHours", 3600 * _SECOND),
        _units("getMinutes", 60 * _SECOND),
        _units("getSeconds", _SECOND),
        _units("getMilliseconds", 10**6),
    ),
    types=(DURATION, TIMESTAMP),
)

"""Lists as sets: sets.contains, sets.equivalent, sets.intersects."""

from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.declarations import Library, function
from dra_driver.cel.relations import contains
from dra_driver.cel.types import BOOL, list_of, parameter

_LIST = list_of(parameter("T"))


def _contains(frame: Frame, whole: list[Any], part: list[Any]) -> bool:
    charge(frame, 1 + len(part))
    return all(contains(frame, item, whole) for item in part)


def _equivalent(frame: Frame, one: list[Any], other: list[Any]) -> bool:
    return _contains(frame, one, other) and _contains(frame, other, one)


def _intersects(frame: Frame, one: list[Any], other: list[Any]) -> bool:
    charge(frame, 1 + len(one))
    return any(contains(frame, item, other) for item in one)


LIBRARY = Library(
    (
        function("sets.contains", (_LIST, _LIST), BOOL, _contains, metered=True),
        function("sets.equivalent", (_LIST, _LIST), BOOL, _equivalent, metered=True),
        function("sets.intersects", (_LIST, _LIST), BOOL, _intersects, metered=True),
    )
)

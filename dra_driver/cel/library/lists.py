"""Lists: Kubernetes' own functions (sum, min, indexOf ...) and the lists extension, version 3."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

from dra_driver.cel.arithmetic import add
from dra_driver.cel.budget import DEFAULT_BUDGET, Frame, charge
from dra_driver.cel.declarations import Library, Overload, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.relations import compare, is_equal
from dra_driver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    parameter,
)
from dra_driver.cel.values import Duration, UInt

_T, _K = parameter("T"), parameter("K")
_LIST = list_of(_T)
_ORDERED = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_ZEROS: dict[Type, Any] = {INT: 0, UINT: UInt(0), DOUBLE: 0.0, DURATION: Duration(0)}


def _is_sorted(frame: Frame, items: list[Any]) -> bool:
    charge(frame, 1 + len(items))
    return all(compare(frame, a, b) <= 0 for a, b in itertools.pairwise(items))


def _sum(zero: Any) -> Callable[[Frame, list[Any]], Any]:
    def total(frame: Frame, items: list[Any]) -> Any:
        charge(frame, 1 + len(items))
        return functools.reduce(functools.partial(add, frame), items, zero)

    return total


def _extreme(name: str, sign: int) -> Callable[[Frame, list[Any]], Any]:
    def extreme(frame: Frame, items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list", name=name)
        charge(frame, 1 + len(items))
        return functools.reduce(
            lambda best, item: item if compare(frame, item, best) == sign else best, items
        )

    return extreme


def _index_of(frame: Frame, items: list[Any], value: Any) -> int:
    charge(frame, 1 + len(items))
    return next((index for index, item in enumerate(items) if is_equal(frame, item, value)), -1)


def _last_index_of(frame: Frame, items: list[Any], value: Any) -> int:
    charge(frame, 1 + len(items))
    return next((index for index in reversed(range(len(items))) if is_equal(frame, items[index], value)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(frame: Frame, items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    charge(frame, 1 + len(items) * min(depth, DEFAULT_BUDGET))
    for item in items:
        if type(item) is list and depth:
            flat += _flatten(frame, item, depth - 1)
        else:
            flat.append(item)
    return flat


def _distinct(frame: Frame, items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        charge(frame, 1 + len(kept))
        if not any(is_equal(frame, item, other) for other in kept):
            kept.append(item)
    return kept


def _range(frame: Frame, end: int) -> list[int]:
    charge(frame, max(1, end))
    return list(range(end))


def _sort(frame: Frame, items: list[Any]) -> list[Any]:
    return _sorted_by(frame, items, items)


def _sorted_by(frame: Frame, items: list[Any], keys: list[Any]) -> list[Any]:
    if len(items) != len(keys):
        raise EvaluationError(f"@sortByAssociatedKeys() expected a list of {len(items)} keys")
    if not items:
        return []
    charge(frame, 1 + len(items) * len(items).bit_length())
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = functools.cmp_to_key(functools.partial(compare, frame))
    try:
        return [items[index] for index in sorted(range(len(items)), key=lambda index: order(keys[index]))]
    except EvaluationError as error:
        raise EvaluationError("list elements must be comparable") from error


def _ordered(name: str, result: Callable[[Type], Type], implementation: Callable[..., Any]) -> list[Overload]:
    return [
        method(name, (list_of(element),), result(element), implementation, metered=True)
        for element in _ORDERED
    ]


LIBRARY = Library(
    (
        *_ordered("isSorted", lambda _: BOOL, _is_sorted),
        *_ordered("min", lambda element: element, _extreme("min", -1)),
        *_ordered("max", lambda element: element, _extreme("max", 1)),
        *(method("sum", (list_of(kind),), kind, _sum(zero), metered=True) for kind, zero in _ZEROS.items()),
        method("indexOf", (_LIST, _T), INT, _index_of, metered=True),
        method("lastIndexOf", (_LIST, _T), INT, _last_index_of, metered=True),
        method("slice", (_LIST, INT, INT), _LIST, _slice),
        method("flatten", (list_of(_LIST),), _LIST, _flatten, metered=True),
        method("flatten", (list_of(DYN), INT), list_of(DYN), _flatten, metered=True),
        method("distinct", (_LIST,), _LIST, _distinct, metered=True),
        method("reverse", (_LIST,), _LIST, lambda items: items[::-1]),
        function("lists.range", (INT,), list_of(INT), _range, metered=True),
        *_ordered("sort", list_of, _sort),
        *(
            method("@sortByAssociatedKeys", (_LIST, list_of(key)), _LIST, _sorted_by, metered=True)
            for key in _ORDERED
        ),
    )
)

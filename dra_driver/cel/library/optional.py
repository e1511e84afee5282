"""Optional values: optional.of, orValue and their like. optMap and optFlatMap are macros."""

from typing import Any

from dra_driver.cel.declarations import Library, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.types import BOOL, list_of, optional_of, parameter
from dra_driver.cel.values import NONE, Optional

_V = parameter("V")
_OPTIONAL = optional_of(_V)


def _of(value: Any) -> Optional:
    return Optional(present=True, value=value)


def _of_non_zero(value: Any) -> Optional:
    return _of(value) if value or getattr(value, "nanos", 0) else NONE


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(items: list[Optional]) -> list[Any]:
    return [item.value for item in items if item.present]


LIBRARY = Library(
    (
        function("optional.of", (_V,), _OPTIONAL, _of),
        function("optional.ofNonZeroValue", (_V,), _OPTIONAL, _of_non_zero),
        function("optional.none", (), _OPTIONAL, lambda: NONE),
        function("optional.unwrap", (list_of(_OPTIONAL),), list_of(_V), _unwrap),
        method("unwrapOpt", (list_of(_OPTIONAL),), list_of(_V), _unwrap),
        method("hasValue", (_OPTIONAL,), BOOL, lambda optional: optional.present),
        method("value", (_OPTIONAL,), _V, _value),
        method("or", (_OPTIONAL, _OPTIONAL), _OPTIONAL, lambda one, other: one if one.present else other),
        method("orValue", (_OPTIONAL, _V), _V, lambda one, other: one.value if one.present else other),
        method("first", (list_of(_V),), _OPTIONAL, lambda items: _of(items[0]) if items else NONE),
        method("last", (list_of(_V),), _OPTIONAL, lambda items: _of(items[-1]) if items else NONE),
    ),
    types=(_OPTIONAL,),
)

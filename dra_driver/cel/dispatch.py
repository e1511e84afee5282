"""Calling functions by the types of their values.

The checker has made sure that some overload may fit. What it inferred of a value that came out of `dyn` can be wrong,
so the values are always looked at before Python gets them.
"""

from collections.abc import Callable
from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.declarations import Overload
from dra_driver.cel.errors import no_overload
from dra_driver.cel.values import matcher

Step = Callable[[Frame], Any]
_SIZED = frozenset({str, list, bytes, dict})
_FREE = 64  # what is shorter costs nothing beyond the call


def dispatch(name: str, overloads: tuple[Overload, ...], args: list[Step]) -> Step:
    """A call that picks the first overload whose argument types the values have."""
    table = [(o.implementation, o.metered, o.price, tuple(map(matcher, o.args))) for o in overloads]

    def call(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        for implementation, metered, price, tests in table:
            for test, value in zip(tests, values, strict=True):
                if test is not None and not test(value):
                    break
            else:
                if metered:
                    return implementation(frame, *values)
                if price:
                    charge(frame, price)
                return _call(frame, implementation, values)
        raise no_overload(name, *values)

    return call


def _call(frame: Frame, implementation: Callable[..., Any], values: list[Any]) -> Any:
    """Call and charge for what is read and what is made; functions run through their arguments once."""
    for value in values:
        if type(value) in _SIZED and len(value) > _FREE:
            charge(frame, len(value) // 10)
    result = implementation(*values)
    if type(result) in _SIZED and len(result) > _FREE:
        charge(frame, len(result) // 10)
    return result

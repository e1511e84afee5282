"""Calling functions: directly where the types were known at compile time, else by the values' types."""

from collections.abc import Callable
from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.declarations import Overload
from dra_driver.cel.operators import no_overload
from dra_driver.cel.values import matcher

Step = Callable[[Frame], Any]
_GROWING = frozenset({str, list, bytes})


def call_one(overload: Overload, args: list[Step]) -> Step:
    """A call whose only fitting overload is known."""
    implementation = overload.implementation
    if overload.metered:
        return lambda frame: implementation(frame, *[arg(frame) for arg in args])
    if len(args) == 1:
        (only,) = args
        return lambda frame: _charged(frame, implementation(only(frame)))
    if len(args) == 2:
        first, second = args
        return lambda frame: _charged(frame, implementation(first(frame), second(frame)))
    return lambda frame: _charged(frame, implementation(*[arg(frame) for arg in args]))


def dispatch(name: str, overloads: tuple[Overload, ...], args: list[Step]) -> Step:
    """A call that picks the first overload whose argument types the values have."""
    table = [(o.implementation, o.metered, tuple(matcher(arg) for arg in o.args)) for o in overloads]

    def call(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        for implementation, metered, tests in table:
            for test, value in zip(tests, values, strict=True):
                if test is not None and not test(value):
                    break
            else:
                if metered:
                    return implementation(frame, *values)
                return _charged(frame, implementation(*values))
        raise no_overload(name, *values)

    return call


def _charged(frame: Frame, value: Any) -> Any:
    if type(value) in _GROWING and len(value) > 32:
        charge(frame, len(value) // 10)
    return value

"""Closures of operators that do more than call a function: they absorb errors, choose, or compare.

`&&` and `||` try every operand before they fail, whatever the order, since one that decides makes the others'
errors meaningless. A variable of cel.bind() that could not be computed fails where it is read, not where it is
bound.
"""

from collections.abc import Callable
from typing import Any

from dra_driver.cel import relations
from dra_driver.cel.budget import Frame
from dra_driver.cel.errors import EvaluationError, LimitError, no_overload, plain_no_overload
from dra_driver.cel.values import Opaque, Optional, type_name

Step = Callable[[Frame], Any]


class Failed:
    """What a bound variable holds when its value could not be had."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def read_bound(slot: int) -> Step:
    def read(frame: Frame) -> Any:
        value = frame[slot]
        if type(value) is Failed:
            raise value.error
        return value

    return read


def logic(operands: list[Step], *, decides: bool) -> Step:
    """`||` where true decides, `&&` where false does."""

    def decide(frame: Frame) -> Any:
        failed: EvaluationError | None = None
        for operand in operands:
            try:
                value = operand(frame)
            except LimitError:
                raise
            except EvaluationError as error:
                failed = failed or error
                continue
            if value is decides:
                return decides
            if value is not (not decides):
                failed = failed or plain_no_overload()
        if failed is not None:
            raise failed
        return not decides

    return decide


def conditional(condition: Step, yes: Step, no: Step) -> Step:
    def choose(frame: Frame) -> Any:
        chosen = condition(frame)
        if chosen is not True and chosen is not False:
            raise plain_no_overload()
        value = yes(frame) if chosen else no(frame)
        return _converted(value) if type(value) is Optional and value.present else value

    return choose


def _converted(optional: Optional) -> Optional:
    """An optional value as it leaves a condition, and so optMap(): cel-go takes its content out and in again."""
    content = optional.value
    if isinstance(content, Opaque):
        raise EvaluationError(f"unsupported conversion to ref.Val: {type_name(content)}")
    if type(content) is Optional:
        return Optional(present=True, value=content.value if content.present else None)
    return optional


def member(value: Step, constants: list[Any]) -> Step:
    """`value in [constants]`; for an empty list cel-go does not even compute the value."""
    if not constants:
        return lambda _: False

    def test(frame: Frame) -> bool:
        return relations.contains(frame, relations.hashable(value(frame)), constants)

    return test


def fallback(name: str, optional: Step, otherwise: Step) -> Step:
    """optional.or() and .orValue(): the other value is only computed where it is needed."""

    def choose(frame: Frame) -> Any:
        value = optional(frame)
        if type(value) is not Optional:
            raise no_overload(name, value, otherwise(frame))
        if value.present:
            return value if name == "or" else value.value
        return otherwise(frame)

    return choose


def binary(operator: Callable[[Frame, Any, Any], Any], left: Step, right: Step) -> Step:
    return lambda frame: operator(frame, left(frame), right(frame))


def equal(left: Step, right: Step) -> Step:
    equals = relations.equals

    def compared(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        if type(one) is str and type(other) is str and len(one) < 64:  # by far the most frequent
            return bool(one == other)
        return equals(frame, one, other)

    return compared


def not_equal(left: Step, right: Step) -> Step:
    def unequal(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        try:
            return not relations.equals(frame, one, other)
        except LimitError:
            raise
        except EvaluationError:
            return True  # cel-go: whatever is not equal, errors included, is unequal

    return unequal


def ordered(test: Callable[[int], bool], left: Step, right: Step) -> Step:
    compare = relations.compare
    return lambda frame: test(compare(frame, left(frame), right(frame)))


def negation(operand: Step) -> Step:
    def negated(frame: Frame) -> bool:
        value = operand(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise plain_no_overload()

    return negated

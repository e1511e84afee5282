"""The macros that loop, one closure each.

A quantifier absorbs errors like the `&&` and `||` that it stands for: one element that decides wins over others
that fail. `map` gives up at the first error; `filter` and `exists_one` report the last, as cel-go's folds do.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dra_driver.cel.access import map_key
from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.errors import EvaluationError, LimitError, plain_no_overload
from dra_driver.cel.relations import find
from dra_driver.cel.values import type_name

Step = Callable[[Frame], Any]


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts of a macro; `slots` are its one or two variables' places in the frame.

    `price` is what an iteration costs, before what functions in its body charge.
    """

    over: Step
    slots: tuple[int, ...]
    condition: Step | None
    result: Step | None
    price: int

    def items(self, frame: Frame) -> Iterable[Any]:
        """Set the variables for each element in turn and yield the first of them."""
        container = self.over(frame)
        if len(self.slots) == 1:
            (slot,) = self.slots
            if type(container) is not list and not isinstance(container, dict):
                raise _no_range(container)
            for item in container:
                charge(frame, self.price)
                frame[slot] = item
                yield item
            return
        first, second = self.slots
        if type(container) is list:
            pairs: Iterable[tuple[Any, Any]] = enumerate(container)
        elif isinstance(container, dict):
            pairs = container.items()
        else:
            raise _no_range(container)
        for key, value in pairs:
            charge(frame, self.price)
            frame[first], frame[second] = key, value
            yield key

    def holds(self, frame: Frame) -> bool:
        """The condition's value; true where there is none."""
        if self.condition is None:
            return True
        value = self.condition(frame)
        if value is True or value is False:
            return bool(value)
        raise plain_no_overload()

    def value(self, frame: Frame) -> Any:
        if self.result is None:
            raise AssertionError("a macro that makes values has an expression for them")
        return self.result(frame)


def _no_range(container: object) -> EvaluationError:
    return EvaluationError(f"got '{type_name(container)}', expected iterable type")


def _quantifier(loop: Loop, *, decides: bool) -> Step:
    def quantify(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        for _ in loop.items(frame):
            try:
                if loop.holds(frame) is decides:
                    return decides
            except LimitError:
                raise
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not decides

    return quantify


def _matching(loop: Loop, frame: Frame) -> list[Any]:
    """The elements for which the condition holds; the last error where one failed."""
    kept: list[Any] = []
    failed: EvaluationError | None = None
    for item in loop.items(frame):
        try:
            if loop.holds(frame):
                kept.append(item)
        except LimitError:
            raise
        except EvaluationError as error:
            failed = error
    if failed is not None:
        raise failed
    return kept


def _exists_one(loop: Loop) -> Step:
    return lambda frame: len(_matching(loop, frame)) == 1


def _filter(loop: Loop) -> Step:
    return lambda frame: _matching(loop, frame)


def _map(loop: Loop) -> Step:
    return lambda frame: [loop.value(frame) for _ in loop.items(frame) if loop.holds(frame)]


def _transform_map(loop: Loop) -> Step:
    return lambda frame: {key: loop.value(frame) for key in loop.items(frame) if loop.holds(frame)}


def _transform_map_entry(loop: Loop) -> Step:
    def transform(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for _ in loop.items(frame):
            if not loop.holds(frame):
                continue
            entries = loop.value(frame)
            if not isinstance(entries, dict):
                raise plain_no_overload()
            for key, value in entries.items():
                if find(made, key)[0]:
                    raise EvaluationError(f"insert failed: key '{key}' already exists", name=str(key))
                made[map_key(key)] = value
        return made

    return transform


LOOPS: dict[str, Callable[[Loop], Step]] = {
    "all": lambda loop: _quantifier(loop, decides=False),
    "exists": lambda loop: _quantifier(loop, decides=True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_map_entry,
}

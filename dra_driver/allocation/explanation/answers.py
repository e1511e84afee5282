"""Answers of selectors with their reasons, worked out once for all devices that are equal in what is read."""

from collections.abc import Hashable
from dataclasses import dataclass

from dra_driver.allocation.explanation.failures import failure
from dra_driver.allocation.explanation.model import Miss
from dra_driver.allocation.explanation.wording import miss
from dra_driver.allocation.matching import Matcher
from dra_driver.allocation.model import Device
from dra_driver.cel import CompileError, EvaluationError
from dra_driver.selectors.comparisons import Condition, conditions
from dra_driver.selectors.reads import content, reads

_MAX_MISSES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What a selector says of a device: `kept`, or None where it fails; why, and what to write instead."""

    kept: bool | None
    text: str = ""
    fix: str | None = None
    misses: tuple[Miss, ...] = ()


_KEPT = Answer(kept=True)


class Answers:
    """The answers of one snapshot's matcher, explained."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._known: dict[tuple[str, Hashable], Answer] = {}

    def of(self, expression: str, device: Device) -> Answer:
        """Never raises: an expression that does not compile fails on every device."""
        try:
            answer = self._matcher.answer(expression, device)
        except CompileError as error:
            return Answer(None, str(error))
        if answer is True:
            return _KEPT
        wanted = reads(expression, lists=self._matcher.lists) if device.readable else None
        if wanted is None:
            return self._explained(expression, answer, device)
        key = expression, content(wanted, device.id.driver, device.raw)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._explained(expression, answer, device)
        return known

    def _explained(self, expression: str, answer: bool | EvaluationError, device: Device) -> Answer:
        driver = device.id.driver
        if isinstance(answer, EvaluationError):

            def evaluate(other: str) -> bool | EvaluationError:
                return self._matcher.answer(other, device)

            return Answer(None, *failure(expression, answer, driver, device.raw, evaluate))
        false = [one for one in conditions(expression) if self._is_false(one, device)]
        misses = tuple(miss(one, driver, device.raw) for one in false or [Condition(expression, None)])
        return Answer(kept=False, text=", ".join(one.text for one in misses[:_MAX_MISSES]), misses=misses)

    def _is_false(self, condition: Condition, device: Device) -> bool:
        try:
            return self._matcher.answer(condition.text, device) is False
        except CompileError:
            return False  # a part that means nothing on its own

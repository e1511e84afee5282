"""Questions and their answers, worked out within a budget.

An answer holds until the cluster has changed. Then it is due again, after all questions that have none yet; how many are
worked out at a time is up to `seconds`, so that a cluster in which much changes costs no more than one in which little
does, and only says so later.
"""

import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import structlog

from dra_driver.allocation.diagnosis import World
from dra_driver.allocation.diagnosis.brief import Brief, brief
from dra_driver.controller.explainer.pending import Subject

log = structlog.get_logger(__name__)

Version = Hashable


@dataclass(frozen=True, slots=True)
class _Answer:
    brief: Brief
    version: Version  # of the cluster that it is about


class Answers:
    """The answers to the questions of those who wait; for one thread."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Answer] = {}  # the longest unchecked first

    def update(self, world: World, version: Version, waiting: Iterable[Subject], seconds: float) -> bool:
        """Answer what is due, for about so long and at least one; whether something is still due."""
        questions = {subject.question: subject for subject in waiting}
        self._known = {question: answer for question, answer in self._known.items() if question in questions}
        due = [question for question in questions if question not in self._known]
        due += [question for question, answer in self._known.items() if answer.version != version]
        end = time.monotonic() + seconds
        for number, question in enumerate(due):
            if number and time.monotonic() > end:
                return True
            self._known.pop(question, None)  # to the end
            self._known[question] = _Answer(_ask(world, questions[question]), version)
        return False

    def of(self, subject: Subject) -> Brief | None:
        """None where it has not been worked out yet."""
        answer = self._known.get(subject.question)
        return None if answer is None else answer.brief


def _ask(world: World, subject: Subject) -> Brief:
    try:
        return brief(subject.ask(world))
    except Exception:  # an object that nobody thought of must not keep all others without an answer
        log.exception("not explained", kind=subject.about.kind, object=subject.about.name)
        return Brief("other", "")

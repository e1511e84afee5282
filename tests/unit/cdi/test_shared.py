import threading

import pytest

from dra_driver.cdi.shared import Shared


class Calls:
    """Counts its calls, and fails when told to."""

    def __init__(self) -> None:
        self.number = 0
        self.error: Exception | None = None
        self.time = 0.0

    def make(self) -> int:
        self.number += 1
        if self.error is not None:
            raise self.error
        return self.number

    def shared(self, fresh_seconds: float = 0.0) -> Shared[int]:
        return Shared(self.make, fresh_seconds=fresh_seconds, clock=lambda: self.time)


def test_without_an_age_that_is_allowed_each_question_has_a_call_of_its_own() -> None:
    shared = Calls().shared()

    assert [1, 2, 3] == [shared.get() for _ in range(3)]


def test_an_answer_is_given_again_until_it_is_too_old() -> None:
    calls = Calls()
    shared = calls.shared(fresh_seconds=0.2)
    first = [shared.get(), shared.get()]

    calls.time = 0.2

    assert ([1, 1], 2) == (first, shared.get())


def test_a_failure_is_never_given_twice_and_ends_the_answer_before_it() -> None:
    calls = Calls()
    shared = calls.shared(fresh_seconds=0.2)
    shared.get()
    calls.time, calls.error = 0.3, ValueError("gone")
    with pytest.raises(ValueError, match="gone"):
        shared.get()
    with pytest.raises(ValueError, match="gone"):
        shared.get()

    calls.error = None

    assert 4 == shared.get()


def test_who_asks_during_a_call_gets_the_answer_of_the_next() -> None:
    running, go_on = threading.Event(), threading.Event()
    answers = iter(["old", "new", "new too"])

    def make() -> str:
        answer = next(answers)
        if answer == "old":
            running.set()
            assert go_on.wait(60)
        return answer

    shared = Shared(make)
    found: dict[str, str] = {}
    first = threading.Thread(target=lambda: found.update(first=shared.get()))
    first.start()
    assert running.wait(60)
    second = threading.Thread(target=lambda: found.update(second=shared.get()))
    second.start()
    go_on.set()
    first.join()
    second.join()

    assert {"first": "old", "second": "new"} == found

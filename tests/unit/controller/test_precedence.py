"""Requests go before what takes long."""

import threading

import pytest

from dra_driver.controller import precedence as module
from dra_driver.controller.precedence import Precedence


@pytest.fixture
def precedence() -> Precedence:
    return Precedence()


class Walk:
    """A thread that walks through some items."""

    def __init__(self, precedence: Precedence) -> None:
        self.steps = precedence.steps(list(range(10)))
        self.seen: list[int] = []
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for item in self.steps:
            self.seen.append(item)
        self.ended.set()


def test_a_list_in_steps_is_the_same_list(precedence: Precedence) -> None:
    steps = precedence.steps(["a", "b", "c"])

    assert ["a", "b", "c"] == list(steps)
    assert (3, "b", ["b", "c"]) == (len(steps), steps[1], steps[1:])


def test_who_walks_stops_while_there_is_a_request(
    precedence: Precedence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_SECONDS", 600.0)
    with precedence.request(), precedence.request():
        walk = Walk(precedence)
        assert not walk.ended.wait(0.1)
        assert [] == walk.seen

    assert walk.ended.wait(90)


def test_requests_without_end_make_it_slow_and_not_still(precedence: Precedence) -> None:
    with precedence.request():
        assert Walk(precedence).ended.wait(90)


def test_a_request_that_fails_is_over_as_well(
    precedence: Precedence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_SECONDS", 600.0)
    with pytest.raises(ZeroDivisionError), precedence.request():
        raise ZeroDivisionError

    assert Walk(precedence).ended.wait(90)

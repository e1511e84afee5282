import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from dra_driver.locks import Locks, Turn


def test_who_holds_a_name_is_alone_and_other_names_are_free() -> None:
    locks, inside, most = Locks(), [0], [0]

    def use(_: int) -> None:
        with locks.hold("a"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            with locks.hold("b"):
                pass
            inside[0] -= 1

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(use, range(200)))

    assert (1, 0) == (most[0], len(locks))


def test_a_name_is_handed_on_to_one_after_the_other() -> None:
    locks = Locks()
    inside = {who: threading.Event() for who in "abc"}
    leave = {who: threading.Event() for who in "abc"}

    def use(who: str) -> None:
        with locks.hold("name"):
            inside[who].set()
            assert leave[who].wait(60)

    with ThreadPoolExecutor(3) as threads:
        try:
            uses = [threads.submit(use, "a")]
            assert inside["a"].wait(60)
            uses.append(threads.submit(use, "b"))
            assert not inside["b"].wait(0.1)
            leave["a"].set()
            assert inside["b"].wait(60)
            uses.append(threads.submit(use, "c"))
            assert not inside["c"].wait(0.1)
            leave["b"].set()
            assert inside["c"].wait(60)
        finally:
            for event in leave.values():
                event.set()

    assert [None] * 3 == [each.result() for each in uses]
    assert not locks.is_held("name")


def test_an_error_gives_the_name_back() -> None:
    locks = Locks()

    with pytest.raises(ZeroDivisionError), locks.hold("a"):
        raise ZeroDivisionError

    assert not locks.is_held("a")
    with locks.hold("a"):
        pass


def test_an_error_in_a_turn_gives_it_to_the_next() -> None:
    turn = Turn()

    with pytest.raises(ZeroDivisionError), turn.taken():
        raise ZeroDivisionError

    assert is_free(turn)


def test_one_who_is_stuck_in_a_turn_stops_nobody_and_loses_it_to_nobody() -> None:
    turn, stuck, over = Turn(), threading.Event(), threading.Event()

    def hang() -> None:
        with turn.taken():
            stuck.set()
            over.wait(60)

    def fail(number: int) -> None:
        with turn.taken():
            if number % 2:
                raise ZeroDivisionError

    with ThreadPoolExecutor(33) as threads:
        hanging = threads.submit(hang)
        assert stuck.wait(60)
        others = [threads.submit(fail, number) for number in range(32)]
        failed = [isinstance(other.exception(60), ZeroDivisionError) for other in others]
        held = not is_free(turn)
        over.set()
        hanging.result(60)

    assert ([False, True] * 16, True, True) == (failed, held, is_free(turn))


class Line:
    """A lock that tells of each who comes for it."""

    def __init__(self) -> None:
        self.came = threading.Semaphore(0)
        self._lock = threading.Lock()

    def acquire(self, timeout: float) -> bool:
        self.came.release()
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()


def test_of_all_whose_work_can_wait_one_stands_in_line_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Turn, "_PATIENCE_SECONDS", 60.0)  # on a slow machine nobody loses it
    turn, line, behind, done = Turn(), Line(), Line(), list[str]()
    monkeypatch.setattr(turn, "_lock", line)
    monkeypatch.setattr(turn, "_behind", behind)

    def work() -> None:
        with turn.taken():
            done.append("work")

    def wait() -> None:
        with turn.taken_behind():
            done.append("wait")

    with ThreadPoolExecutor(16) as threads, turn.taken():
        for _ in range(8):
            threads.submit(wait)
            threads.submit(work)
        for _ in range(8):
            assert behind.came.acquire(timeout=60)
        for _ in range(10):  # we ourselves, all who work, and one who can wait
            assert line.came.acquire(timeout=60)
        assert not line.came.acquire(timeout=0.2)

    assert ["wait"] * 8 + ["work"] * 8 == sorted(done)


@pytest.mark.parametrize("stuck", [Turn.taken, Turn.taken_behind])
def test_work_that_can_wait_comes_even_so(stuck: Callable[[Turn], AbstractContextManager[None]]) -> None:
    turn = Turn()

    with stuck(turn), ThreadPoolExecutor(2) as threads:

        def work() -> bool:
            with turn.taken_behind():
                return True

        assert all(threads.submit(work).result(60) for _ in range(2))

    assert is_free(turn)


def test_a_turn_within_a_turn_is_no_deadlock() -> None:
    turn = Turn()

    with turn.taken(), turn.taken():
        pass

    assert is_free(turn)


def is_free(turn: Turn) -> bool:
    """Whether somebody who will not wait would have the turn to himself."""
    return not (turn._lock.locked() or turn._behind.locked())

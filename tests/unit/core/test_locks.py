import threading
from concurrent.futures import ThreadPoolExecutor

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


def test_a_turn_within_a_turn_is_no_deadlock() -> None:
    turn = Turn()

    with turn.taken(), turn.taken():
        pass

    assert is_free(turn)


def is_free(turn: Turn) -> bool:
    """Whether somebody who will not wait would have the turn to himself."""
    if turn._lock.acquire(blocking=False):
        turn._lock.release()
        return True
    return False

"""A worker that waits no longer than it is told, and never has two jobs."""

import threading

import pytest

from dra_driver.inventory.bounded import BoundedWorker, StillRunningError

LONG, AT_ONCE = 60.0, 0.0


def test_a_job_gives_its_result() -> None:
    assert BoundedWorker("test").run(lambda: 42, LONG) == 42


def test_a_job_raises_its_exception_in_the_caller() -> None:
    def fail() -> None:
        raise KeyError("key")

    with pytest.raises(KeyError, match="key"):
        BoundedWorker("test").run(fail, LONG)


def test_a_second_job_waits_for_the_late_one_and_gets_its_own_result() -> None:
    worker, gate = BoundedWorker("test"), threading.Event()
    with pytest.raises(StillRunningError):
        worker.run(gate.wait, AT_ONCE)
    started: list[int] = []
    with pytest.raises(StillRunningError):
        worker.run(lambda: started.append(1), AT_ONCE)
    assert started == []
    gate.set()
    assert worker.run(lambda: "mine", LONG) == "mine"


def test_a_job_that_gets_no_thread_does_not_keep_the_next_one_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = BoundedWorker("test")

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            worker.run(lambda: 1, LONG)

    assert worker.run(lambda: 42, LONG) == 42

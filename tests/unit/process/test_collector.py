"""The garbage collector, told to keep out of the way."""

import gc
from collections.abc import Iterator

import pytest

from dra_driver.process import collector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


def test_what_is_old_is_walked_over_seldom_however_often_that_is_said() -> None:
    young, middle, _ = gc.get_threshold()

    for _ in range(10):
        collector.seldom()

    assert (young, middle, 1000) == gc.get_threshold()


def test_what_is_paused_goes_on_as_it_was() -> None:
    with collector.paused():
        assert not gc.isenabled()
    assert gc.isenabled()

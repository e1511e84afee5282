"""What the look for a device plugin makes of a Node that is none."""

from collections.abc import Mapping
from typing import Any

import pytest

from dra_driver.errors import UnavailableError
from dra_driver.node.coexistence import DevicePluginWatch


@pytest.mark.parametrize(
    "answer",
    [{"status": [1]}, {"status": {"allocatable": "8"}}, {"status": {"allocatable": {1: "8"}}}],
    ids=str,
)
def test_an_answer_that_is_no_node_is_no_answer_and_the_next_one_counts(answer: dict[str, Any]) -> None:
    answers = [answer, {"status": {"allocatable": {"nvidia.com/gpu": "8"}}}]
    changes: list[dict[str, str] | None] = []
    watch = DevicePluginWatch(lambda: answers.pop(0), lambda: changes.append(watch.answer))

    assert [False, True] == [watch.check(), watch.check()]
    assert [{"nvidia.com/gpu": "8"}] == changes


def test_a_server_that_is_away_is_no_answer() -> None:
    def away() -> Mapping[str, Any]:
        raise UnavailableError("cannot get Node n: no answer")

    watch = DevicePluginWatch(away, lambda: None)

    assert (False, None) == (watch.check(), watch.answer)


def test_a_device_plugin_that_restarts_or_calls_its_gpus_unhealthy_still_hands_them_out() -> None:
    def node(allocatable: str, capacity: str) -> Mapping[str, Any]:
        return {
            "status": {
                "allocatable": {"nvidia.com/gpu": allocatable},
                "capacity": {"nvidia.com/gpu": capacity},
            }
        }

    answers = [node("8", "8"), node("0", "8"), node("0", "0")]
    watch = DevicePluginWatch(lambda: answers.pop(0), lambda: None)
    found = []
    for _ in range(3):
        watch.check()
        found.append(watch.answer)

    assert [{"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"}, {}] == found

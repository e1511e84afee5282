"""What the looks for other drivers make of files and Nodes that are none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dra_driver.errors import UnavailableError, UsageError
from dra_driver.node.coexistence import DevicePluginWatch, refuse_other_driver


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


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "Expecting property name"),
        ("[]", "it is of a version that is not known here"),
        (
            '{"checksum": 1, "v3": {"preparedClaims": {"uid": {}}}}',
            "it is of a version that is not known here",
        ),
        (None, "Is a directory"),
    ],
    ids=["damaged", "of another kind", "newer", "unreadable"],
)
def test_claims_of_the_official_driver_that_cannot_be_counted_are_not_none(
    tmp_path: Path, content: str | None, why: str
) -> None:
    checkpoint = tmp_path / "checkpoint.json"
    checkpoint.mkdir() if content is None else checkpoint.write_text(content)

    with pytest.raises(
        UsageError,
        match=rf"^{checkpoint} of the official driver may hold .* read \(.*{why}.*: drain the node",
    ):
        refuse_other_driver("gpu.nvidia.com", tmp_path, tmp_path)


@pytest.mark.parametrize("content", ['{"v1": {}}', '{"v2": {"preparedClaims": null}, "v1": {}}'])
def test_an_official_driver_without_claims_is_in_nobodys_way(tmp_path: Path, content: str) -> None:
    (tmp_path / "checkpoint.json").write_text(content)

    refuse_other_driver("gpu.nvidia.com", tmp_path, tmp_path)


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

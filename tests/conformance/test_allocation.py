"""Claims get what the upstream allocator gives them, for vectors that it has judged.

`allocation.jsonl` has clusters as they are; `features/` has small ones in which everything that the API allows
happens: slices that disagree, pools that are invalid, devices with nodes of their own, policies, binding conditions.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from dra_driver.allocation import AllocationError, allocate

_FILES = ("allocation.jsonl", "features/allocation.jsonl")
_CASES = [
    json.loads(line) for file in _FILES for line in (Path(__file__).parent / file).read_text().splitlines()
]


def answer(case: dict[str, Any]) -> dict[str, Any]:
    try:
        results = allocate(
            case["claims"],
            node=case["node"],
            slices=case["slices"],
            classes=case["classes"],
            allocated=case["allocated"],
        )
    except AllocationError as error:
        return {"error": str(error)}
    for result in results or ():
        for device in result["devices"]["results"]:
            if "shareID" in device:
                device["shareID"] = "*"
    return {"result": results}


@pytest.mark.parametrize("case", _CASES, ids=[case["id"] for case in _CASES])
def test_agrees_with_kubernetes(case: dict[str, Any]) -> None:
    assert case["expect"] == answer(case)


def test_objects_are_not_changed() -> None:
    cases = copy.deepcopy(_CASES[:40])

    for case in cases:
        answer(case)

    assert _CASES[:40] == cases

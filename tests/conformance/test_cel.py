"""Selectors give what Kubernetes' CEL gives, for vectors that it has judged (see cel_devices.json for the devices).

cel_edges.jsonl walks along the edges of the language and of each library, one function and operator after the other.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from dra_driver.cel import CompileError, EvaluationError
from dra_driver.selectors import device_value, selector

_HERE = Path(__file__).parent
_DEVICES = json.loads((_HERE / "cel_devices.json").read_text())
_FILES = ("cel.jsonl", "cel_edges.jsonl")
_CASES = [json.loads(line) for name in _FILES for line in (_HERE / name).read_text().splitlines()]


def answer(case: dict[str, Any]) -> dict[str, Any]:
    device = _DEVICES[case["device"]]
    try:
        matches = selector(case["expression"]).matches(device_value(device["driver"], device))
    except CompileError as error:
        return {"compileError": error.name}
    except EvaluationError as error:
        return {"error": error.name}
    return {"result": matches}


@pytest.mark.parametrize("case", _CASES, ids=[case["id"] for case in _CASES])
def test_agrees_with_kubernetes(case: dict[str, Any]) -> None:
    expected, actual = case["expect"], answer(case)

    if "result" in expected:
        assert expected == actual
    else:
        (kind,) = expected.keys() - {"name"}
        assert kind in actual
        assert expected["name"] in {None, actual[kind]}

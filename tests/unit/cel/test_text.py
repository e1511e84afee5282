"""Trees written as text mean what they meant."""

import json
from pathlib import Path
from typing import Any

import pytest

from dra_driver.cel import CompileError, EvaluationError
from dra_driver.cel.parser import parse
from dra_driver.cel.text import text
from dra_driver.selectors import device_value, selector

_VECTORS = Path(__file__).parents[2] / "conformance"
_DEVICES = json.loads((_VECTORS / "cel_devices.json").read_text())
_CASES = [json.loads(line) for line in (_VECTORS / "cel.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["d"].model == "a" && (device.driver == "x" || !has(device.attributes["d"].b))',
        "(1 + 2) * 3 - -4 > 5 - (6 - 7)",
        "(true ? 1 : 2) == 1",
        'device.attributes["d"].?a[?0].orValue("") in ["x", ?optional.of("y")]',
        '{"a": 1, "b": 2u}["a"] == 1.5 || b"\\x00\\xff" == null',
        'cel.bind(d, device.attributes["d"], d.a == 1 && d.b)',
        '["a"].exists(i, v, i == 0 && v.matches("^a"))',
        '["a"].map(v, v != "", v + "b").filter(v, v.size() > 1) == []',
        '"tab\\tquote\\" \\\\ ünïcode" == ""',
    ],
)
def test_text_in_our_own_style_comes_back_as_it_was(expression: str) -> None:
    assert expression == text(parse(expression))


@pytest.mark.parametrize(
    "expression", ["optional.of(1).optMap(v, v + 1) == optional.of(2)", "[2, 1].sortBy(v, v) == []"]
)
def test_macros_that_hide_a_variable_have_no_text(expression: str) -> None:
    assert text(parse(expression)) is None


@pytest.mark.parametrize("case", _CASES, ids=[case["id"] for case in _CASES])
def test_the_text_of_a_selector_gives_the_same_answer(case: Any) -> None:
    try:
        written = text(selector(case["expression"]).program.tree)
    except CompileError:
        written = None

    assert written is None or _answer(written, case) == _answer(case["expression"], case)


def _answer(expression: str, case: Any) -> bool | str:
    device = _DEVICES[case["device"]]
    try:
        return selector(expression).matches(device_value(device["driver"], device))
    except EvaluationError as error:
        return str(error)

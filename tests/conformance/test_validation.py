"""Our validation against objects that a Kubernetes 1.36 API server has judged (strict field validation)."""

import json
from pathlib import Path
from typing import Any

import pytest

from dra_driver.resource.problems import refusal
from dra_driver.resource.validation import validate
from dra_driver.selectors import compile_selector

_VECTORS = [
    json.loads(line)
    for line in Path(__file__).with_name("validation.jsonl").read_text(encoding="utf-8").splitlines()
]


# The API server shows the compiler's own text with a caret; ours says the same in other words.
_COMPILER_TEXT = {vector["id"] for vector in _VECTORS if "cel.expression: Invalid value" in vector["message"]}


@pytest.mark.parametrize("vector", _VECTORS, ids=[vector["id"] for vector in _VECTORS])
def test_an_object_gets_the_answer_of_a_real_api_server(vector: dict[str, Any]) -> None:
    problems = validate(vector["object"], compile_selector=compile_selector, admin_namespace=False)
    answer = refusal(vector["object"], problems).message if problems else ""

    assert vector["message"] == answer or vector["id"] in _COMPILER_TEXT
    assert vector["accepted"] == (not problems)
    # Where the server names no field (a quantity that is none), ours may.
    assert vector["paths"] == [problem.path for problem in problems] or not vector["paths"]

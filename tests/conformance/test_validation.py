"""Our validation against objects that a Kubernetes 1.36 API server has judged (strict field validation)."""

import json
from pathlib import Path
from typing import Any

import pytest

from dra_driver.resource.problems import refusal
from dra_driver.resource.validation import validate

_VECTORS = [
    json.loads(line)
    for line in Path(__file__).with_name("validation.jsonl").read_text(encoding="utf-8").splitlines()
]
# Refused by the CEL compiler, which `validate` takes as `compile_selector`.
_NEEDS_CEL = {
    "selector syntax",
    "selector string",
    "selector unknown var",
    "selector unknown field",
    "selector quantity op",
    "selector cost",
    "selector empty",
    "selector bad regex",
}


def _params() -> list[Any]:
    needs_cel = pytest.mark.xfail(strict=True, reason="needs a CEL compiler as compile_selector")
    return [
        pytest.param(vector, id=vector["id"], marks=[needs_cel] if vector["id"] in _NEEDS_CEL else [])
        for vector in _VECTORS
    ]


@pytest.mark.parametrize("vector", _params())
def test_an_object_gets_the_answer_of_a_real_api_server(vector: dict[str, Any]) -> None:
    problems = validate(vector["object"], admin_namespace=False)
    answer = refusal(vector["object"], problems).message if problems else ""

    assert vector["message"] == answer
    assert vector["accepted"] == (not problems)
    # Where the server names no field (a quantity that is none), ours may.
    assert vector["paths"] == [problem.path for problem in problems] or not vector["paths"]


def test_all_vectors_that_wait_for_cel_exist() -> None:
    assert {vector["id"] for vector in _VECTORS} >= _NEEDS_CEL

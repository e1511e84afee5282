"""An operand that decides the result wins over one that fails, on either side."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.cel import EvaluationError

FAILS = "m.missing"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"{FAILS} || true", True),
        (f"true || {FAILS}", True),
        (f"{FAILS} && false", False),
        (f"false && {FAILS}", False),
        (f"{FAILS} && {FAILS} && false", False),
        ("a || true", True),  # a is no bool, which is an error like any other
        ("[0, 1, 2].exists(v, 4 / v == 2)", True),
        ("[0, 1].all(v, 1 / v == 2)", False),
        ("{'a': 0, 'b': 1}.exists(k, v, 1 / v == 1)", True),
        ("cel.bind(unused, m.missing, true)", True),
        ("m.?key.orValue(m.missing) == 'value'", True),
        ("m.?key.or(optional.of(m.missing)).hasValue()", True),
        ("m != {'a': 1} && dyn(quantity('1')) != 'x'", True),
    ],
)
def test_the_operand_that_decides_wins(evaluate: Callable[..., Any], source: str, expected: bool) -> None:
    assert evaluate(source, a="no bool") is expected


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("m.first && m.second", "first"),
        ("m.first || false", "first"),
        ("true && m.second", "second"),
        ("[1, 2].exists(v, m.missing)", "missing"),
        ("[1, 2].map(v, m.missing) == []", "missing"),
        ("['first', 'second'].filter(v, m[v]) == []", "second"),
        ("cel.bind(used, m.missing, used)", "missing"),
    ],
)
def test_else_the_failure_is_the_result(evaluate: Callable[..., Any], source: str, name: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(source)

    assert caught.value.name == name

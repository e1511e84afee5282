"""Numbers, strings, lists and maps behave as CEL says, not as Python does."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.cel import EvaluationError

TRUE = [
    "7 / 2 == 3 && -7 / 2 == -3 && 7 % 4 == 3 && -7 % 4 == -3",
    "-9223372036854775808 < 0 && 0xff == 255 && 1e3 == 1000.0 && .5 == 0.5",
    "1 < 2u && 1u < 1.5 && dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) in [1.0]",
    "dyn(1) != 'a' && dyn(true) != 1 && dyn(null) == null",
    "[1, 2] + [3] == [1, 2, 3] && [[1], [2]] == [[1], [2]] && [1] != [1, 2]",
    "{'a': 1, 'b': 2} == {'b': 2, 'a': 1} && {1: 'x'}[1] == 'x' && {true: 1}[true] == 1",
    "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && 'a' < 'b' && 'é'.size() == 1 && b'é'.size() == 2",
    r"""'\u0041\x41\101\t' == 'AAA\t' && r'\d' == '\\d' && '''a'b''' == "a'b" && b'\377' == b'\xff'""",
    "2 in xs && !(7 in xs) && 'key' in m && xs[1] == 2 && m.key == 'value' && m['key'] == 'value'",
    "int('42') == 42 && int(3.9) == 3 && uint(3) == 3u && double('1.5') == 1.5 && bool('true') && string(1.0) == '1'",
    "string(true) == 'true' && string(b'x') == 'x' && bytes('x') == b'x' && string(1e21) == '1e+21' && string(100000.5) == '100000.5' && string(0.00001) == '1e-05'",
    "type(1) == int && type('') == string && type([]) == list && type(type(1)) == type && type(null) == null_type",
    "n == 1 ? true : false",
    "timestamp('2026-01-31T23:30:00+01:00').getHours() == 22 && timestamp(0).getFullYear() == 1970",
    "timestamp('2026-03-29T12:00:00Z').getHours('Europe/Berlin') == 14 && timestamp(0).getHours('-02:00') == 22",
    "duration('1h30m').getMinutes() == 90 && duration('90m') == duration('1.5h') && string(duration('90s')) == '90s'",
    "timestamp(60) - timestamp(0) == duration('1m') && timestamp(0) + duration('1m') == timestamp(60)",
    "!!true && !!!false && --n == 1 && - 9223372036854775808 < 0 && !!x == null",
    "has(m.key) && !has(m.other)",
    "[1, 2, 3,].size() == 3 && {'a': 1,}.size() == 1 && [,] == [] && {,} == {}",
    "{'a': 1, 'a': 2} == {'a': 2} && {1.5: 'x'}[1.5] == 'x'",
    "double('0x1p3') == 8.0 && double('1_0') == 10.0 && duration('1.5s').getMilliseconds() == 1500",
]
ERRORS = {
    "9223372036854775807 + n": "integer overflow",
    "n * -9223372036854775807 - 2": "integer overflow",
    "uint(n) - 2u": "unsigned integer overflow",
    "n / 0": "division by zero",
    "n % 0": "modulus by zero",
    "xs[3]": "index out of bounds: 3",
    "m.other": "no such key: other",
    "m['other']": "no such key: other",
    "x + 1": "no such overload",
    "x < 1": "no such overload",
    "!x": "no such overload",
    "-x": "no such overload",
    "x ? 1 : 2": "no such overload",
    "x.startsWith('a')": r"no such overload: startsWith\(null_type, string\)",
    "int(s)": "string to int: invalid syntax",
    "-9223372036854775808 % -n": "integer overflow",
    "timestamp(253402300799) + duration('1s')": "timestamp overflow",
    "double('NaN' + '') < 1.0": "NaN values cannot be ordered",
}


@pytest.mark.parametrize("source", TRUE)
def test_holds(evaluate: Callable[..., Any], source: str) -> None:
    assert evaluate(source) is True


@pytest.mark.parametrize(("source", "message"), ERRORS.items(), ids=ERRORS)
def test_fails_when_evaluated(evaluate: Callable[..., Any], source: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate(source, s="a")


def test_what_is_inferred_of_a_dynamic_value_does_not_bind_it(evaluate: Callable[..., Any]) -> None:
    assert evaluate("([1] + x).map(v, string(v)) + x.reverse().map(v, string(v))", x=["a"]) == ["1", "a", "a"]

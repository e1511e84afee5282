"""Expressions of strangers end soon, in an error of ours, whatever they are."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dra_driver.cel import CompileError, Environment, LimitError


@pytest.fixture
def soon() -> Iterator[None]:
    """By the processor's time that the test took, which is the same whatever else the machine does."""
    begin = time.thread_time()
    yield
    assert time.thread_time() - begin < 5


def bound(count: int, first: str, step: str, body: str) -> str:
    """cel.bind(v0, first, cel.bind(v1, step, ...body)), where step may name the variable before as `v`."""
    source = body
    for index in range(count, 0, -1):
        source = f"cel.bind(v{index}, {step.replace('v', f'v{index - 1}')}, {source})"
    return f"cel.bind(v0, {first}, {source})"


TOO_DEEP = {
    "parentheses": "(" * 1000 + "true" + ")" * 1000,
    "sums": "1" + "+1" * 1000 + " > 0",
    "fields": "x" + ".a" * 1000,
    "lists": "[" * 1000 + "]" * 1000,
    "loops": "".join(f"[1].all(v{index}, " for index in range(240)) + "true" + ")" * 240,
}
TOO_LONG = {
    "nested loops": "xs.all(a, xs.all(b, xs.all(c, xs.all(d, xs.all(e, true)))))",
    "range": "lists.range(1000000000).size() > 0",
    "quadratic": "lists.range(900).all(a, lists.range(900).all(b, a + b >= 0))",
    "string that doubles": bound(60, "s", "v + v", "v60.size() > 0"),
    "list that doubles, compared": bound(40, "[1, 2]", "[v, v]", "v40 == v40"),
    "list that doubles, printed": bound(40, "[1, 2]", "[v, v]", "'%s'.format([v40]) == ''"),
    "list that doubles, flattened": bound(40, "[1, 2]", "[v, v]", "v40.flatten(50).size() > 0"),
    "replace": f"'{'a' * 4000}'.replace('a', '{'b' * 4000}').size() > 0",
    "scans of a long string": f"cel.bind(v, '{'x' * 5000}', lists.range(50000).all(i, !v.contains('y')))",
    "comparisons of long strings": f"cel.bind(v, '{'x' * 4000}', lists.range(50000).all(i, v == '{'x' * 4000}'))",
    "matches of a long pattern": f"lists.range(9000).all(i, s.matches('{'(a|b)?' * 1000}'))",
    "distinct": "lists.range(5000).distinct().size() > 0",
    "sets": "sets.equivalent(lists.range(5000), lists.range(5000))",
    "a long body": f"lists.range(100000).all(i, i{'+i' * 200} >= 0)",
    "a body of many names": f"lists.range(100000).all(i, {'i == i && ' * 1000}true)",
    "membership of lists": "cel.bind(v, lists.range(1000), lists.range(90000).all(i, !(-1 in v)))",
    "patterns that are made": "lists.range(9000).all(i, s.matches('x{' + string(i % 999) + '}(a?){900}') || true)",
    "patterns that are refused": "lists.range(9000).all(i, s.matches('(' + string(i)) || true)",
    "many matches": f"cel.bind(v, '{'a' * 5000}', lists.range(90).all(i, v.findAll('a').size() > 0))",
    "quantities": "lists.range(190000).all(i, isQuantity(string(i)))",
    "versions": "lists.range(190000).all(i, isSemver('1.2.' + string(i)))",
    "addresses": "lists.range(190000).all(i, isIP('10.0.0.1' + string(i)) || true)",
    "queries": f"cel.bind(v, url('/?{'a&' * 4000}'), lists.range(9000).all(i, v.getQuery().size() > 0))",
    "times in zones": "lists.range(90000).all(i, timestamp(i).getHours('Europe/Berlin') >= 0)",
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("source", TOO_DEEP.values(), ids=TOO_DEEP)
def test_nesting_is_bounded(environment: Environment, source: str) -> None:
    with pytest.raises(CompileError, match=r"recursion limit|nests too deeply"):
        environment.compile(source)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("source", TOO_LONG.values(), ids=TOO_LONG)
def test_steps_are_bounded(evaluate: Callable[..., Any], source: str) -> None:
    with pytest.raises(LimitError, match="cost limit exceeded"):
        evaluate(source, xs=list(range(20)))


@pytest.mark.usefixtures("soon")
def test_keys_that_are_numbers_are_found_without_a_search(evaluate: Callable[..., Any]) -> None:
    many = "cel.bind(v, lists.range(20000).transformMap(i, x, x), lists.range(20000).all(i, v[i] == i))"

    assert evaluate(many) is True
    assert evaluate("{dyn(true): 'yes', dyn(2): 'two'}[true] == 'yes' && !(1 in {dyn(true): 'yes'})") is True


def test_an_amount_beyond_all_doubles_is_infinite(evaluate: Callable[..., Any]) -> None:
    assert evaluate("quantity('-1e500').asApproximateFloat()") == float("-inf")


def test_a_spent_budget_is_not_absorbed(evaluate: Callable[..., Any]) -> None:
    with pytest.raises(LimitError):
        evaluate("lists.range(1000000000).size() > 0 || true")


def test_the_length_of_an_expression_is_bounded(environment: Environment) -> None:
    with pytest.raises(CompileError, match="longer than 10240 bytes"):
        environment.compile(f"'{'é' * 5200}' == s")


def test_a_long_chain_of_ands_is_no_nesting(evaluate: Callable[..., Any]) -> None:
    assert evaluate(" && ".join(["n == 1"] * 1000)) is True


@pytest.mark.usefixtures("soon")
def test_regular_expressions_do_not_backtrack(evaluate: Callable[..., Any]) -> None:
    assert evaluate("s.matches('(a+)+$')", s="a" * 5000 + "!") is False


def test_threads_share_a_program(environment: Environment) -> None:
    program = environment.compile("xs.map(v, v * n).exists(v, v == n * 3) && cel.bind(y, n, y == n)")
    wrong: list[int] = []

    def run(number: int) -> None:
        values: dict[str, Any] = {"x": None, "a": None, "n": number, "s": "", "xs": [1, 2, 3], "m": {}}
        wrong.extend(number for _ in range(300) if program.evaluate(values) is not True)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []

"""What is refused before any value is seen, with its place."""

import pytest

from dra_driver.cel import CompileError, Environment

REFUSED = {
    "1 +": (1, 4, None),
    "!-n": (1, 2, None),
    "n = 1": (1, 3, None),
    "'abc": (1, 1, None),
    r"'\q' == s": (1, 1, None),
    "9223372036854775808 > n": (1, 1, None),
    "n == 1 ||\n  y == 2": (2, 3, "y"),
    "foo(n)": (1, 4, "foo"),
    "s.foo()": (1, 6, "foo"),
    "s.length": (1, 2, "length"),
    "if == 1": (1, 1, "if"),
    "m.in": (1, 3, None),
    "n == 'a'": (1, 3, "_==_"),
    "1 == 1.0": (1, 3, "_==_"),
    "n && true": (1, 3, "_&&_"),
    "true ? 1 : 'a'": (1, 6, "_?_:_"),
    "s.startsWith(1)": (1, 13, "startsWith"),
    "n in ['a']": (1, 3, "@in"),
    "quantity('1') > quantity('2')": (1, 15, "_>_"),
    "quantity('1') == '1'": (1, 15, "_==_"),
    "n.all(v, true)": (1, 1, None),
    "xs.all(1, true)": (1, 8, None),
    "xs.filter(v, v)": (1, 10, "_?_:_"),
    "has(n)": (1, 5, None),
    "has(m['a'])": (1, 6, None),
    "[1, 'a'] == []": (1, 5, None),
    "{'a': 1, 'b': 'c'} == {}": (1, 15, None),
    "[a, 'x'] == []": (1, 5, None),
    "s.matches('(')": (1, 11, None),
    "s.find('(') == ''": (1, 7, None),
    "duration('1 hour') > duration('1h')": (1, 10, None),
    "int('abc') == 1": (1, 4, None),
    "'%d'.format(['a']) == ''": (1, 12, None),
    "'%s'.format(['a', 'b']) == ''": (1, 12, None),
    "Thing{a: 1} == n": (1, 6, "Thing"),
    "includes(xs, 1)": (1, 9, "includes"),
    "math.greatest(1, 2) == 2": (1, 1, "math"),
}


@pytest.mark.parametrize(("source", "place"), REFUSED.items(), ids=map(repr, REFUSED))
def test_is_refused_with_its_place(
    environment: Environment, source: str, place: tuple[int, int, str | None]
) -> None:
    with pytest.raises(CompileError) as caught:
        environment.compile(source)

    error = caught.value
    assert (error.line, error.column, error.name) == place


def test_a_caret_stands_under_the_mistake(environment: Environment) -> None:
    with pytest.raises(CompileError) as caught:
        environment.compile("n == 1 &&\n\tother")

    assert caught.value.pretty() == (
        "ERROR: <input>:2:2: undeclared reference to 'other' (in container '')\n |  other\n | .^"
    )


def test_every_mistake_is_found(environment: Environment) -> None:
    with pytest.raises(CompileError) as caught:
        environment.compile("second(1) || first")

    assert [issue.name for issue in caught.value.issues] == ["second", "first"]


@pytest.mark.parametrize(
    "source",
    ["quantity('80GB').isInteger()", "semver('1').major() == 1", "s == 'a' || 1 / 0 == 1", "s.find(s) == ''"],
)
def test_constants_that_fail_only_when_evaluated_compile(environment: Environment, source: str) -> None:
    assert environment.compile(source).source == source


def test_the_type_of_the_result_is_known(environment: Environment) -> None:
    types = {source: str(environment.compile(source).type) for source in ("n", "m.key", "x", "xs.map(v, s)")}

    assert types == {"n": "int", "m.key": "any", "x": "dyn", "xs.map(v, s)": "list(string)"}

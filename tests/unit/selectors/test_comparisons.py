"""Selectors taken apart: conditions, comparisons, and the same selector with another constant."""

import pytest

from dra_driver.selectors.comparisons import conditions, with_constant

GPU = 'device.attributes["d"]'
MEMORY = 'device.capacity["d"].memory'


def _told(expression: str) -> list[tuple[str, str, str, object] | None]:
    found = (condition.comparison for condition in conditions(expression))
    return [None if one is None else (one.read.name, one.relation, one.kind, one.wanted) for one in found]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{MEMORY}.compareTo(quantity('80Gi')) >= 0", ("memory", ">=", "quantity", "80Gi")),
        (f"0 < {MEMORY}.compareTo(quantity('80Gi'))", ("memory", ">", "quantity", "80Gi")),
        (f"{MEMORY}.isGreaterThan(quantity('80Gi'))", ("memory", ">", "quantity", "80Gi")),
        (f"quantity('80Gi').isLessThan({MEMORY})", ("memory", ">", "quantity", "80Gi")),
        (f"quantity('80Gi').compareTo({MEMORY}) <= 0", ("memory", ">=", "quantity", "80Gi")),
        (f"!{MEMORY}.isLessThan(quantity('80Gi'))", ("memory", ">=", "quantity", "80Gi")),
        (f"{GPU}.cc.compareTo(semver('9.0.0')) == 0", ("cc", "==", "semver", "9.0.0")),
        (f"{GPU}.cc.compareTo(semver('v9', true)) == 0", ("cc", "==", "semver", "9.0.0")),
        (f"{GPU}.cc.compareTo(semver('9.0.0-rc', true)) == 0", None),
        (f"{GPU}.model == 'H100'", ("model", "==", "plain", "H100")),
        (f"3 <= {GPU}.peers", ("peers", ">=", "plain", 3)),
        (f"{GPU}.?model.orValue('') != 'T4'", ("model", "!=", "plain", "T4")),
        (f"{GPU}.model.contains('H100')", ("model", "contains", "plain", "H100")),
        (f"{GPU}.migCapable", ("migCapable", "==", "plain", True)),
        (f"!{GPU}.migCapable", ("migCapable", "==", "plain", False)),
        (f"has({GPU}.model)", ("model", "present", "plain", None)),
        (f"{GPU}.model.lowerAscii() == 'h100'", None),
        (f"{GPU}.model == {GPU}.brand", None),
        ("device.driver == 'd'", None),
    ],
)
def test_a_comparison_with_a_constant_is_understood(expression: str, expected: object) -> None:
    assert [expected] == _told(expression)


def test_a_selector_is_split_at_its_outer_ands() -> None:
    expression = f"has({GPU}.a) && ({GPU}.a == 'x' && ({GPU}.b || {GPU}.c))"

    texts = [condition.text for condition in conditions(expression)]

    assert [f"has({GPU}.a)", f'{GPU}.a == "x"', f"{GPU}.b || {GPU}.c"] == texts


def test_a_bound_variable_stays_bound_in_each_part() -> None:
    (one, other) = conditions(f"cel.bind(a, {GPU}, a.x == 1 && a.y)")

    assert (f"cel.bind(a, {GPU}, a.x == 1)", f"cel.bind(a, {GPU}, a.y)") == (one.text, other.text)


def test_a_selector_whose_parts_have_no_text_is_left_whole() -> None:
    expression = f"{GPU}.?a.optMap(v, v == 'x').orValue(false) && true"

    assert [expression] == [condition.text for condition in conditions(expression)]


def test_only_the_constant_is_replaced() -> None:
    expression = f"has({GPU}.a) &&\n  {MEMORY}.isGreaterThan( quantity('80Gi') )  && true"
    comparison = conditions(expression)[1].comparison
    assert comparison is not None

    assert expression.replace("80Gi", "79Gi") == with_constant(expression, comparison, "79Gi")


def test_a_number_is_replaced_with_its_sign() -> None:
    (condition,) = conditions(f"{GPU}.a >= -10")
    assert condition.comparison is not None

    assert f"{GPU}.a >= 7" == with_constant(f"{GPU}.a >= -10", condition.comparison, 7)

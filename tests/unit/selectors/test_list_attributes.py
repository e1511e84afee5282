"""Attributes that are lists, behind an option: the answers are those of Kubernetes with DRAListTypeAttributes on."""

from typing import Any

import pytest

from dra_driver.cel import CompileError, EvaluationError
from dra_driver.selectors import compile_selector, device_value, selector
from dra_driver.selectors.reads import Read, reads

_DEVICE: dict[str, Any] = {
    "attributes": {
        "type": {"string": "gpu"},
        "minor": {"int": 0},
        "nodes": {"ints": [0, 1]},
        "names": {"strings": ["a", "b"]},
        "flags": {"bools": [True, False]},
        "versions": {"versions": ["1.2.3", "2.0.0"]},
    }
}
_TRUE = [
    "a.nodes.includes(1) && a.nodes.includes(1.0) && !a.nodes.includes(2) && !a.nodes.includes('1')",
    "a.type.includes('gpu') && !a.type.includes('g') && a.minor.includes(0)",
    "1 in a.nodes && a.nodes.size() == 2 && a.nodes == [0, 1] && a.nodes[1] == 1",
    "a.nodes.exists(n, n == 1) && a.nodes.all(n, n < 2) && a.nodes.sum() == 1 && a.nodes.isSorted()",
    "a.names.join('-') == 'a-b' && a.flags.includes(true) && a.flags[0]",
    "a.versions.exists(v, v.isGreaterThan(semver('1.5.0'))) && a.versions.includes(semver('1.2.3'))",
    "a.?other.orValue([]).size() == 0 && a.?nodes.orValue([]).includes(1)",
    "sets.intersects(a.nodes, [1, 5]) && !sets.contains(a.nodes, [5])",
    "lists.range(48).includes(47) && lists.range(49).includes(3)",
]
_ERRORS = {
    "a.nodes": "CEL result of type list could not be converted to bool",
    "a.nodes[5] == 0": "index out of bounds: 5",
    "a.other.includes(1)": "no such key: other",
    "lists.range(49).includes(48)": "cannot be applied to lists longer than 48 values",
    "a.minor.all(x, true)": "got 'int', expected iterable type",
    "dyn(1)": "CEL result of type int could not be converted to bool",
}


def _selector(condition: str) -> str:
    return f'cel.bind(a, device.attributes["d"], {condition})'


@pytest.mark.parametrize("condition", _TRUE)
def test_lists_and_single_values_are_read_alike(condition: str) -> None:
    value = device_value("d", _DEVICE, lists=True)

    assert selector(_selector(condition), lists=True).matches(value) is True


@pytest.mark.parametrize(("condition", "message"), _ERRORS.items(), ids=_ERRORS)
def test_what_fails_fails_when_it_is_evaluated(condition: str, message: str) -> None:
    found = selector(_selector(condition), lists=True)

    with pytest.raises(EvaluationError, match=message):
        found.matches(device_value("d", _DEVICE, lists=True))


def test_without_the_option_a_device_with_a_list_fails_every_expression() -> None:
    with pytest.raises(EvaluationError, match="attribute nodes: unsupported attribute value"):
        device_value("d", _DEVICE)


@pytest.mark.parametrize(
    "expression",
    ['device.attributes["d"].x.includes(1)', 'device.attributes["d"].x.all(y, true)', "dyn(true)"],
)
def test_without_the_option_expressions_that_need_it_do_not_compile(expression: str) -> None:
    with pytest.raises(CompileError):
        selector(expression)
    assert compile_selector(expression) is not None
    assert compile_selector(expression, lists=True) is None


def test_a_list_of_what_is_no_version_fails_on_the_attribute() -> None:
    with pytest.raises(EvaluationError, match="attribute v: parse semantic version"):
        device_value("d", {"attributes": {"v": {"versions": ["1.2"]}}}, lists=True)


def test_includes_reads_the_attribute_it_is_called_on() -> None:
    found = reads('device.attributes["d"].nodes.includes(1)', lists=True)

    assert found == frozenset({Read("attributes", "d", "nodes")})

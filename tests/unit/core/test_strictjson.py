"""JSON whose repeated keys are still seen, and that may be nested as deep as an API server lets it be."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver import strictjson

TEXT = '{"a": 1, "b": [{"c": 1, "c": 2, "d": {}}], "a": 3}'


def test_an_object_is_read_as_json_reads_it() -> None:
    assert json.loads(TEXT) == strictjson.loads(TEXT)


def test_repeated_keys_are_told_with_their_place() -> None:
    assert [((), "a"), (("b", 0), "c")] == list(strictjson.repeated(strictjson.loads(TEXT)))


def test_an_object_without_repetition_is_a_plain_dict() -> None:
    loaded = strictjson.loads('{"a": {"b": [1]}}')

    assert (dict, [], []) == (type(loaded), list(strictjson.repeated(loaded)), list(strictjson.repeated(7)))


@pytest.mark.parametrize("load", [strictjson.loads, strictjson.loads_plain])
@pytest.mark.parametrize("depth", [10, 97, 98, 500, 900, 5_000, 200_000])
def test_what_is_nested_too_deep_hides_nothing_else(load: Callable[[str], Any], depth: int) -> None:
    deep = '[{"}": "]"}, ' * depth + r'"\\", "\"["' + "]" * depth
    loaded = load(f'[{{"name": "a", "parameters": {deep}}}, {{"name": "b", "x": {deep}}}, {{"name": "c"}}]')

    assert ["a", "b", "c"] == [item["name"] for item in loaded]
    assert (depth + 3 > strictjson.DEEPEST) == (strictjson.TOO_DEEP in json.dumps(loaded))


@pytest.mark.parametrize("end", ["", "]" * 4_999, "]" * 5_001, "}" * 5_000])
def test_what_is_nested_too_deep_and_no_json_is_an_error_all_the_same(end: str) -> None:
    with pytest.raises(ValueError, match=r"delimiter|Extra data|Expecting"):
        strictjson.loads("[" * 5_000 + end)


texts = st.text(alphabet='[]{}"\\\n:x', max_size=5)
values = st.recursive(
    texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


@given(value=values, around=st.sampled_from([0, 20, 30, 90, 98, 99, 100, 150]))
def test_just_what_is_deeper_is_cut_whatever_its_texts_look_like(value: Any, around: int) -> None:
    for _ in range(around):
        value = [value]

    assert cut(value, strictjson.DEEPEST) == strictjson.loads_plain(json.dumps(value))


def cut(value: Any, levels: int) -> Any:
    if isinstance(value, list | dict) and not levels:
        return strictjson.TOO_DEEP
    if isinstance(value, list):
        return [cut(inner, levels - 1) for inner in value]
    if isinstance(value, dict):
        return {name: cut(inner, levels - 1) for name, inner in value.items()}
    return value


def test_a_key_that_is_repeated_deep_down_is_told_too() -> None:
    text = '{"a":' * 90 + '{"b": 1, "b": 2}' + "}" * 90

    assert [(("a",) * 90, "b")] == list(strictjson.repeated(strictjson.loads(text)))

"""JSON whose repeated keys are still seen, and that may be nested as deep as an API server lets it be."""

import json
from collections.abc import Callable
from typing import Any

import pytest

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
@pytest.mark.parametrize("depth", [10, 5_000, 200_000])
def test_what_is_nested_too_deep_hides_nothing_else(load: Callable[[str], Any], depth: int) -> None:
    deep = '[{"}": "]"}, ' * depth + r'"\\", "\"["' + "]" * depth
    loaded = load(f'[{{"name": "a", "parameters": {deep}}}, {{"name": "b", "x": {deep}}}, {{"name": "c"}}]')

    assert ["a", "b", "c"] == [item["name"] for item in loaded]
    assert (depth > 1000) == (strictjson.TOO_DEEP in json.dumps(loaded))


@pytest.mark.parametrize("end", ["", "]" * 4_999, "]" * 5_001, "}" * 5_000])
def test_what_is_nested_too_deep_and_no_json_is_an_error_all_the_same(end: str) -> None:
    with pytest.raises(ValueError, match=r"delimiter|Extra data|Expecting"):
        strictjson.loads("[" * 5_000 + end)


def test_depth_costs_nothing() -> None:
    text = '{"a":' * 900 + '{"b": 1, "b": 2}' + "}" * 900

    assert [(("a",) * 900, "b")] == list(strictjson.repeated(strictjson.loads(text)))

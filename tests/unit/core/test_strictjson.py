"""JSON whose repeated keys are still seen."""

import json

from dra_driver import strictjson

TEXT = '{"a": 1, "b": [{"c": 1, "c": 2, "d": {}}], "a": 3}'


def test_an_object_is_read_as_json_reads_it() -> None:
    assert json.loads(TEXT) == strictjson.loads(TEXT)


def test_repeated_keys_are_told_with_their_place() -> None:
    assert [((), "a"), (("b", 0), "c")] == list(strictjson.repeated(strictjson.loads(TEXT)))


def test_an_object_without_repetition_is_a_plain_dict() -> None:
    loaded = strictjson.loads('{"a": {"b": [1]}}')

    assert (dict, [], []) == (type(loaded), list(strictjson.repeated(loaded)), list(strictjson.repeated(7)))


def test_depth_costs_nothing() -> None:
    text = '{"a":' * 900 + '{"b": 1, "b": 2}' + "}" * 900

    assert [(("a",) * 900, "b")] == list(strictjson.repeated(strictjson.loads(text)))

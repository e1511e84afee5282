"""What expressions read: devices that are equal in it get one answer, so it must never be too little."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dra_driver.cel import CompileError, EvaluationError
from dra_driver.selectors import device_value, selector
from dra_driver.selectors.device import is_readable
from dra_driver.selectors.reads import Read, content, projected, reads

Object = dict[str, Any]
_VECTORS = Path(__file__).parents[2] / "conformance"
_DEVICES = json.loads((_VECTORS / "cel_devices.json").read_text())
_CASES = [json.loads(line) for line in (_VECTORS / "cel.jsonl").read_text().splitlines()]
GPU = 'device.attributes["gpu.nvidia.com"]'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", set()),
        ("device.driver == 'x' && !device.allowMultipleAllocations", set()),
        (f"{GPU}.model == 'a' || {GPU}['index'] == 1", {f"{GPU}.index", f"{GPU}.model"}),
        (f"{MEMORY}.compareTo(quantity('1Gi')) > 0", {MEMORY}),
        (f"has({GPU}.model) && 'index' in {GPU}", {f"{GPU}.index", f"{GPU}.model"}),
        (f"{GPU}.?model.orValue('') == ''", {f"{GPU}.model"}),
        (f"cel.bind(a, {GPU}, a.model == 'x' && a.index == 1)", {f"{GPU}.index", f"{GPU}.model"}),
        ("['x'].exists(device, device == 'x')", set()),
    ],
)
def test_values_that_are_named_are_found(expression: str, expected: set[str]) -> None:
    assert expected == {str(read) for read in reads(expression) or ()}


@pytest.mark.parametrize(
    "expression",
    [
        f"{GPU}.exists(name, name == 'model')",
        f"size({GPU}) > 1",
        "'gpu.nvidia.com' in device.attributes",
        f"{GPU}['mo' + 'del'] == 'x'",
        f"['model'].all(name, {GPU}[name] == 'x')",
        "device == device",
        "cel.bind(d, device, [d].size() == 1)",
        'device.attributes[?"d"].hasValue()',
    ],
)
def test_what_uses_whole_maps_counts_as_reading_everything(expression: str) -> None:
    assert reads(expression) is None


def test_an_attribute_is_found_by_its_bare_and_by_its_qualified_name() -> None:
    (read,) = reads(f"{GPU}.model == 'x'") or [Read("capacity", "", "")]
    bare, qualified = ({"attributes": {name: {"string": "x"}}} for name in ("model", "gpu.nvidia.com/model"))

    assert ["x", "x"] == [read.shown("gpu.nvidia.com", device) for device in (bare, qualified)]
    assert (None, "x") == (read.shown("other", bare), read.shown("other", qualified))


@pytest.mark.parametrize(
    "value",
    [{"strings": ["a"]}, {"version": "1.2"}, {"version": ["1.2.3"]}, {"string": 1}, {}, {"int": True}],
)
def test_a_device_with_a_value_of_no_known_type_is_told_from_others(value: Object) -> None:
    assert not is_readable({"attributes": {"a": {"string": "x"}, "b": value}})


def _variants(device: Object) -> Iterator[Object]:
    """The device, and others that differ from it in one value."""
    yield device
    for family in ("attributes", "capacity"):
        for name in device.get(family, {}):
            yield {**device, family: {key: value for key, value in device[family].items() if key != name}}
    for name, value in device.get("attributes", {}).items():
        other = {"string": "1.2.3"} if "version" in value else {"string": "other"}
        yield {**device, "attributes": {**device["attributes"], name: other}}
    for name in device.get("capacity", {}):
        yield {**device, "capacity": {**device["capacity"], name: {"value": "1"}}}
    yield {**device, "allowMultipleAllocations": not device.get("allowMultipleAllocations")}


def _answer(expression: str, device: Object) -> bool | str:
    try:
        return selector(expression).matches(device_value(device["driver"], device))
    except EvaluationError as error:
        return str(error)


@pytest.mark.parametrize("case", _CASES, ids=[case["id"] for case in _CASES])
def test_devices_with_the_same_content_get_the_same_answer_and_so_does_what_is_read_of_them(
    case: Object,
) -> None:
    try:
        wanted = reads(case["expression"])
    except CompileError:
        wanted = None
    answers: dict[Any, set[Any]] = {}

    if wanted is not None:
        for device in filter(is_readable, _variants(_DEVICES[case["device"]])):
            key = content(wanted, device["driver"], device)
            answers.setdefault(key, set()).add(_answer(case["expression"], device))

            part = projected(wanted, device["driver"], device)
            answers[key].add(_answer(case["expression"], {**part, "driver": device["driver"]}))

    assert [] == [found for found in answers.values() if len(found) > 1]

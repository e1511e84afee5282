"""What selectors see of a device, and what an expression must give."""

from typing import Any

import pytest

from dra_driver.cel import CompileError, EvaluationError
from dra_driver.selectors import compile_selector, device_value, selector

DRIVER = "gpu.nvidia.com"
DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "H100"},
        "index": {"int": 3},
        "mig": {"bool": False},
        "driverVersion": {"version": "580.65.6"},
        "resource.kubernetes.io/numaNode": {"int": 0},
        f"{DRIVER}/model": {"string": "qualified"},
    },
    "capacity": {"memory": {"value": "80Gi"}},
    "allowMultipleAllocations": True,
}


def matches(expression: str, device: dict[str, Any] = DEVICE) -> bool:
    return selector(expression).matches(device_value(DRIVER, device))


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'gpu.nvidia.com' && device.allowMultipleAllocations",
        "device.attributes['gpu.nvidia.com'].index == 3 && !device.attributes['gpu.nvidia.com'].mig",
        "device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('570.0.0'))",
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) == 0",
        "device.attributes['resource.kubernetes.io'].numaNode == 0",
        "device.attributes['gpu.nvidia.com'].model == 'qualified'",
        "device.attributes['unknown'] == {} && !('unknown' in device.attributes) && size(device.attributes) == 2",
        "has(device.attributes.unknown) && device.attributes[?'unknown'].hasValue()",
        "!has(device.attributes['unknown'].x) && device.attributes['unknown'].?x.orValue(1) == 1",
    ],
)
def test_a_device_is_seen_as_kubernetes_shows_it(expression: str) -> None:
    assert matches(expression)


def test_an_unknown_name_fails_and_is_named() -> None:
    with pytest.raises(EvaluationError, match="no such key: pool") as caught:
        matches("device.attributes['gpu.nvidia.com'].pool == 'a'")

    assert caught.value.name == "pool"


@pytest.mark.parametrize("name", ["name", "pool", "node", "taints"])
def test_what_selectors_do_not_see_is_refused(name: str) -> None:
    assert compile_selector(f"device.{name} == 'a'") == (
        f"compilation failed: ERROR: <input>:1:7: undefined field '{name}'\n"
        f" | device.{name} == 'a'\n"
        " | ......^"
    )


def test_a_result_that_is_never_a_bool_is_refused() -> None:
    with pytest.raises(CompileError, match="must evaluate to bool or the unknown type, not int"):
        selector("1 + 1")


def test_a_result_that_turns_out_to_be_no_bool_fails() -> None:
    with pytest.raises(EvaluationError, match="CEL result of type string could not be converted to bool"):
        matches("device.attributes['gpu.nvidia.com'].model")


def test_an_attribute_may_be_the_answer() -> None:
    assert not matches("device.attributes['gpu.nvidia.com'].mig")


def test_a_device_with_a_list_attribute_fails_every_expression() -> None:
    with pytest.raises(EvaluationError, match="attribute numa: unsupported attribute value"):
        matches("true", {"name": "gpu-0", "attributes": {"numa": {"ints": [0, 1]}}})


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("device.attributes.all(a, device.attributes.all(b, a != b))", True),
        (
            "device.attributes.all(a, a.size() < 64 && device.attributes[a].all(k, v, k.matches('^[a-z]+$')))",
            True,
        ),
        ("lists.range(1000).all(n, n >= 0)", True),
        (
            (
                "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c,"
                " device.attributes.all(d, a.matches(b) && c.matches(d)))))"
            ),
            False,
        ),
        ("lists.range(10000000).all(n, n >= 0)", False),
    ],
)
def test_an_expression_that_may_cost_too_much_is_refused_by_the_api_server(
    expression: str, allowed: bool
) -> None:
    assert compile_selector(expression) == (None if allowed else "too complex, exceeds cost limit")
    assert selector(expression).expression == expression  # the scheduler would try it


def test_a_selector_that_compiles_has_nothing_to_say() -> None:
    assert compile_selector("device.driver == 'gpu.nvidia.com'") is None


def test_a_selector_is_compiled_once() -> None:
    assert selector("true") is selector("true")

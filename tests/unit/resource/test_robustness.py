"""No JSON makes validation fail itself: every value of every example is replaced by every kind of value."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from dra_driver.resource.problems import refusal
from dra_driver.resource.validation import validate

_STRANGE: list[Any] = [
    None,
    "",
    "x/y",
    "\ud800",
    0,
    -1,
    2**70,
    1.5,
    True,
    [],
    [None],
    [{}],
    ["x"],
    {},
    {"x": None},
]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key of it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


@pytest.fixture
def rich_slice(resource_slice: dict[str, Any]) -> dict[str, Any]:
    """A slice with something in every field of its devices."""
    term = {
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }
    policy = {"default": "1", "validRange": {"min": "1", "max": "9", "step": "1"}, "validValues": ["1"]}
    resource_slice["spec"] |= {
        "perDeviceNodeSelection": True,
        "nodeSelector": {"nodeSelectorTerms": [term]},
        "sharedCounters": [{"name": "c", "counters": {"m": {"value": "1"}}}],
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {"x": {"string": "a", "versions": ["1.0.0"]}},
                "capacity": {"m": {"value": "10", "requestPolicy": policy}},
                "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}],
                "nodeSelector": {"nodeSelectorTerms": [term]},
                "taints": [{"key": "a", "value": "b", "effect": "None", "timeAdded": "2026-11-30T12:00:00Z"}],
                "bindingConditions": ["a"],
                "bindingFailureConditions": ["b"],
                "allowMultipleAllocations": True,
                "nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "m"}}},
            }
        ],
    }
    resource_slice["metadata"] |= {
        "labels": {"a": "b"},
        "annotations": {"a": "b"},
        "finalizers": ["a/b"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1", "controller": True}
        ],
    }
    return resource_slice


@pytest.fixture
def rich_claim(allocated_claim: dict[str, Any]) -> dict[str, Any]:
    """A claim with something in every field."""
    wish = {
        "deviceClassName": "x",
        "selectors": [{"cel": {"expression": "true"}}],
        "allocationMode": "All",
        "count": 1,
        "tolerations": [{"key": "a", "operator": "Exists", "value": "b", "effect": "None"}],
        "capacity": {"requests": {"m": "1"}},
        "derivedAttributes": [{"name": "a/b", "expression": "1"}],
    }
    allocated_claim["spec"]["devices"] = {
        "requests": [
            {"name": "gpu", "exactly": {**wish, "adminAccess": True}},
            {"name": "any", "firstAvailable": [{"name": "a", **copy.deepcopy(wish)}]},
        ],
        "constraints": [
            {"requests": ["gpu", "any/a"], "matchAttribute": "a.b/c"},
            {"distinctAttribute": "a.b/c"},
        ],
        "config": [{"requests": ["gpu"], "opaque": {"driver": "a.b", "parameters": {"x": 1}}}],
    }
    status = allocated_claim["status"]
    status["allocation"]["devices"]["results"][0] |= {
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "bindingConditions": ["a"],
        "bindingFailureConditions": ["b"],
        "consumedCapacity": {"m": "1"},
        "shareID": "0b8f7a52-4c5e-4d7e-9a57-3a9e1f2d6c11",
    }
    status["devices"][0]["networkData"] = {
        "interfaceName": "eth0",
        "ips": ["10.0.0.1/8"],
        "hardwareAddress": "x",
    }
    return allocated_claim


@pytest.mark.parametrize("name", ["rich_slice", "rich_claim", "template", "device_class", "taint_rule"])
def test_validation_answers_whatever_it_is_given(request: pytest.FixtureRequest, name: str) -> None:
    obj: dict[str, Any] = request.getfixturevalue(name)
    validate(obj)
    for container, key in list(_places(obj)):
        original = container[key]
        for strange in _STRANGE:
            container[key] = copy.deepcopy(strange)
            problems = validate(obj, admin_namespace=False)
            if problems:
                assert refusal(obj, problems).code in {400, 422}
        container[key] = original

"""Rules of ResourceSlices that the vectors of a real server do not cover."""

from typing import Any

import pytest

from dra_driver.resource.validation import validate

Object = dict[str, Any]


def texts(obj: Object) -> list[str]:
    return [str(problem) for problem in validate(obj, lists=True)]


def test_without_the_gate_an_attribute_with_a_list_has_no_value(resource_slice: Object) -> None:
    resource_slice["spec"]["devices"][0]["attributes"] = {"x": {"ints": [1]}, "y": {"ints": [1], "int": 1}}

    assert ['spec.devices[0].attributes[x]: Invalid value: "": exactly one value must be specified'] == [
        str(problem) for problem in validate(resource_slice)
    ]


def test_an_unknown_field_in_a_map_is_named_as_decoders_do(resource_slice: Object) -> None:
    resource_slice["spec"]["devices"][0]["attributes"] = {"x.com/y": {"int": 1, "unit": "GB"}}

    assert ['unknown field "spec.devices[0].attributes.x.com/y.unit"'] == texts(resource_slice)


def test_an_empty_slice_is_fine(resource_slice: Object) -> None:
    del resource_slice["spec"]["devices"]

    assert [] == texts(resource_slice)


@pytest.mark.parametrize(
    ("extra", "limit"),
    [
        ({}, 128),
        ({"taints": [{"key": "a", "effect": "None"}]}, 64),
        ({"consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]}, 64),
        ({"attributes": {"nodes": {"ints": [0, 1]}}}, 64),
    ],
)
def test_one_device_with_extras_halves_the_slice(resource_slice: Object, extra: Object, limit: int) -> None:
    devices = [{"name": f"gpu-{i}"} for i in range(limit)]
    devices[0] |= extra
    resource_slice["spec"]["devices"] = devices
    assert [] == texts(resource_slice)

    devices.append({"name": "one-more"})
    assert [f"spec.devices: Too many: {limit + 1}: must have at most {limit} items"] == texts(resource_slice)


def test_counters_and_devices_share_no_slice_even_when_empty(resource_slice: Object) -> None:
    resource_slice["spec"]["devices"] = []
    resource_slice["spec"]["sharedCounters"] = [{"name": "c", "counters": {"m": {"value": "1"}}}]

    assert ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'] == texts(
        resource_slice
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"allNodes": True},
            (
                'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, '
                "`allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"
            ),
        ),
        ({"allNodes": False}, "spec.allNodes: Invalid value: false: must be either unset or set to true"),
        (
            {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": []}},
            "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
        ),
    ],
)
def test_just_one_way_to_name_the_nodes(resource_slice: Object, fields: Object, expected: str) -> None:
    resource_slice["spec"] |= fields

    assert expected in texts(resource_slice)


def test_an_empty_node_name_is_refused(resource_slice: Object) -> None:
    resource_slice["spec"]["nodeName"] = ""

    assert 'spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string' in texts(
        resource_slice
    )


def test_a_device_names_its_nodes_only_where_the_slice_says_so(resource_slice: Object) -> None:
    (device,) = resource_slice["spec"]["devices"]
    device["nodeName"] = "n2"
    assert ["spec.devices[0]"] == [problem.path for problem in validate(resource_slice)]

    del resource_slice["spec"]["nodeName"]
    resource_slice["spec"]["perDeviceNodeSelection"] = True
    assert [] == texts(resource_slice)

    del device["nodeName"]
    assert ["spec.devices[0]"] == [problem.path for problem in validate(resource_slice)]


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ({}, 'Invalid value: "": exactly one value must be specified'),
        ({"ints": []}, ".ints: Invalid value: []: must not be empty if specified"),
        (
            {"versions": ["1.0.0", "1"]},
            '.versions[1]: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0',
        ),
        ({"string": "é" * 33}, ".string: Too long: may not be more than 64 bytes"),
        (
            {"version": "1.2.3\n"},
            '.version: Invalid value: "1.2.3\\n": must be a string compatible with semver.org spec 2.0.0',
        ),
    ],
)
def test_a_bad_attribute_is_refused(resource_slice: Object, attribute: Object, expected: str) -> None:
    resource_slice["spec"]["devices"][0]["attributes"] = {"x": attribute}
    separator = "" if expected.startswith(".") else ": "

    assert [f"spec.devices[0].attributes[x]{separator}{expected}"] == texts(resource_slice)


def test_a_list_counts_with_each_of_its_values(resource_slice: Object) -> None:
    resource_slice["spec"]["devices"][0]["attributes"] = {"x": {"ints": list(range(48))}, "y": {"int": 1}}

    assert [
        "spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48"
    ] == texts(resource_slice)


@pytest.mark.parametrize("name", ["a/b/c", "gpu.nvidia.com/uuid", "Gpu.nvidia.com/uuid", "_x", "A" * 32])
def test_these_attribute_names_pass(resource_slice: Object, name: str) -> None:
    resource_slice["spec"]["devices"][0]["attributes"] = {name: {"int": 1}}

    assert [] == texts(resource_slice)


@pytest.mark.parametrize("name", ["", "/x", "x.y/", "1x", "x\n", "A" * 33, "a" * 64 + "/x"])
def test_these_attribute_names_do_not(resource_slice: Object, name: str) -> None:
    resource_slice["spec"]["devices"][0]["attributes"] = {name: {"int": 1}}

    assert {"spec.devices[0].attributes"} == {problem.path for problem in validate(resource_slice)}


def test_a_request_policy_needs_a_shared_device(resource_slice: Object) -> None:
    capacity = {"m": {"value": "10", "requestPolicy": {"default": "1"}}}
    resource_slice["spec"]["devices"][0]["capacity"] = capacity

    assert [
        "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"
    ] == texts(resource_slice)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"validValues": ["1"]}, ["default: Required value: required when validValues is defined"]),
        ({"validRange": {"min": "1"}}, ["default: Required value: required when validRange is defined"]),
        (
            {"default": "1", "validValues": ["1", "11"]},
            ['validValues[1]: Invalid value: "11": option is larger than capacity value: 10'],
        ),
        ({"default": "1", "validValues": ["1", "1"]}, ['validValues[1]: Duplicate value: "1"']),
        (
            {"default": "5", "validRange": {"min": "11", "max": "3"}},
            [
                'validRange.min: Invalid value: "11": min is larger than capacity value: 10',
                'validRange.min: Invalid value: "5": default is less than min: 11',
                'validRange.max: Invalid value: "11": min is larger than max: 3',
                'validRange.max: Invalid value: "5": default is more than max: 3',
            ],
        ),
        (
            {"default": "9", "validRange": {"min": "9", "step": "2"}},
            ['validRange.step: Invalid value: "2": one step 11 is larger than capacity value: 10'],
        ),
        (
            {"default": "2", "validRange": {"min": "1", "step": "0"}},
            ['validRange.step: Invalid value: "2": value is not a multiple of a given step (0) from (1)'],
        ),
        ({"default": "1500m", "validRange": {"min": "500m", "max": "2500m", "step": "500m"}}, []),
    ],
)
def test_request_policies(resource_slice: Object, policy: Object, expected: list[str]) -> None:
    device = {"allowMultipleAllocations": True, "capacity": {"m": {"value": "10", "requestPolicy": policy}}}
    resource_slice["spec"]["devices"][0] |= device

    prefix = "spec.devices[0].capacity[m].requestPolicy."
    assert [prefix + text for text in expected] == texts(resource_slice)


def test_counter_sets_are_named_once_each(resource_slice: Object) -> None:
    del resource_slice["spec"]["devices"]
    counters = {"counters": {"m": {"value": "1"}}}
    resource_slice["spec"]["sharedCounters"] = [{"name": "c", **counters}, {"name": "c", **counters}]

    assert ['spec.sharedCounters[1]: Duplicate value: "c"'] == texts(resource_slice)


def test_a_device_takes_from_a_counter_set_once(resource_slice: Object) -> None:
    entry = {"counterSet": "c", "counters": {"m": {"value": "1"}}}
    resource_slice["spec"]["devices"][0]["consumesCounters"] = [entry, entry]

    assert ['spec.devices[0].consumesCounters[1]: Duplicate value: "c"'] == texts(resource_slice)


def test_binding_conditions_come_in_pairs_without_overlap(resource_slice: Object) -> None:
    device = resource_slice["spec"]["devices"][0]
    device["bindingConditions"] = ["Ready", "Ready"]
    device["bindingFailureConditions"] = ["Ready"]
    assert [
        'spec.devices[0].bindingConditions[1]: Duplicate value: "Ready"',
        (
            'spec.devices[0].bindingFailureConditions[0]: Invalid value: "Ready": '
            "bindingFailureConditions must not overlap with bindingConditions"
        ),
    ] == texts(resource_slice)

    device |= {"bindingConditions": None, "bindingFailureConditions": ["Failed"]}
    assert ["spec.devices[0].bindingConditions"] == [p.path for p in validate(resource_slice)]


def test_17_taints_are_too_many(resource_slice: Object) -> None:
    taints = [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(17)]
    resource_slice["spec"]["devices"][0]["taints"] = taints

    assert ["spec.devices[0].taints: Too many: 17: must have at most 16 items"] == texts(resource_slice)


def test_a_slice_has_no_namespace(resource_slice: Object) -> None:
    resource_slice["metadata"]["namespace"] = "default"

    assert ["metadata.namespace: Forbidden: not allowed on this type"] == texts(resource_slice)

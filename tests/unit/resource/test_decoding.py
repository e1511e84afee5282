"""Strict decoding: types and unknown fields, before anything else is looked at."""

from typing import Any

import pytest

from dra_driver.resource.validation import validate


def test_all_unknown_fields_are_named_with_their_paths(claim: dict[str, Any]) -> None:
    claim["spec"]["gpus"] = 1
    claim["spec"]["devices"]["requests"][0]["deviceClassName"] = "gpu.nvidia.com"

    assert [
        'unknown field "spec.devices.requests[0].deviceClassName"',
        'unknown field "spec.gpus"',
    ] == [str(problem) for problem in validate(claim)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2", "cannot unmarshal string into Go struct field ExactDeviceRequest"),
        (True, "cannot unmarshal bool into Go struct field ExactDeviceRequest"),
        (1.5, "cannot unmarshal number 1.5 into Go struct field ExactDeviceRequest"),
        (2**63, "cannot unmarshal number 9223372036854775808 into Go struct field ExactDeviceRequest"),
        ([], "cannot unmarshal array into Go struct field ExactDeviceRequest"),
        ({}, "cannot unmarshal object into Go struct field ExactDeviceRequest"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_as_go_tells_it(
    claim: dict[str, Any], value: object, expected: str
) -> None:
    claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = value

    (problem,) = validate(claim)

    assert f"json: {expected}.spec.devices.requests.exactly.count of type int64" == problem.message
    assert problem.path == "spec.devices.requests[0].exactly.count"


@pytest.mark.parametrize(
    ("where", "value", "go_type"),
    [
        ("requests", {}, "[]v1.DeviceRequest"),
        ("constraints", "x", "[]v1.DeviceConstraint"),
    ],
)
def test_a_list_that_is_none_is_told_with_its_type(
    claim: dict[str, Any], where: str, value: object, go_type: str
) -> None:
    claim["spec"]["devices"][where] = value

    (problem,) = validate(claim)

    assert problem.message.endswith(f"DeviceClaim.spec.devices.{where} of type {go_type}")


def test_null_counts_as_absent_everywhere(claim: dict[str, Any]) -> None:
    claim["spec"]["devices"]["constraints"] = None
    claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = None
    claim["status"] = None

    assert [] == validate(claim)


@pytest.mark.parametrize("value", ["80GB", "", "1 Gi", True, {}, "1\n"])
def test_a_bad_quantity_is_refused_with_its_path(claim: dict[str, Any], value: object) -> None:
    claim["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": value}}

    (problem,) = validate(claim)

    assert problem.path == "spec.devices.requests[0].exactly.capacity.requests[memory]"
    assert problem.message.startswith("quantities must match the regular expression")


@pytest.mark.parametrize("value", ["80Gi", 1, 1.5, "-1", "1e3", "0.5Gi"])
def test_numbers_are_quantities_too(claim: dict[str, Any], value: object) -> None:
    claim["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": value}}

    assert [] == validate(claim)


@pytest.mark.parametrize("value", ["yesterday", "2026-13-01T00:00:00Z", "2026-11-30T12:00:00Z\n", 1])
def test_a_bad_time_is_refused(taint_rule: dict[str, Any], value: object) -> None:
    taint_rule["spec"]["taint"]["timeAdded"] = value

    assert ["spec.taint.timeAdded"] == [problem.path for problem in validate(taint_rule)]


def test_a_key_that_json_cannot_have_is_refused(resource_slice: dict[str, Any]) -> None:
    resource_slice["spec"]["devices"][0]["attributes"] = {1: {"string": "x"}}

    assert ["the key 1 must be a string"] == [problem.message for problem in validate(resource_slice)]


def test_decoding_stops_before_validation(claim: dict[str, Any]) -> None:
    claim["spec"]["devices"]["requests"][0] |= {"name": "NO LABEL", "nme": "x"}

    assert ["strict"] == [problem.stage for problem in validate(claim)]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("kind", "Pod", 'kind: Unsupported value: "Pod": supported values: "DeviceClass"'),
        ("kind", None, 'kind: Unsupported value: ""'),
        ("apiVersion", "resource.k8s.io/v1beta1", "apiVersion: Unsupported value"),
        ("apiVersion", None, "apiVersion: Unsupported value"),
    ],
)
def test_other_kinds_and_versions_are_refused(
    claim: dict[str, Any], key: str, value: object, expected: str
) -> None:
    claim[key] = value

    assert str(validate(claim)[0]).startswith(expected)

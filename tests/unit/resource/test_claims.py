"""Rules of claims, templates, classes and taint rules that the vectors of a real server do not cover."""

from typing import Any

import pytest

from dra_driver.resource.expressions import TOO_COMPLEX
from dra_driver.resource.problems import refusal
from dra_driver.resource.validation import validate

Object = dict[str, Any]


def texts(obj: Object, **options: Any) -> list[str]:
    return [str(problem) for problem in validate(obj, **options)]


def test_all_kinds_have_a_valid_example(
    allocated_claim: Object,
    template: Object,
    device_class: Object,
    taint_rule: Object,
    resource_slice: Object,
) -> None:
    objects = (allocated_claim, template, device_class, taint_rule, resource_slice)

    assert [[], [], [], [], []] == [texts(obj) for obj in objects]


def test_v1beta2_is_judged_by_the_same_rules(claim: Object) -> None:
    claim["apiVersion"] = "resource.k8s.io/v1beta2"

    assert [] == texts(claim)


def test_a_request_is_exact_or_a_list_of_alternatives(claim: Object) -> None:
    (request,) = claim["spec"]["devices"]["requests"]
    request["firstAvailable"] = [{"name": "a", "deviceClassName": "x"}]
    rule = "exactly one of `exactly` or `firstAvailable` is required"
    both = f"spec.devices.requests[0]: Invalid value: null: {rule}, but multiple fields are set"
    assert [both] == texts(claim)

    del request["exactly"]
    assert [] == texts(claim)

    request["firstAvailable"] = []
    assert [f"spec.devices.requests[0]: Required value: {rule}"] == texts(claim)


def test_nine_alternatives_are_too_many(claim: Object) -> None:
    alternatives = [{"name": f"s{i}", "deviceClassName": "x"} for i in range(9)]
    claim["spec"]["devices"]["requests"] = [{"name": "g", "firstAvailable": alternatives}]

    assert ["spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items"] == texts(claim)


def test_all_takes_no_count(claim: Object) -> None:
    claim["spec"]["devices"]["requests"][0]["exactly"] |= {"allocationMode": "All", "count": 2}

    assert [
        (
            "spec.devices.requests[0].exactly.count: Invalid value: 2: "
            "must not be specified when allocationMode is 'All'"
        )
    ] == texts(claim)


def test_a_request_without_a_class_is_refused(claim: Object) -> None:
    claim["spec"]["devices"]["requests"][0]["exactly"] = {}

    assert ["spec.devices.requests[0].exactly.deviceClassName: Required value"] == texts(claim)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (True, []),
        (
            False,
            [
                (
                    "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
                    "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
                )
            ],
        ),
    ],
)
def test_admin_access_needs_a_labelled_namespace(claim: Object, allowed: bool, expected: list[str]) -> None:
    claim["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True

    assert expected == texts(claim, admin_namespace=allowed)


def test_admin_access_in_a_template_needs_it_too(template: Object) -> None:
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True

    assert ["spec.devices.requests[0].adminAccess"] == [
        problem.path for problem in validate(template, admin_namespace=False)
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, []),
        ("no such field", ['Invalid value: "device.name": no such field']),
        (TOO_COMPLEX, ["Forbidden: too complex, exceeds cost limit"]),
    ],
)
def test_the_compiler_has_its_say_on_selectors(
    device_class: Object, answer: str | None, expected: list[str]
) -> None:
    device_class["spec"]["selectors"][0]["cel"]["expression"] = "device.name"

    path = "spec.selectors[0].cel.expression"
    assert [f"{path}: {text}" for text in expected] == texts(
        device_class, compile_selector={"device.name": answer}.__getitem__
    )


def test_too_long_expressions_are_not_compiled(device_class: Object) -> None:
    device_class["spec"]["selectors"][0]["cel"]["expression"] = "é" * 5121

    assert ["spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"] == texts(
        device_class, compile_selector={}.__getitem__
    )


@pytest.mark.parametrize("name", ["gpu/x", "gpu/x/y", "other", "", "a/b/c"])
def test_a_constraint_names_requests_that_exist(claim: Object, name: str) -> None:
    constraint = {"requests": [name], "matchAttribute": "gpu.nvidia.com/nvlinkClique"}
    claim["spec"]["devices"]["constraints"] = [constraint]

    assert {"spec.devices.constraints[0].requests[0]"} == {problem.path for problem in validate(claim)}


def test_tolerations_of_alternatives_are_judged(claim: Object) -> None:
    alternative = {"name": "a", "deviceClassName": "x", "tolerations": [{"key": "b a d"}]}
    claim["spec"]["devices"]["requests"] = [{"name": "g", "firstAvailable": [alternative]}]

    assert ["spec.devices.requests[0].firstAvailable[0].tolerations[0].key"] == [
        problem.path for problem in validate(claim)
    ]


def test_template_metadata_holds_labels_and_annotations_only(template: Object) -> None:
    template["spec"]["metadata"] = {
        "labels": {"a": "b", "bad key": "c"},
        "annotations": {"Upper": "fine", "b a d": ""},
        "namespace": "x",
        "finalizers": [],
    }

    assert ["spec.metadata.labels", "spec.metadata.annotations", "spec.metadata.namespace"] == [
        problem.path for problem in validate(template)
    ]


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("kubernetes.io/gpu", False),
        ("requests.nvidia.com/gpu", False),
        ("nvidia.com/", False),
        ("nvidia.com/g/h", False),
        ("", False),
    ],
)
def test_extended_resource_names(device_class: Object, name: str, accepted: bool) -> None:
    device_class["spec"]["extendedResourceName"] = name

    assert accepted == (not validate(device_class))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"driver": ""}, "spec.deviceSelector.driver"),
        ({"pool": "A"}, "spec.deviceSelector.pool"),
        ({"device": "a.b"}, "spec.deviceSelector.device"),
    ],
)
def test_a_taint_rule_selects_by_valid_names(taint_rule: Object, change: Object, path: str) -> None:
    taint_rule["spec"]["deviceSelector"] |= change

    assert [path] == [problem.path for problem in validate(taint_rule)]


def test_a_taint_rule_without_taint_is_refused(taint_rule: Object) -> None:
    del taint_rule["spec"]["taint"]

    assert {"spec.taint.key", "spec.taint.effect"} == {problem.path for problem in validate(taint_rule)}


def test_a_claim_is_reserved_only_while_allocated(allocated_claim: Object) -> None:
    del allocated_claim["status"]["allocation"]
    del allocated_claim["status"]["devices"]

    assert ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"] == texts(
        allocated_claim
    )


def test_a_device_status_belongs_to_an_allocated_device(allocated_claim: Object) -> None:
    allocated_claim["status"]["devices"][0]["device"] = "gpu-1"

    assert [
        'status.devices[0]: Invalid value: "gpu.nvidia.com/n1/gpu/gpu-1": must be an allocated device in the claim'
    ] == texts(allocated_claim)


def test_a_share_is_a_device_of_its_own(allocated_claim: Object) -> None:
    share = "0b8f7a52-4c5e-4d7e-9a57-3a9e1f2d6c11"
    allocated_claim["status"]["allocation"]["devices"]["results"][0]["shareID"] = share
    assert ["status.devices[0]"] == [problem.path for problem in validate(allocated_claim)]

    allocated_claim["status"]["devices"][0]["shareID"] = share
    assert [] == texts(allocated_claim)

    allocated_claim["status"]["devices"][0]["shareID"] = share.upper()
    assert "status.devices[0].shareID" in [problem.path for problem in validate(allocated_claim)]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"request": "other"}, "request"),
        ({"driver": ""}, "driver"),
        ({"pool": "/"}, "pool"),
        ({"device": "gpu.0"}, "device"),
        ({"bindingConditions": ["Ready"]}, "bindingFailureConditions"),
        ({"tolerations": [{"operator": "In"}]}, "tolerations[0].operator"),
    ],
)
def test_an_allocation_result_agrees_with_the_rules(
    allocated_claim: Object, change: Object, path: str
) -> None:
    del allocated_claim["status"]["devices"]
    allocated_claim["status"]["allocation"]["devices"]["results"][0] |= change

    expected = f"status.allocation.devices.results[0].{path}"
    assert {expected} == {problem.path for problem in validate(allocated_claim)}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"source": None}, "source"),
        ({"source": "FromNowhere"}, "source"),
        ({"requests": ["other"]}, "requests[0]"),
        ({"opaque": None}, "opaque"),
    ],
)
def test_allocated_configuration_agrees_with_the_rules(
    allocated_claim: Object, change: Object, path: str
) -> None:
    allocated_claim["status"]["allocation"]["devices"]["config"][0] |= change

    assert [f"status.allocation.devices.config[0].{path}"] == [
        problem.path for problem in validate(allocated_claim)
    ]


@pytest.mark.parametrize(
    ("requirement", "path"),
    [
        ({"key": "metadata.uid", "operator": "In", "values": ["a"]}, "matchFields[0].key"),
        ({"key": "metadata.name", "operator": "In", "values": []}, "matchFields[0].values"),
        ({"key": "metadata.name", "operator": "Gt", "values": ["a"]}, "matchFields[0].operator"),
        ({"key": "metadata.name", "operator": "In", "values": ["A"]}, "matchFields[0].values[0]"),
    ],
)
def test_node_fields_are_selected_by_name_only(
    allocated_claim: Object, requirement: Object, path: str
) -> None:
    selector = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
    allocated_claim["status"]["allocation"]["nodeSelector"] = selector

    expected = f"status.allocation.nodeSelector.nodeSelectorTerms[0].{path}"
    assert [expected] == [problem.path for problem in validate(allocated_claim)]


@pytest.mark.parametrize(
    ("requirement", "accepted"),
    [
        ({"key": "zone", "operator": "In", "values": ["a"]}, True),
        ({"key": "zone", "operator": "In"}, False),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "Exists", "values": ["a"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["1"]}, True),
        ({"key": "zone", "operator": "Lt", "values": ["1", "2"]}, False),
        ({"key": "zone", "operator": "Like", "values": ["1"]}, False),
        ({"key": "zo ne", "operator": "Exists"}, False),
        ({"key": "zone", "operator": "In", "values": ["a b"]}, False),
    ],
)
def test_node_labels_are_selected_by_requirements(
    resource_slice: Object, requirement: Object, accepted: bool
) -> None:
    del resource_slice["spec"]["nodeName"]
    selector = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    resource_slice["spec"]["nodeSelector"] = selector

    assert accepted == (not validate(resource_slice))


@pytest.mark.parametrize(
    ("ip", "accepted"),
    [
        ("10.9.8.7/24", True),
        ("2001:db8::1/64", True),
        ("10.9.8.7", False),
        ("2001:DB8::1/64", False),
        ("x/24", False),
        ("", False),
    ],
)
def test_addresses_of_network_devices_are_canonical(allocated_claim: Object, ip: str, accepted: bool) -> None:
    allocated_claim["status"]["devices"][0]["networkData"] = {"ips": [ip]}

    assert accepted == (not validate(allocated_claim))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"type": ""}, "type"),
        ({"status": "Yes"}, "status"),
        ({"reason": ""}, "reason"),
        ({"reason": "no reason"}, "reason"),
        ({"lastTransitionTime": None}, "lastTransitionTime"),
        ({"observedGeneration": -1}, "observedGeneration"),
        ({"message": "x" * 32769}, "message"),
    ],
)
def test_conditions_agree_with_the_rules(allocated_claim: Object, change: Object, path: str) -> None:
    allocated_claim["status"]["devices"][0]["conditions"][0] |= change

    assert {f"status.devices[0].conditions[0].{path}"} == {
        problem.path for problem in validate(allocated_claim)
    }


@pytest.mark.parametrize(
    ("metadata", "paths"),
    [
        ({"generateName": "gpu-"}, []),
        ({"generateName": "GPU-"}, ["metadata.generateName"]),
        ({}, ["metadata.name"]),
        ({"name": "a", "namespace": "A"}, ["metadata.namespace"]),
        ({"name": "a", "finalizers": ["x y"]}, ["metadata.finalizers"]),
        ({"name": "a", "ownerReferences": [{}]}, ["apiVersion", "kind", "name", "uid"]),
    ],
)
def test_metadata_agrees_with_the_rules(claim: Object, metadata: Object, paths: list[str]) -> None:
    claim["metadata"] = metadata
    expected = [p if p.startswith("metadata") else f"metadata.ownerReferences.{p}" for p in paths]

    assert expected == [problem.path for problem in validate(claim)]


def test_an_object_has_one_controller(claim: Object) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
    claim["metadata"]["ownerReferences"] = [owner, owner]

    (text,) = texts(claim)
    assert text.endswith('Found "true" in references for Pod/p and Pod/p')


def test_a_refusal_lists_each_problem_once(claim: Object) -> None:
    claim["spec"]["devices"]["requests"] *= 3
    problems = validate(claim)

    answer = refusal(claim, problems)

    assert (422, "Invalid") == (answer.code, answer.reason)
    assert answer.message == (
        'ResourceClaim.resource.k8s.io "x" is invalid: [spec.devices.requests[1]: Duplicate value: "gpu", '
        'spec.devices.requests[2]: Duplicate value: "gpu"]'
    )


def test_a_type_error_hides_unknown_fields_in_a_refusal(claim: Object) -> None:
    claim["spec"] |= {"x": 1, "devices": 2}

    answer = refusal(claim, validate(claim))

    assert (400, "BadRequest") == (answer.code, answer.reason)
    assert answer.message == (
        'ResourceClaim in version "v1" cannot be handled as a ResourceClaim: json: cannot unmarshal number '
        "into Go struct field ResourceClaimSpec.spec.devices of type v1.DeviceClaim"
    )

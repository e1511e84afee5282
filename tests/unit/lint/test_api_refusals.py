"""What a real API server refused has an error at its place; what it took is not called refused."""

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "conformance" / "validation.jsonl").read_text().splitlines()
]
REFUSED = [pytest.param(v, id=v["id"]) for v in VECTORS if not v["accepted"]]
ACCEPTED = [pytest.param(v, id=v["id"]) for v in VECTORS if v["accepted"]]
_REFUSALS = {
    "invalid-object",
    "version-shape",
    "selector-level",
    "selector-does-not-compile",
    "constraint-domain",
}


@pytest.mark.parametrize("vector", REFUSED)
def test_a_refused_object_has_an_error_on_each_field_that_the_server_named(check: Any, vector: Any) -> None:
    errors = [finding for finding in check(json.dumps(vector["object"])) if finding.severity == "error"]

    assert errors
    assert set(vector["paths"]) <= {finding.path for finding in errors}


@pytest.mark.parametrize("vector", ACCEPTED)
def test_an_accepted_object_is_not_called_refused(check: Any, vector: Any) -> None:
    assert set() == {finding.code for finding in check(json.dumps(vector["object"]))} & _REFUSALS


def test_what_comes_after_unknown_fields_is_said_in_the_same_run(check: Any) -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\n"
        "kind: ResourceClaim\n"
        "metadata: {name: C}\n"
        "spec:\n"
        "  devices:\n"
        "    requests:\n"
        "      - name: gpu\n"
        "        exactly: {deviceClassName: gpu.nvidia.com, deviceClass: x}\n"
    )

    assert [(3, "metadata.name"), (8, "spec.devices.requests[0].exactly.deviceClass")] == [
        (finding.line, finding.path) for finding in check(text)
    ]


def test_a_v1beta1_object_is_judged_as_what_it_is_stored_as(check: Any) -> None:
    text = (
        "apiVersion: resource.k8s.io/v1beta1\n"
        "kind: ResourceClaim\n"
        "metadata: {name: c}\n"
        "spec:\n"
        "  devices:\n"
        "    requests:\n"
        "      - name: gpu\n"
        "        deviceClassName: gpu.nvidia.com\n"
        "        count: -1\n"
    )

    (finding,) = check(text)

    assert (9, "spec.devices.requests[0].count") == (finding.line, finding.path)
    assert [] == check(text.replace("-1", "2"))


def test_items_of_a_list_of_one_kind_are_of_that_kind(check: Any) -> None:
    text = "apiVersion: resource.k8s.io/v1\nkind: DeviceClassList\nitems:\n  - metadata: {name: B}\n"

    assert [("invalid-object", 4)] == [(finding.code, finding.line) for finding in check(text)]


def test_items_of_a_list_are_linted_one_by_one(check: Any) -> None:
    text = (
        "apiVersion: v1\n"
        "kind: List\n"
        "items:\n"
        "  - apiVersion: resource.k8s.io/v1\n"
        "    kind: DeviceClass\n"
        "    metadata: {name: a}\n"
        "  - apiVersion: resource.k8s.io/v1\n"
        "    kind: DeviceClass\n"
        "    metadata: {name: B}\n"
    )

    assert [("invalid-object", 9)] == [(finding.code, finding.line) for finding in check(text)]

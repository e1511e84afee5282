"""Bodies as the server takes them: typed, pruned, canonical."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.apiserver import protobuf, schema
from dra_driver.embedded.apiserver.status import StatusError

POD = "io.k8s.api.core.v1.Pod"
SLICE = "io.k8s.api.resource.v1.ResourceSlice"


def decode(obj: dict[str, Any], definition: str = POD) -> schema.Decoded:
    return schema.decode(obj, definition, "v1")


def test_unknown_fields_are_dropped_and_named() -> None:
    decoded = decode({"spec": {"containers": [{"name": "c", "x": 1}]}, "y": 2})

    assert decoded.value == {"spec": {"containers": [{"name": "c"}]}}
    assert decoded.unknown == ["spec.containers[0].x", "y"]


def test_nulls_and_empty_optional_values_vanish_but_pointers_to_structs_stay() -> None:
    volume = {"name": "v", "emptyDir": {}}
    body = {"metadata": {"labels": {}, "finalizers": []}, "spec": {"volumes": [volume], "nodeName": None}}

    assert decode(body).value == {"metadata": {}, "spec": {"volumes": [volume]}}


@pytest.mark.parametrize(
    ("given", "stored"), [("0.5Gi", "512Mi"), ("1000m", "1"), (2, "2"), (1.5, "1500m"), ("1024Mi", "1Gi")]
)
def test_quantities_become_canonical(given: Any, stored: str) -> None:
    capacity = {"memory": {"value": given}}
    body = {"spec": {"devices": [{"name": "d", "capacity": capacity}]}}

    found = decode(body, SLICE).value["spec"]["devices"][0]["capacity"]

    assert found == {"memory": {"value": stored}}


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456+01:00"])
def test_times_are_taken_in_any_zone(time: str) -> None:
    assert decode({"status": {"startTime": time}}).value == {"status": {"startTime": time}}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            {"spec": {"nodeName": 5}},
            "cannot unmarshal number into Go struct field spec.nodeName of type string",
        ),
        (
            {"spec": {"containers": {}}},
            "cannot unmarshal object into Go struct field spec.containers of type slice",
        ),
        ({"spec": []}, "cannot unmarshal array into Go struct field spec of type struct"),
        (
            {"spec": {"hostNetwork": "yes"}},
            "cannot unmarshal string into Go struct field spec.hostNetwork of type bool",
        ),
        (
            {"spec": {"priority": True}},
            "cannot unmarshal bool into Go struct field spec.priority of type int64",
        ),
        ({"status": {"startTime": "today"}}, 'parsing time "today"'),
        ({"status": {"startTime": "2026-13-01T00:00:00Z"}}, "parsing time"),
        (
            {"spec": {"priority": 2**63}},
            "cannot unmarshal number into Go struct field spec.priority of type int64",
        ),
        ({"spec": {"overhead": {"cpu": "many"}}}, "quantities must match the regular expression"),
        ({"spec": {"overhead": {"cpu": {}}}}, "cannot unmarshal object into Go value"),
    ],
)
def test_wrong_types_are_bad_requests_that_name_the_field(body: dict[str, Any], text: str) -> None:
    with pytest.raises(StatusError, match='Pod in version "v1" cannot be handled as a Pod: ') as caught:
        decode(body)

    assert text in str(caught.value)
    assert caught.value.code == 400


def test_every_definition_that_is_referred_to_is_there() -> None:
    names = schema.definitions().keys()

    def references(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*(references(item) for item in node))
        if not isinstance(node, dict):
            return set()
        own = (
            {node["$ref"].removeprefix("#/components/schemas/")}
            if isinstance(node.get("$ref"), str)
            else set()
        )
        return own.union(*(references(value) for value in node.values()))

    assert references(schema.definitions()) <= names


# What `kubectl create namespace foo` sends.
NAMESPACE = bytes.fromhex(
    "6b3873000a0f0a02763112094e616d657370616365121c0a140a04666f6f3212001a0022002a00320038004200"
    "12001a020a001a002200"
)


def test_a_protobuf_body_is_read() -> None:
    assert protobuf.decode(NAMESPACE) == {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": "foo2"},
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{}", 400),
        (NAMESPACE[:20], 400),
        (NAMESPACE.replace(b"Namespace", b"Namespase"), 415),
        (b"k8s\x00", 415),
    ],
)
def test_a_protobuf_body_that_cannot_be_read_is_refused(body: bytes, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        protobuf.decode(body)

    assert caught.value.code == code


def test_the_schemas_are_those_that_are_generated() -> None:
    script = Path(__file__).parents[3] / "scripts/embedded_schemas.py"

    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, check=False)

    assert done.stdout == b""
    assert done.returncode == 0

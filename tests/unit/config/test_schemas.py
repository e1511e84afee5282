"""The schemas in api/ take what decoding takes, and refuse what it refuses as far as a schema can."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

API = Path(__file__).parents[3] / "api"
HEAD = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}


@pytest.fixture(scope="module")
def schema() -> Any:
    return jsonschema.Draft202012Validator(json.loads((API / "gpuconfig.schema.json").read_text()))


@pytest.mark.parametrize(
    "sharing",
    [
        None,
        {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}},
        {
            "strategy": "MPS",
            "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": {"0": "1Gi", "GPU-1": 1048576}},
        },
    ],
)
def test_what_is_right_is_valid(schema: Any, sharing: Any) -> None:
    assert schema.is_valid({**HEAD, "sharing": sharing})


@pytest.mark.parametrize(
    "sharing",
    [
        {},
        {"strategy": "MPS", "replicas": 2},
        {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 101}},
        {"strategy": "MPS", "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": {"gpu-0": "1Gi"}}},
        {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "short"}},
    ],
)
def test_what_is_wrong_is_invalid(schema: Any, sharing: Any) -> None:
    assert not schema.is_valid({**HEAD, "sharing": sharing})


def test_mig_devices_have_a_schema_of_their_own() -> None:
    schema = json.loads((API / "migdeviceconfig.schema.json").read_text())

    assert {"strategy", "mpsConfig"} == set(schema["$defs"]["MigSharing"]["properties"])


@pytest.mark.parametrize(
    ("gpus", "is_valid"),
    [
        ([{"uuid": "GPU-1", "mig": "off"}, {"pciAddress": "0000:0A:00.0", "shares": 4}, {}], True),
        ([{"shares": "memory", "model": "NVIDIA*"}], True),
        ([{"shares": 0}], False),
        ([{"mig": "on"}], False),
        ([{"pciAddress": "0a:00.0"}], False),
        ([{"index": 0}], False),
    ],
)
def test_node_configurations_are_valid_where_they_are_read(gpus: list[Any], is_valid: bool) -> None:
    validator = jsonschema.Draft202012Validator(json.loads((API / "nodeconfig.schema.json").read_text()))
    head = {"apiVersion": "config.dra-driver.io/v1alpha1", "kind": "NodeConfig"}

    assert is_valid == validator.is_valid({**head, "gpus": gpus})

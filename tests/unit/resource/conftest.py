"""Small valid objects to break."""

from typing import Any

import pytest

Object = dict[str, Any]


def _object(kind: str, spec: Object) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": spec,
    }


@pytest.fixture
def claim() -> Object:
    """A claim for one GPU."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return _object("ResourceClaim", {"devices": {"requests": [request]}})


@pytest.fixture
def allocated_claim(claim: Object) -> Object:
    """The same, allocated, reserved and with a device status."""
    device = {"driver": "gpu.nvidia.com", "pool": "n1/gpu", "device": "gpu-0"}
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Prepared",
        "message": "",
        "lastTransitionTime": "2026-11-30T12:00:00Z",
    }
    claim["status"] = {
        "allocation": {
            "devices": {
                "results": [{"request": "gpu", **device}],
                "config": [
                    {
                        "source": "FromClass",
                        "opaque": {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig"}},
                    }
                ],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}],
        "devices": [{**device, "conditions": [condition], "data": {"uuid": "GPU-1"}}],
    }
    return claim


@pytest.fixture
def template(claim: Object) -> Object:
    return _object("ResourceClaimTemplate", {"spec": claim["spec"]})


@pytest.fixture
def device_class() -> Object:
    return _object("DeviceClass", {"selectors": [{"cel": {"expression": "true"}}]})


@pytest.fixture
def resource_slice() -> Object:
    """A slice with one device."""
    return _object(
        "ResourceSlice",
        {
            "driver": "gpu.nvidia.com",
            "nodeName": "n1",
            "pool": {"name": "n1/gpu", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}],
        },
    )


@pytest.fixture
def taint_rule() -> Object:
    return _object(
        "DeviceTaintRule",
        {
            "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "n1/gpu", "device": "gpu-0"},
            "taint": {"key": "example.com/sick", "effect": "NoExecute"},
        },
    )

"""Memory of a shared device that is asked for, and who holds containers to it."""

from typing import Any

import pytest

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: half}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          capacity: {requests: {memory: 40Gi}}
    config: [CONFIG]
"""
SLICE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.nvidia.com
  nodeName: n
  pool: {name: n/gpu, generation: 1, resourceSliceCount: 1}
  devices:
    - name: gpu-0
      allowMultipleAllocations: SHARED
      attributes: {type: {string: gpu}}
      capacity: {memory: {value: 80Gi}}
"""
ENTRY = """{requests: [REQUESTS], opaque: {driver: gpu.nvidia.com, parameters: {
  apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig, sharing: {strategy: STRATEGY}}}}"""


def codes(check: Any, config: str = "", *, shared: bool = True) -> list[str]:
    slice_ = SLICE.replace("SHARED", str(shared).lower())
    return [finding.code for finding in check(CLAIM.replace("CONFIG", config), slice_)]


@pytest.mark.parametrize("config", ["", ENTRY.replace("STRATEGY", "TimeSlicing").replace("REQUESTS", "gpu")])
def test_memory_without_mps_is_not_enforced(check: Any, config: str) -> None:
    assert ["share-not-enforced"] == codes(check, config)


@pytest.mark.parametrize("requests", ["", "gpu"])
def test_mps_enforces_it(check: Any, requests: str) -> None:
    assert [] == codes(check, ENTRY.replace("STRATEGY", "MPS").replace("REQUESTS", requests))


def test_a_later_configuration_without_mps_overrides_one_with_it(check: Any) -> None:
    both = [ENTRY.replace("STRATEGY", name).replace("REQUESTS", "") for name in ("MPS", "TimeSlicing")]

    assert ["share-not-enforced"] == codes(check, ", ".join(both))


def test_of_a_device_that_is_not_shared_the_memory_is_the_claims_alone(check: Any) -> None:
    assert [] == codes(check, shared=False)

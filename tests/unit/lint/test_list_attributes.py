"""Slices with attributes that are lists, and selectors that read them, with the option and without."""

from dra_driver.lint import Census, Surroundings, lint

SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.nvidia.com
  nodeName: node-a
  pool: {name: node-a/gpu, generation: 1, resourceSliceCount: 1}
  devices:
    - name: gpu-0
      attributes: {type: {string: gpu}, nodes: {ints: [0, 1]}}
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          selectors: [{cel: {expression: 'device.attributes["gpu.nvidia.com"].nodes.includes(%s)'}}]
"""


def codes(*texts: str, lists: bool) -> list[str]:
    sources = [(f"{number}.yaml", text.encode()) for number, text in enumerate(texts)]
    return [finding.code for finding in lint(sources, lists=lists)]


def test_with_the_option_selectors_are_tried_on_lists() -> None:
    assert [] == codes(SLICE, lists=True)
    assert ["always-matches"] == codes(SLICE, CLAIM % 1, lists=True)
    assert ["never-matches"] == codes(SLICE, CLAIM % 5, lists=True)


def test_without_it_slices_and_selectors_are_refused_as_by_default() -> None:
    assert ["invalid-object"] == codes(SLICE, lists=False)
    assert "selector-does-not-compile" in codes(CLAIM % 1, lists=False)


def test_devices_of_a_cluster_may_have_lists() -> None:
    census = Census(lists=True)
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "nodes": {"ints": [0, 1]}}}
    census.put("s", census.kinds({"driver": "gpu.nvidia.com", "devices": [device]}))

    found = lint([("c.yaml", (CLAIM % 5).encode())], Surroundings(census.devices()), lists=True)

    assert "never-matches" in {finding.code for finding in found}

"""Lint on texts, and the manifests that most tests vary."""

from collections.abc import Callable, Sequence

import pytest

from dra_driver.lint import Finding, lint

Lint = Callable[..., list[Finding]]


@pytest.fixture
def check() -> Lint:
    """Findings on one text per file; files are named a.yaml, b.yaml and so on."""

    def run(*texts: str) -> list[Finding]:
        return lint([(f"{chr(97 + number)}.yaml", text.encode()) for number, text in enumerate(texts)])

    return run


@pytest.fixture
def selected() -> Callable[..., str]:
    """A claim for one GPU that meets these selectors."""

    def claim(*expressions: str, device_class: str = "gpu.nvidia.com") -> str:
        selectors = "".join(
            f"          - cel:\n              expression: |-\n                {expression}\n"
            for expression in expressions
        )
        return (
            "apiVersion: resource.k8s.io/v1\n"
            "kind: ResourceClaim\n"
            "metadata: {name: c}\n"
            "spec:\n"
            "  devices:\n"
            "    requests:\n"
            "      - name: gpu\n"
            "        exactly:\n"
            f"          deviceClassName: {device_class}\n"
            f"          selectors:\n{selectors}"
        )

    return claim


@pytest.fixture
def found(check: Lint, selected: Callable[..., str]) -> Callable[..., dict[str, Finding]]:
    """The findings on a claim with these selectors, by their codes."""

    def run(
        *expressions: str, device_class: str = "gpu.nvidia.com", beside: Sequence[str] = ()
    ) -> dict[str, Finding]:
        texts = (selected(*expressions, device_class=device_class), *beside)
        return {finding.code: finding for finding in check(*texts)}

    return run


@pytest.fixture
def published() -> Callable[..., str]:
    """A slice of gpu.nvidia.com with devices, given as YAML flow mappings of attributes and capacity."""

    def slice_(*devices: str, node: str = "node-a", driver: str = "gpu.nvidia.com") -> str:
        entries = "".join(
            f"    - {{name: gpu-{number}, {device}}}\n" for number, device in enumerate(devices)
        )
        return (
            "apiVersion: resource.k8s.io/v1\n"
            "kind: ResourceSlice\n"
            f"metadata: {{name: {node}-{driver}}}\n"
            "spec:\n"
            f"  driver: {driver}\n"
            f"  nodeName: {node}\n"
            f"  pool: {{name: {node}/gpu, generation: 1, resourceSliceCount: 1}}\n"
            f"  devices:\n{entries}"
        )

    return slice_

"""Lint with a cluster around it: its devices by their kinds, and its classes."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from dra_driver.lint import Census, Finding, Surroundings, lint, lint_objects
from dra_driver.lint.claims import DeviceClass, Text
from dra_driver.yamlevents import YamlError

GPU = 'device.attributes["gpu.nvidia.com"]'
Found = dict[str, Finding]
OURS = DeviceClass("gpu.nvidia.com", (Text("spec", "device.driver == 'gpu.nvidia.com'"),))


def device(number: int, **attributes: Any) -> dict[str, Any]:
    own = {"uuid": f"GPU-{number}", "resource.kubernetes.io/pciBusID": f"0000:{number:02x}:00.0"}
    told = {"type": "gpu", "productName": "NVIDIA L4", **own, **attributes}
    return {
        "name": f"gpu-{number}",
        "attributes": {name: {"string": value} for name, value in told.items()},
        "capacity": {"memory": {"value": "23034Mi"}},
    }


def spec(*devices: dict[str, Any]) -> dict[str, Any]:
    return {"driver": "gpu.nvidia.com", "pool": {"name": "node-a/gpu"}, "devices": list(devices)}


def put(census: Census, name: str, *devices: dict[str, Any]) -> None:
    census.put(name, census.kinds(spec(*devices)))


@pytest.fixture
def census() -> Census:
    return Census()


@pytest.fixture
def found(census: Census, selected: Callable[..., str]) -> Callable[..., Found]:
    def run(*expressions: str, device_class: str = "gpu.nvidia.com") -> Found:
        text = selected(*expressions, device_class=device_class)
        surroundings = Surroundings(census.devices(), {OURS.name: OURS})
        return {finding.code: finding for finding in lint([("claim", text.encode())], surroundings)}

    return run


def test_devices_that_differ_in_what_is_their_own_are_of_one_kind(census: Census) -> None:
    put(census, "a", device(1), device(2))
    put(census, "b", device(3), device(4, productName="NVIDIA T4"))

    assert [3, 1] == [known.count for known in census.devices()]


def test_a_slice_that_changes_or_goes_takes_its_devices_along(census: Census) -> None:
    put(census, "a", device(1), device(2))
    put(census, "b", device(3))
    put(census, "a", device(1))

    assert [2] == [known.count for known in census.devices()]
    census.remove("a")
    census.remove("b")
    census.remove("b")
    assert () == census.devices()


def test_a_device_whose_values_are_none_is_not_counted(census: Census) -> None:
    broken = {"name": "x", "attributes": {"a": {"nothing": 1}}}
    put(census, "a", broken, device(1))

    assert [1] == [known.count for known in census.devices()]


def test_what_is_each_devices_own_may_always_match(census: Census, found: Callable[..., Found]) -> None:
    put(census, "a", device(1))

    assert "never-matches" not in found(f'{GPU}.uuid == "GPU-77"')


def test_what_no_device_of_the_cluster_has_never_matches(census: Census, found: Callable[..., Found]) -> None:
    put(census, "a", device(1), device(2))

    finding = found(f'{GPU}.productName == "NVIDIA H100"', f'{GPU}.type == "gpu"')["never-matches"]

    assert "warning" == finding.severity
    assert "of 2, selector 0 leaves 0, selector 1 leaves 2" in finding.message


def test_a_value_that_some_devices_of_the_cluster_lack_is_asked_for_with_a_guard(
    census: Census, found: Callable[..., Found]
) -> None:
    put(census, "a", device(1, extra="x"), device(2), device(3))

    finding = found(f'{GPU}.extra == "x"')["unguarded-attribute"]

    assert "gpu-2 of pool node-a/gpu and another would make the selector fail" in finding.message


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("gpu.nvidia.co", "did you mean gpu.nvidia.com?"),
        ("mig.nvidia.com", "apply deploy/deviceclasses.yaml"),
    ],
)
def test_a_class_that_the_cluster_lacks_is_told_with_the_near_ones(
    found: Callable[..., Found], name: str, fix: str
) -> None:
    finding = found("true", device_class=name)["unknown-class"]

    assert f"there is no DeviceClass {name}; the cluster has gpu.nvidia.com" == finding.message
    assert fix in (finding.fix or "")


def test_objects_have_the_findings_of_the_same_text(selected: Callable[..., str]) -> None:
    text = selected(f'{GPU}.memory == "40Gi"', "1 +", f"{GPU}.productname == 'x'")
    objects = [("claim", yaml.safe_load(text))]

    def told(findings: list[Finding]) -> set[tuple[str, str, str, str | None]]:
        return {(found.code, found.path, found.message, found.fix) for found in findings}

    assert told(lint([("claim", text.encode())])) == told(lint_objects(objects))


def test_an_object_of_any_depth_is_looked_at_and_one_of_undue_size_is_refused() -> None:
    deep: Any = {}
    for _ in range(500):
        deep = {"a": [deep]}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    wide = {**claim, "metadata": {"name": "c", "annotations": {str(n): "" for n in range(200_000)}}}

    assert [] == lint_objects([("deep", {"apiVersion": "v1", "kind": "ConfigMap", "data": deep})])
    with pytest.raises(YamlError, match="expected at most 100000 values"):
        lint_objects([("wide", wide)])

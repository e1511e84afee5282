"""Names that no device has, and values that are used as what they are not."""

from collections.abc import Callable
from typing import Any

import pytest

Found = Callable[..., dict[str, Any]]
GPU = 'device.attributes["gpu.nvidia.com"]'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'

# expression -> code, part of the fix
MISTAKES = {
    'device.attributes["gpu.nvidia"].uuid == "x"': ("unknown-domain", 'did you mean "gpu.nvidia.com"?'),
    'device.attributes["memory"].size() > 0 || device.attributes["productName"].x == "y"': (
        "unknown-domain",
        f"write {GPU}.productName",
    ),
    f'{GPU}.product_name == "x"': ("unknown-attribute", f"did you mean {GPU}.productName?"),
    f'{GPU}.pcieRoot == "x"': ("unknown-attribute", 'device.attributes["resource.kubernetes.io"].pcieRoot'),
    f'{GPU}["produktName"] == "x"': ("unknown-attribute", f"did you mean {GPU}.productName?"),
    f'has({MEMORY}x) && {MEMORY}x == quantity("1")': ("unknown-capacity", f"did you mean {MEMORY}?"),
    f"{GPU}.memory == 5": ("capacity-as-attribute", f"write {MEMORY}"),
    'device.capacity["gpu.nvidia.com"].uuid == quantity("1")': ("attribute-as-capacity", f"write {GPU}.uuid"),
    f'{GPU}.profile == "1g.5gb"': ("class-lacks-attribute", "devices of class mig.nvidia.com have it"),
    f"{MEMORY} >= 40": ("quantity-comparison", f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'),
    f"40 <= {MEMORY}": ("quantity-comparison", f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'),
    f"{MEMORY} >= 42949672960": ("quantity-comparison", 'quantity("42949672960")'),
    f'{MEMORY} == "40Gi"': ("quantity-comparison", f'{MEMORY}.compareTo(quantity("40Gi")) == 0'),
    f'{MEMORY} > quantity("40Gi")': ("quantity-comparison", 'quantity("40Gi")) > 0'),
    f'{GPU}.driverVersion >= "570"': ("version-comparison", 'compareTo(semver("570.0.0")) >= 0'),
    f'{GPU}.cudaComputeCapability == "9.0"': ("version-comparison", 'compareTo(semver("9.0.0")) == 0'),
    f"{GPU}.cudaComputeCapability >= 9.0": ("version-comparison", 'compareTo(semver("9.0.0")) >= 0'),
    f'{GPU}.driverVersionString > "570"': ("version-comparison", f"{GPU}.driverVersion.compareTo"),
    f'{GPU}.nvlinkPeers == "7"': ("type-mismatch", "write 7 without quotes"),
    f'{GPU}.migCapable == "true"': ("type-mismatch", f"write {GPU}.migCapable or !{GPU}.migCapable"),
    f'{MEMORY}.compareTo(quantity("80 GB")) > 0': ("bad-quantity", 'write "80G"'),
    f'{MEMORY}.compareTo(quantity("80" + "GiB")) > 0': ("bad-quantity", 'write "80Gi"'),
    f'cel.bind(q, "24gb", {MEMORY}.isGreaterThan(quantity(q)))': ("bad-quantity", 'write "24G"'),
    f'{GPU}.driverVersion.isLessThan(semver("9.0"))': ("bad-semver", 'write "9.0.0"'),
    f'{GPU}.driverVersion.isLessThan(semver("v550.1.2"))': ("bad-semver", 'write "550.1.2"'),
    "device.name == 'x'": ("selector-does-not-compile", "no name"),
    "dev.driver == 'x'": ("selector-does-not-compile", "did you mean device?"),
    f"{GPU}.uuid.startWith('x')": ("selector-does-not-compile", "did you mean startsWith?"),
    '"x"': ("selector-does-not-compile", "a selector is a condition"),
}
FINE = [
    f'{GPU}.uuid == "GPU-1"',
    f'has({MEMORY}) && {MEMORY} == quantity("40Gi")',
    f'has({GPU}.driverVersion) && {GPU}.driverVersion.compareTo(semver("570", true)) >= 0',
    f'has({GPU}.driverVersion) && {GPU}.driverVersion == semver("570.1.2")',
    f"has({GPU}.nvlinkPeers) && {GPU}.nvlinkPeers > 2.5",
    f'has({GPU}.driverVersionString) && {GPU}.driverVersionString == "580.65.06"',
    f'isQuantity("80GB") || {GPU}.uuid == "x"',
    '"gpu.nvidia.com" in device.attributes && device.attributes["gpu.nvidia.com"].uuid == "x"',
]


def test_an_attribute_under_capacity_is_not_taken_for_a_quantity(found: Found) -> None:
    expression = 'device.capacity["gpu.nvidia.com"].architecture == "Hopper"'

    assert {"attribute-as-capacity"} == found(expression).keys()


@pytest.mark.parametrize("expression", MISTAKES)
def test_a_mistake_has_its_code_and_the_right_form(found: Found, expression: str) -> None:
    code, fix = MISTAKES[expression]

    assert fix in (found(expression)[code].fix or "")


@pytest.mark.parametrize("expression", FINE)
def test_what_is_right_has_no_finding(found: Found, expression: str) -> None:
    assert {} == {code: f for code, f in found(expression).items() if f.severity != "info"}


def test_a_comparison_is_explained_once_not_by_the_compiler_as_well(found: Found) -> None:
    assert {"quantity-comparison"} == set(found(f'{MEMORY} >= "16Gi"'))


def test_a_name_that_is_only_asked_for_with_a_guard_is_a_warning(found: Found) -> None:
    assert "warning" == found(f"has({GPU}.vram) && {GPU}.uuid == 'x'")["unknown-attribute"].severity


def test_names_of_slices_are_known(found: Found, published: Any) -> None:
    slice_ = published("attributes: {type: {string: gpu}, rack: {string: a}}")

    assert "unknown-attribute" not in found(f'{GPU}.rack == "b"', beside=(slice_,))
    assert "unknown-attribute" in found(f'{GPU}.rack == "b"')


def test_a_selector_for_devices_of_another_driver_is_not_judged_by_our_names(found: Found) -> None:
    expression = 'device.attributes["dra.net"].ifName == "eth1"'

    assert {} == found(expression, device_class="dranet")


def test_a_domain_that_looks_like_ours_is_told_for_any_class(found: Found) -> None:
    finding = found('device.attributes["gpu.nvidia.co"].uuid == "x"', device_class="mine.example.com")

    assert 'did you mean "gpu.nvidia.com"?' == finding["unknown-domain"].fix


def test_a_failure_that_no_rule_knows_is_told_with_the_evaluators_words(found: Found) -> None:
    finding = found(f"{GPU}.productName.split(' ')[99] == 'x'")["selector-fails"]

    assert "index out of bounds" in finding.message

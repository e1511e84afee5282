"""What selectors choose of the known models, and of the slices that are given along."""

from collections.abc import Callable
from typing import Any

import pytest

Found = Callable[..., dict[str, Any]]
GPU = 'device.attributes["gpu.nvidia.com"]'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'

# expression -> the hint
NEVER = {
    f'{GPU}.productName == "H100"': 'the nearest productName is "NVIDIA H100 80GB HBM3"',
    f'{GPU}.architecture == "hopper"': 'the nearest architecture is "Hopper"',
    f'{GPU}.productName in ["A100", "a30"]': 'the nearest productName is "NVIDIA A100 80GB PCIe"',
    f'{GPU}.productName.lowerAscii().contains("H100")': 'the nearest productName is "NVIDIA H100 80GB HBM3"',
    f'{MEMORY}.compareTo(quantity("1Ti")) >= 0': "the largest memory is 189471Mi (185.0Gi), of NVIDIA GB200",
    f'{MEMORY}.isLessThan(quantity("1Gi"))': "the smallest memory is 15Gi, of Tesla T4",
    f'{GPU}.cudaComputeCapability.compareTo(semver("99.0.0")) >= 0': "the largest cudaComputeCapability is 12.1.0",
    f'{GPU}.productName.matches("^.*a100.*$")': 'the nearest productName is "NVIDIA A100 80GB PCIe"',
    f'{GPU}.type == "mig"': "type is one of gpu",
    f'{GPU}.migMode == "enabled"': "migMode is one of disabled",
    f'{GPU}.productName.contains("L40S") && {MEMORY}.isGreaterThan(quantity("60Gi"))': (
        "the largest memory is 46068Mi (45.0Gi), of NVIDIA L40S"
    ),
}


@pytest.mark.parametrize("expression", NEVER)
def test_what_no_known_model_meets_is_told_with_the_nearest(found: Found, expression: str) -> None:
    finding = found(expression)["never-matches"]

    assert "warning" == finding.severity
    assert NEVER[expression] in finding.message


@pytest.mark.parametrize(
    "expression",
    [
        f'{GPU}.uuid == "GPU-1"',
        f'has({GPU}.driverVersion) && {GPU}.driverVersion.compareTo(semver("999.0.0")) >= 0',
        'device.attributes["resource.kubernetes.io"].?numaNode.orValue(0) == 77',
        f"{GPU}.?fabricCliqueID.orValue(0) == 77",
        f'{GPU}.?nvlinkClique.orValue("") == "x" && {GPU}.productName == "NVIDIA L4"',
    ],
)
def test_what_depends_on_the_machine_may_always_match(found: Found, expression: str) -> None:
    assert "never-matches" not in found(expression)


def test_a_value_of_another_type_is_not_called_missing(found: Found) -> None:
    finding = found(f'{GPU}.migCapable == "true"')["never-matches"]

    assert "no known model meets the selector" == finding.message


def test_a_product_like_no_known_one_may_be_new(found: Found) -> None:
    finding = found(f'{GPU}.productName == "Quadro RTX 8000"')["never-matches"]

    assert "info" == finding.severity


def test_a_mig_profile_that_some_board_has_is_fine(found: Found) -> None:
    profile = f'{GPU}.profile == "1g.18gb"'

    assert {} == found(profile, device_class="mig.nvidia.com")
    assert "never-matches" in found(profile.replace("18", "17"), device_class="mig.nvidia.com")


def test_selectors_that_contradict_each_other_are_counted(found: Found) -> None:
    finding = found(f'{GPU}.productName == "NVIDIA L4"', f'{GPU}.productName == "Tesla T4"')["never-matches"]

    assert (
        "no known model meets all selectors: of 12, selector 0 leaves 1, selector 1 leaves 1"
        in finding.message
    )


@pytest.mark.parametrize("expression", ["true", "1 < 2", "device.driver != '' || true"])
def test_a_constant_is_always_true(found: Found, expression: str) -> None:
    assert "warning" == found(expression)["always-matches"].severity


def test_what_every_known_model_meets_is_information(found: Found) -> None:
    assert "info" == found(f'{GPU}.productName != "x"')["always-matches"].severity


@pytest.mark.parametrize(
    ("limit", "missed"),
    [
        (">= 24Gi", "NVIDIA L4 with 23034Mi (22.5Gi)"),
        (">= 16Gi", "Tesla T4 with 15Gi"),
        ("> 40Gi", "NVIDIA A100-SXM4-40GB with 40Gi"),
        (">= 48Gi", "NVIDIA L40S with 46068Mi (45.0Gi)"),
    ],
)
def test_a_limit_at_the_name_of_a_card_leaves_it_out(found: Found, limit: str, missed: str) -> None:
    operator, amount = limit.split()

    finding = found(f'has({MEMORY}) && {MEMORY}.compareTo(quantity("{amount}")) {operator} 0')["just-missed"]

    assert missed in finding.message


@pytest.mark.parametrize("amount", ["22Gi", "35Gi", "79Gi", "15Gi"])
def test_a_limit_with_some_room_leaves_nothing_out(found: Found, amount: str) -> None:
    assert {} == found(f'has({MEMORY}) && {MEMORY}.compareTo(quantity("{amount}")) >= 0')


def test_a_card_that_another_condition_leaves_out_is_not_missed(found: Found) -> None:
    expression = f'has({MEMORY}) && {MEMORY}.compareTo(quantity("80Gi")) >= 0'

    assert "just-missed" not in found(f'{GPU}.productName.contains("A100")', expression)
    assert "just-missed" in found(expression)


def test_a_class_of_another_driver_is_not_said_to_match_nothing(check: Any) -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\n"
        "spec: {selectors: [{cel: {expression: device.driver == 'dra.net'}}]}\n"
    )

    assert [] == check(text)
    assert ["never-matches"] == [
        f.code for f in check(text.replace("'dra.net'", "'gpu.nvidia.com' && false"))
    ]


def test_what_lacks_the_value_that_is_asked_for_is_not_the_nearest(check: Any) -> None:
    class_ = (  # one of the official driver's examples, for a board that no profile here has
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: mig-1g-12gb}\n"
        "spec: {selectors: [{cel: {expression: \"device.driver == 'gpu.nvidia.com' && "
        "device.attributes['gpu.nvidia.com'].type == 'mig' && "
        "device.attributes['gpu.nvidia.com'].profile == '1g.12gb'\"}}]}\n"
    )

    [finding] = check(class_)

    assert 'the nearest profile is "1g.24gb"' in finding.message


def test_a_class_of_the_files_narrows_what_its_claims_can_get(found: Found) -> None:
    class_ = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: l4}\n"
        "spec: {selectors: [{cel: {expression: \"device.driver == 'gpu.nvidia.com' && "
        "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA L4'\"}}]}\n"
    )

    finding = found(f'{MEMORY}.compareTo(quantity("40Gi")) >= 0', device_class="l4", beside=(class_,))

    assert "the largest memory is 23034Mi" in finding["never-matches"].message

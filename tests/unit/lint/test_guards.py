"""A read is unguarded when it can fail, whatever the expression looks like."""

from collections.abc import Callable
from typing import Any

import pytest

Found = Callable[..., dict[str, Any]]
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'
GPU = 'device.attributes["gpu.nvidia.com"]'
FABRIC = f"{GPU}.fabricCliqueID"

GUARDED = {
    "has in front": [f"has({FABRIC}) && {FABRIC} == 7"],
    "has behind": [f"{FABRIC} == 7 && has({FABRIC})"],
    "in": [f'"fabricCliqueID" in {GPU} && {FABRIC} == 7'],
    "or": [f"!has({FABRIC}) || {FABRIC} == 7"],
    "a choice": [f"has({FABRIC}) ? {FABRIC} == 7 : false"],
    "an optional field": [f"{GPU}.?fabricCliqueID.orValue(0) == 7"],
    "an optional key": [f'{GPU}[?"fabricCliqueID"].orValue(0) == 7'],
    "a variable": [f"cel.bind(a, {GPU}, has(a.fabricCliqueID) && a.fabricCliqueID == 7)"],
    "an earlier selector": [f"has({FABRIC})", f"{FABRIC} == 7"],
    "its twin": [f'has({GPU}.fabricClusterUUID) && {GPU}.fabricClusterUUID == "x" && {FABRIC} == 7'],
    "a model that has it": [f'{GPU}.productName == "NVIDIA GB200" && {FABRIC} == 7'],
    "a value that is always there": [f'{GPU}.productName == "NVIDIA L4"'],
}
UNGUARDED = {
    "plain": [f"{FABRIC} == 7"],
    "another value's guard": [f"has({GPU}.nvlinkClique) && {FABRIC} == 7"],
    "a guard behind or": [f"has({FABRIC}) || {FABRIC} == 7"],
    "behind what is not known of a model": [f'{GPU}.uuid == "GPU-1" && {FABRIC} == 7'],
    "a variable": [f"cel.bind(a, {GPU}, a.fabricCliqueID == 7)"],
    "a guard in a later selector": [f"{FABRIC} == 7", f"has({FABRIC})"],
    "a capacity": [f'{MEMORY}.compareTo(quantity("20Gi")) >= 0'],
}


@pytest.mark.parametrize("expressions", GUARDED.values(), ids=GUARDED)
def test_a_guard_of_any_kind_counts(found: Found, expressions: list[str]) -> None:
    assert "unguarded-attribute" not in found(*expressions)


@pytest.mark.parametrize("expressions", UNGUARDED.values(), ids=UNGUARDED)
def test_without_a_guard_there_is_a_warning(found: Found, expressions: list[str]) -> None:
    assert "warning" == found(*expressions)["unguarded-attribute"].severity


def test_what_all_known_models_have_and_a_machine_may_not_tell_is_information(found: Found) -> None:
    finding = found(f'{GPU}.architecture == "Hopper"')["unguarded-attribute"]

    assert "info" == finding.severity
    assert "only where the NVIDIA driver reports it" in finding.message


def test_the_guarded_form_puts_an_or_in_parentheses(found: Found) -> None:
    finding = found(f"{FABRIC} == 7 || {FABRIC} == 8")["unguarded-attribute"]

    assert f"write has({FABRIC}) && ({FABRIC} == 7 || {FABRIC} == 8)" == finding.fix


def test_the_guarded_form_is_no_finding_itself(found: Found) -> None:
    finding = found(f"{FABRIC} == 7 || {FABRIC} == 8")["unguarded-attribute"]

    assert {} == found(str(finding.fix).removeprefix("write "))


def test_a_class_that_reads_before_it_asks_for_the_driver_is_told(check: Any) -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\n"
        "spec: {selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].type == 'gpu'\"}}]}\n"
    )
    earlier = text.replace("[{cel", "[{cel: {expression: device.driver == 'gpu.nvidia.com'}}, {cel")

    assert ["class-without-driver"] == [finding.code for finding in check(text)]
    assert [] == check(earlier)


@pytest.mark.parametrize(
    "value",
    [
        'attributes["gpu.nvidia.com"].uuid != ""',
        'capacity["gpu.nvidia.com"].memorySlice0.isGreaterThan(quantity("0"))',
    ],
)
def test_what_a_mig_device_lacks_until_it_is_made_needs_a_guard(found: Found, value: str) -> None:
    finding = found(f"device.{value}", device_class="mig.nvidia.com")["unguarded-attribute"]

    assert "warning" == finding.severity

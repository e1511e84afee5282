"""Decoding of opaque parameters: all fields of the official driver's, defaults, and every mistake at once."""

import subprocess
import sys
from typing import Any

import pytest

from dra_driver import strictjson
from dra_driver.config.opaque import InvalidParametersError, decode
from dra_driver.config.settings import (
    Config,
    GpuConfig,
    Interval,
    MigDeviceConfig,
    Mps,
    Setting,
    TimeSlicing,
    setting_of,
)
from dra_driver.errors import ConfigError
from dra_driver.quantity import Quantity

API = "resource.nvidia.com/v1beta1"


def decoded(sharing: Any, kind: str = "GpuConfig") -> Config:
    return decode({"apiVersion": API, "kind": kind, "sharing": sharing}, "P")


def problems(parameters: Any) -> set[tuple[str, str]]:
    with pytest.raises(InvalidParametersError) as caught:
        decode(parameters, "P")
    return {(problem.path, problem.message) for problem in caught.value.problems}


MPS_FIELDS = {
    "defaultActiveThreadPercentage": 50,
    "defaultPinnedDeviceMemoryLimit": "10Gi",
    "defaultPerDevicePinnedMemoryLimit": {"0": "5Gi", "GPU-8d2a": 1 << 30},
    "multiUser": True,
}
MPS = Mps(
    50, Quantity.of_bytes(10 << 30), {"0": Quantity.parse("5Gi"), "GPU-8d2a": Quantity.of(1 << 30)}, True
)
NOTHING_SET = dict.fromkeys(MPS_FIELDS)


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (None, None),
        ({"strategy": "TimeSlicing"}, TimeSlicing(Interval.DEFAULT)),
        ({"strategy": "TimeSlicing", "timeSlicingConfig": {}}, TimeSlicing(Interval.DEFAULT)),
        ({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": None}}, TimeSlicing(Interval.DEFAULT)),
        ({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}, TimeSlicing(Interval.LONG)),
        ({"strategy": "TimeSlicing", "mpsConfig": None}, TimeSlicing()),
        ({"strategy": "MPS"}, Mps()),
        ({"strategy": "MPS", "mpsConfig": {}}, Mps()),
        ({"strategy": "MPS", "mpsConfig": NOTHING_SET, "timeSlicingConfig": None}, Mps()),
        ({"strategy": "MPS", "mpsConfig": MPS_FIELDS}, MPS),
    ],
)
def test_settings_of_gpus(sharing: Any, expected: Any) -> None:
    assert GpuConfig(expected) == decoded(sharing)


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (None, None),
        ({"strategy": "TimeSlicing"}, TimeSlicing()),
        ({"strategy": "MPS", "mpsConfig": MPS_FIELDS}, MPS),
    ],
)
def test_settings_of_mig_devices(sharing: Any, expected: Any) -> None:
    assert MigDeviceConfig(expected) == decoded(sharing, "MigDeviceConfig")


@pytest.mark.parametrize("limit", ["1Gi", "1024Mi", 1 << 30, "1073741824500m", (1 << 30) + 1])
def test_an_amount_is_the_same_setting_in_whatever_way_it_is_written(limit: Any) -> None:
    fields = {"defaultPinnedDeviceMemoryLimit": limit, "defaultPerDevicePinnedMemoryLimit": {"0": limit}}
    sharing = decoded({"strategy": "MPS", "mpsConfig": fields}).sharing
    assert sharing is not None

    assert Setting("MPS (1Gi of memory, 1Gi on 0)", exclusive=True) == setting_of(sharing, ["gpu-0"])


MISTAKES: dict[str, tuple[Any, str, str]] = {
    "no object": ([], "", "expected an object, not a list"),
    "no strategy": ({}, ".strategy", "it is required"),
    "a strategy in capitals": ({"strategy": "mps"}, ".strategy", "expected TimeSlicing or MPS, not 'mps'"),
    "half a character": ({"strategy": "\ud800"}, ".strategy", r"expected a text in Unicode, not '\ud800'"),
    "an unknown field": ({"strategy": "MPS", "mpsconfig": {}}, "", "sharing has no field 'mpsconfig'"),
    "an unknown interval": (
        {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Forever"}},
        ".timeSlicingConfig.interval",
        "expected Default, Short, Medium or Long, not 'Forever'",
    ),
    "settings of MPS for time-slicing": (
        {"strategy": "TimeSlicing", "mpsConfig": {}},
        ".mpsConfig",
        "it cannot be used with the strategy TimeSlicing",
    ),
    "settings of time-slicing for MPS": (
        {"strategy": "MPS", "timeSlicingConfig": {}},
        ".timeSlicingConfig",
        "it cannot be used with the strategy MPS",
    ),
}


@pytest.mark.parametrize(("sharing", "path", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_its_path(sharing: Any, path: str, message: str) -> None:
    parameters = {"apiVersion": API, "kind": "GpuConfig", "sharing": sharing}

    assert {(f".sharing{path}", message)} == problems(parameters)


PERCENTAGE = "expected a percentage from 0 to 100"
LIMIT = "expected a quantity from 1Mi to 8Ei, as MPS counts in MiB"


@pytest.mark.parametrize(
    ("field", "value", "path", "message"),
    [
        ("defaultActiveThreadPercentage", -1, "", f"{PERCENTAGE}, not -1"),
        ("defaultActiveThreadPercentage", 101, "", f"{PERCENTAGE}, not 101"),
        ("defaultActiveThreadPercentage", "50", "", f"{PERCENTAGE}, not '50'"),
        ("defaultActiveThreadPercentage", True, "", f"{PERCENTAGE}, not True"),
        ("defaultActiveThreadPercentage", 0.5, "", f"{PERCENTAGE}, not 0.5"),
        ("defaultPinnedDeviceMemoryLimit", "1023Ki", "", f"{LIMIT}, not '1023Ki'"),
        ("defaultPinnedDeviceMemoryLimit", "much", "", f"{LIMIT}, not 'much'"),
        ("defaultPinnedDeviceMemoryLimit", 1 << 63, "", f"{LIMIT}, not {1 << 63}"),
        ("defaultPinnedDeviceMemoryLimit", True, "", f"{LIMIT}, not True"),
        ("defaultPinnedDeviceMemoryLimit", ["1Gi"], "", f"{LIMIT}, not a list"),
        ("defaultPerDevicePinnedMemoryLimit", ["1Gi"], "", "expected an object, not a list"),
        (
            "defaultPerDevicePinnedMemoryLimit",
            {"-1": "1Gi"},
            "",
            "'-1' is neither the UUID nor the index of a device",
        ),
        (
            "defaultPerDevicePinnedMemoryLimit",
            {"gpu-0": "1Gi"},
            "",
            "'gpu-0' is neither the UUID nor the index of a device",
        ),
        ("defaultPerDevicePinnedMemoryLimit", {"0": "0"}, "['0']", f"{LIMIT}, not '0'"),
        (
            "defaultPerDevicePinnedMemoryLimit",
            {"1" * 5000: "1Gi"},  # Python makes no number of so many digits
            "",
            f"'{'1' * 63} is neither the UUID nor the index of a device",
        ),
        ("multiUser", "yes", "", "expected true or false, not 'yes'"),
        ("multiUser", 1, "", "expected true or false, not 1"),
    ],
)
def test_a_wrong_value_of_mps_is_told_with_its_path(field: str, value: Any, path: str, message: str) -> None:
    sharing = {"strategy": "MPS", "mpsConfig": {field: value}}

    assert {(f".sharing.mpsConfig.{field}{path}", message)} == problems(
        {"apiVersion": API, "kind": "GpuConfig", "sharing": sharing}
    )


def test_mig_devices_have_no_settings_of_time_slicing() -> None:
    sharing = {"strategy": "TimeSlicing", "timeSlicingConfig": {}}

    assert {(".sharing", "sharing has no field 'timeSlicingConfig'")} == problems(
        {"apiVersion": API, "kind": "MigDeviceConfig", "sharing": sharing}
    )


def test_all_mistakes_are_told_at_once_in_one_sentence() -> None:
    sharing = {"strategy": "TimeSlicing", "mpsConfig": {"multiUser": 1, "x": 2}}
    parameters = {"apiVersion": API, "kind": "GpuConfig", "sharing": sharing, "y": 3}

    with pytest.raises(ConfigError) as caught:
        decode(parameters, "P")

    assert str(caught.value) == (
        "P.sharing.mpsConfig.multiUser: expected true or false, not 1; "
        ".sharing.mpsConfig: mpsConfig has no field 'x'; GpuConfig has no field 'y'; "
        ".sharing.mpsConfig: it cannot be used with the strategy TimeSlicing"
    )


def test_a_wrong_version_and_a_wrong_kind_are_told_together() -> None:
    found = {path for path, _ in problems({"apiVersion": "v1", "kind": "GPUConfig"})}

    assert {".apiVersion", ".kind"} == found


def test_a_wrong_version_does_not_hide_what_else_is_wrong() -> None:
    found = {path for path, _ in problems({"apiVersion": "v1", "kind": "GpuConfig", "sharing": {}})}

    assert {".apiVersion", ".sharing.strategy"} == found


def test_a_field_that_is_given_twice_is_an_error() -> None:
    text = f'{{"apiVersion": "{API}", "kind": "GpuConfig", "kind": "GpuConfig", "sharing": '
    text += '{"strategy": "MPS", "strategy": "MPS"}}'

    assert {
        ("", "the field 'kind' is given twice"),
        (".sharing", "the field 'strategy' is given twice"),
    } == problems(strictjson.loads(text))


def test_many_mistakes_make_no_long_text() -> None:
    parameters = {"apiVersion": API, "kind": "GpuConfig"} | {f"x{n}" * 50: n for n in range(1000)}

    with pytest.raises(InvalidParametersError) as caught:
        decode(parameters, "P")

    assert 1000 == len(caught.value.problems)
    assert str(caught.value).endswith("; and 992 more")
    assert len(str(caught.value)) < 1000


def test_a_configuration_without_settings_does_not_load_pydantic() -> None:
    program = (
        "import sys; from dra_driver.config.opaque import decode; import dra_driver.node.plugin; "
        f"decode({{'apiVersion': '{API}', 'kind': 'GpuConfig', 'sharing': None}}, 'P'); "
        "print('pydantic' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.strip()

"""What a daemon is started with: limits by UUID or index, and what they are for clients of shares."""

from typing import Any

import pytest

from dra_driver.config.settings import Mps
from dra_driver.errors import ConfigError
from dra_driver.quantity import Quantity
from dra_driver.sharing.daemon import client_limits, daemon_for, spec_from_dict

UUIDS = ["GPU-b", "GPU-a"]


def quantity(text: str) -> Quantity:
    return Quantity.parse(text)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, {}),
        ({"memory": quantity("10Gi")}, {"GPU-a": 10240, "GPU-b": 10240}),
        ({"memory_of": {"1": quantity("1Gi")}}, {"GPU-b": 1024}),
        ({"memory_of": {"GPU-b": quantity("1500M")}}, {"GPU-b": 1430}),
        (
            {"memory": quantity("2Gi"), "memory_of": {"0": quantity("1Gi")}},
            {"GPU-a": 1024, "GPU-b": 2048},
        ),
    ],
)
def test_limits_are_in_mib_by_uuid(limits: Any, expected: Any) -> None:
    assert expected == daemon_for(Mps(**limits), UUIDS, "P").memory


@pytest.mark.parametrize("key", ["2", "GPU-c", "MIG-a"])
def test_a_limit_for_another_device_is_an_error(key: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^P\.sharing\.mpsConfig\.default.*: '{key}' is none of the claim's"
    ):
        daemon_for(Mps(memory_of={key: quantity("1Gi")}), UUIDS, "P")


def test_two_limits_for_one_device_are_an_error() -> None:
    limits = {"1": quantity("1Gi"), "GPU-b": quantity("2Gi")}

    with pytest.raises(ConfigError, match=r"'GPU-b' is a device that has a limit by index and by UUID"):
        daemon_for(Mps(memory_of=limits), UUIDS, "P")


def test_the_control_program_is_told_all_limits() -> None:
    spec = daemon_for(Mps(threads=25, memory=quantity("1Gi")), UUIDS, "P")

    assert (
        "set_default_active_thread_percentage 25",
        "set_default_device_pinned_mem_limit GPU-a 1024M",
        "set_default_device_pinned_mem_limit GPU-b 1024M",
    ) == spec.commands()


def test_a_daemon_is_named_by_its_devices_in_any_order() -> None:
    one, other = daemon_for(Mps(), UUIDS, "P"), daemon_for(Mps(threads=1), UUIDS[::-1], "P")

    assert one.name == other.name != daemon_for(Mps(), ["GPU-a"], "P").name
    assert 16 == len(one.name)


def test_a_spec_can_be_written_down() -> None:
    spec = daemon_for(Mps(25, quantity("1Gi"), {}, multi_user=True), UUIDS, "P")

    assert spec == spec_from_dict(spec.as_dict())


def test_clients_of_shares_are_limited_by_the_order_of_devices() -> None:
    consumed = {"GPU-b": 4 << 30, "GPU-a": 100}

    assert "0=1M,1=4096M" == client_limits(("GPU-a", "GPU-b"), consumed)
    assert "1=4096M" == client_limits(("GPU-a", "GPU-b"), {"GPU-b": 4 << 30})
    assert "" == client_limits(("GPU-a",), {})

"""Devices and their hardware, written down and read again."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.devices.model import (
    CounterConsumption,
    Device,
    Limits,
    RequestPolicy,
    Target,
    device_from_dict,
    target_from_dict,
)
from dra_driver.quantity import Quantity
from dra_driver.resource.validation import validate

GPU = Target("gpu", "GPU-0", "GPU-0", "0000:65:00.0")
PARTITION = Target("partition", "", "GPU-0", "0000:65:00.0", profile_id=19, start=0)


@pytest.mark.parametrize("target", [GPU, Target("mig", "MIG-0", "GPU-0", "0000:65:00.0"), PARTITION])
def test_hardware_is_read_as_it_was_written(target: Target) -> None:
    assert target == target_from_dict(target.as_dict())


def test_whole_gpus_are_written_as_ever() -> None:
    identity = {"uuid": "GPU-0", "gpuUUID": "GPU-0", "pciAddress": "0000:65:00.0"}

    assert {"kind": "gpu", **identity} == GPU.as_dict()


@pytest.mark.parametrize(
    "change", [{"kind": "vfio"}, {"profileID": None}, {"start": "first"}], ids=["kind", "profile", "start"]
)
def test_what_is_no_hardware_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        target_from_dict(PARTITION.as_dict() | change)


def test_shares_and_counters_are_read_as_they_were_written() -> None:
    policy = RequestPolicy(Quantity.of(1), Limits(*(Quantity.of(amount) for amount in (1, 4, 1))))
    device = Device(
        "gpu-0",
        GPU,
        capacity={"memory": Quantity.parse("40Gi"), "shares": Quantity.of(4)},
        consumes=(CounterConsumption("gpu-0-counters", {"memory": Quantity.parse("40Gi")}),),
        allow_multiple_allocations=True,
        policies={"shares": policy, "memory": RequestPolicy(Quantity.of(0))},
    )

    assert device == device_from_dict(device.as_dict(), GPU)


def test_shares_are_written_as_the_api_server_takes_them(slice_of: Callable[..., dict[str, Any]]) -> None:
    policy = RequestPolicy(Quantity.of(1), Limits(*(Quantity.of(amount) for amount in (1, 4, 1))))
    device = Device(
        "gpu-0",
        GPU,
        capacity={"shares": Quantity.of(4)},
        allow_multiple_allocations=True,
        policies={"shares": policy},
    )

    limits = {"default": "1", "validRange": {"min": "1", "max": "4", "step": "1"}}
    assert {"value": "4", "requestPolicy": limits} == device.as_dict()["capacity"]["shares"]
    assert [] == validate(slice_of([device]))

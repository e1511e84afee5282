"""Devices to publish."""

from collections.abc import Callable
from typing import Any, Literal

import pytest

from dra_driver.devices.model import CounterConsumption, Device, Target
from dra_driver.quantity import Quantity

Make = Callable[..., Device]


@pytest.fixture
def device() -> Make:
    """Makes GPU number `n`; what else is given overrides."""

    def make(
        n: int, *, kind: Literal["gpu", "mig"] = "gpu", counters: str | None = None, **parts: Any
    ) -> Device:
        consumes = (CounterConsumption(counters, {"memory": Quantity.of_bytes(2**30)}),) if counters else ()
        return Device(
            name=parts.pop("name", f"gpu-{n}"),
            target=Target(kind, f"GPU-{n}", f"GPU-{n}", "0000:00:00.0"),
            attributes=parts.pop("attributes", {"uuid": f"GPU-{n}"}),
            capacity=parts.pop("capacity", {"memory": Quantity.of_bytes(80 * 2**30)}),
            consumes=consumes,
            **parts,
        )

    return make

"""Two contents are compared by what they mean."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.quantity import Quantity
from dra_driver.slices.compare import dropped_fields, fingerprint


def gpu(**parts: Any) -> dict[str, Any]:
    return {"devices": [{"name": "gpu-0", **parts}]}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({}, {"devices": []}),
        ({}, {"devices": None, "sharedCounters": None}),
        (gpu(), gpu(attributes={}, capacity=None, taints=[])),
        (gpu(capacity={"memory": {"value": "0.5Gi"}}), gpu(capacity={"memory": {"value": "512Mi"}})),
        (gpu(capacity={"memory": {"value": "1000m"}}), gpu(capacity={"memory": {"value": "1"}})),
        (
            gpu(consumesCounters=[{"counterSet": "s", "counters": {"value": {"value": "1024"}}}]),
            gpu(consumesCounters=[{"counterSet": "s", "counters": {"value": {"value": "1Ki"}}}]),
        ),
        (
            {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "1e3"}}}]},
            {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "1k"}}}]},
        ),
        (
            gpu(taints=[{"key": "k", "value": "", "effect": "NoSchedule"}]),
            gpu(taints=[{"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]),
        ),
        (
            gpu(capacity={"m": {"value": "4Gi", "requestPolicy": {"validValues": ["1024Mi"]}}}),
            gpu(capacity={"m": {"value": "4Gi", "requestPolicy": {"validValues": ["1Gi"]}}}),
        ),
        (
            gpu(attributes={"a": {"int": 1}, "b": {"bool": False}}),
            gpu(attributes={"b": {"bool": False}, "a": {"int": 1}}),
        ),
    ],
)
def test_these_mean_the_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert fingerprint(left) == fingerprint(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (gpu(), {}),
        ({"devices": [{"name": "a"}, {"name": "b"}]}, {"devices": [{"name": "b"}, {"name": "a"}]}),
        (gpu(attributes={"a": {"string": "1Gi"}}), gpu(attributes={"a": {"string": "1024Mi"}})),
        (gpu(attributes={"a": {"bool": False}}), gpu()),
        (gpu(attributes={"a": {"string": ""}}), gpu()),
        (gpu(capacity={"memory": {"value": "1Gi"}}), gpu(capacity={"memory": {"value": "1G"}})),
        (
            gpu(taints=[{"key": "k", "effect": "NoSchedule"}]),
            gpu(taints=[{"key": "k", "effect": "NoExecute"}]),
        ),
        (
            gpu(taints=[{"key": "k", "value": "lost", "effect": "NoSchedule"}]),
            gpu(taints=[{"key": "k", "value": "sick", "effect": "NoSchedule"}]),
        ),
        (
            {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "1"}}}]},
            {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "2"}}}]},
        ),
        (gpu(capacity={"memory": {"value": "1"}}), gpu(capacity={"memory": {"value": "nonsense"}})),
    ],
)
def test_these_differ(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert fingerprint(left) != fingerprint(right)


@given(st.integers(min_value=0, max_value=2**62))
def test_a_quantity_in_the_servers_words_is_no_difference(nanos: int) -> None:
    sent = gpu(capacity={"memory": {"value": f"{nanos}n"}})
    stored = gpu(capacity={"memory": {"value": str(Quantity(nanos))}})
    assert fingerprint(sent) == fingerprint(stored)


def test_dropped_fields_are_named_with_devices_and_gate() -> None:
    sent = {
        "devices": [
            {"name": f"gpu-{n}", "taints": [{"key": "k", "effect": "None"}], "allowMultipleAllocations": True}
            for n in range(5)
        ]
    }
    stored = {"devices": [{"name": f"gpu-{n}"} for n in range(5)]}
    sharing, taints = dropped_fields(sent, stored)
    assert (sharing.field, sharing.gate) == ("allowMultipleAllocations", "DRAConsumableCapacity")
    assert str(taints) == (
        "the API server does not keep taints of gpu-0, gpu-1, gpu-2 and 2 more: "
        "feature gate DRADeviceTaints seems to be off there"
    )


def test_dropped_counter_sets_are_named() -> None:
    sent = {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "1"}}}]}
    (dropped,) = dropped_fields(sent, {})
    assert (dropped.field, dropped.devices, dropped.gate) == ("sharedCounters", (), "DRAPartitionableDevices")


def test_a_device_that_did_not_come_back_is_named_without_a_guess() -> None:
    (dropped,) = dropped_fields(gpu(), {})
    assert str(dropped) == "the API server does not keep devices of gpu-0: for a reason it does not tell"

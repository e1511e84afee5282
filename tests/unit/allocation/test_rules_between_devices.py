"""Constraints, taints, counters and capacity."""

from typing import Any

import pytest

from dra_driver.allocation import AllocationError

CLIQUE = "gpu.nvidia.com/clique"
MAINTENANCE = {"key": "maintenance", "value": "disk", "effect": "NoSchedule"}


def consumes(**counters: int) -> list[dict[str, Any]]:
    return [
        {"counterSet": "gpu", "counters": {name: {"value": str(value)} for name, value in counters.items()}}
    ]


def counters(world: Any, **totals: int) -> None:
    values = {name: {"value": str(total)} for name, total in totals.items()}
    world.slice(
        name="counters", pool={"resourceSliceCount": 2}, sharedCounters=[{"name": "gpu", "counters": values}]
    )


def test_matching_devices_have_one_value(world: Any) -> None:
    world.slice(*(world.device(f"gpu-{index}", clique=clique) for index, clique in enumerate("abcb")))
    claim = world.claim(world.request(count=2), constraints=[{"matchAttribute": CLIQUE}])

    assert world.devices(claim) == ["gpu-1", "gpu-3"]


def test_a_device_without_the_attribute_never_matches(world: Any) -> None:
    world.slice(world.device("gpu-0"))

    assert world.devices(world.claim(world.request(), constraints=[{"matchAttribute": CLIQUE}])) is None


def test_a_constraint_looks_at_its_requests_only(world: Any) -> None:
    world.slice(world.device("gpu-0", clique="a"), world.device("gpu-1", clique="b"))
    requests = world.request("one"), world.request("two")

    constraint = {"requests": ["one"], "matchAttribute": CLIQUE}
    assert world.devices(world.claim(*requests, constraints=[constraint])) == ["gpu-0", "gpu-1"]
    constraint["requests"] = ["one", "two"]
    assert world.devices(world.claim(*requests, constraints=[constraint])) is None


def test_an_attribute_may_carry_its_drivers_domain_or_not(world: Any) -> None:
    qualified = world.device("gpu-1")
    qualified["attributes"] = {CLIQUE: {"string": "a"}}
    world.slice(world.device("gpu-0", clique="a"), qualified)

    claim = world.claim(world.request(count=2), constraints=[{"matchAttribute": CLIQUE}])
    assert world.devices(claim) == ["gpu-0", "gpu-1"]


def test_distinct_devices_have_different_values(world: Any) -> None:
    world.slice(*(world.device(f"gpu-{index}", clique=clique) for index, clique in enumerate("aab")))
    claim = world.claim(world.request(count=2), constraints=[{"distinctAttribute": CLIQUE}])

    assert world.devices(claim) == ["gpu-0", "gpu-2"]


def test_all_devices_against_a_constraint_make_no_sense(world: Any) -> None:
    world.slice(world.device("gpu-0", clique="a"), world.device("gpu-1", clique="b"))
    claim = world.claim(world.request(allocationMode="All"), constraints=[{"matchAttribute": CLIQUE}])

    with pytest.raises(
        AllocationError, match=r"cannot add device gpu.nvidia.com/pool/gpu-1 because a claim constraint"
    ):
        world.devices(claim)


def test_a_constraint_against_all_devices_is_told_before_capacity_that_is_short(world: Any) -> None:
    shared = world.device("gpu-1", capacity={"memory": "10Gi"}, allowMultipleAllocations=True)
    world.slice(world.device("gpu-0", clique="a"), shared)
    first = world.claim(world.request(capacity={"requests": {"memory": "10Gi"}}), name="first")
    everything = world.claim(world.request(allocationMode="All"), constraints=[{"matchAttribute": CLIQUE}])

    assert world.devices(first) == ["gpu-1"]
    with pytest.raises(AllocationError, match=r"cannot add device gpu.nvidia.com/pool/gpu-1"):
        world.devices(first, everything)


def test_devices_match_whose_lists_have_a_value_in_common(world: Any) -> None:
    # The first pair that has one, 1 and 2, has none with a third device, so what they shared has to be forgotten.
    nodes = [[1, 2], [1], [2], [2]]
    world.slice(*(world.device(f"gpu-{index}", nodes=values) for index, values in enumerate(nodes, 1)))
    claim = world.claim(world.request(count=3), constraints=[{"matchAttribute": "gpu.nvidia.com/nodes"}])

    assert world.devices(claim) is None
    world.lists = True
    assert world.devices(claim) == ["gpu-1", "gpu-3", "gpu-4"]


def test_a_value_matches_a_list_that_has_it(world: Any) -> None:
    world.lists = True
    world.slice(*(world.device(f"gpu-{index}", node=value) for index, value in enumerate([1, [2], [2, 1]])))
    claim = world.claim(world.request(count=2), constraints=[{"matchAttribute": "gpu.nvidia.com/node"}])

    assert world.devices(claim) == ["gpu-0", "gpu-2"]


def test_distinct_devices_have_lists_with_nothing_in_common(world: Any) -> None:
    world.lists = True
    world.slice(
        *(world.device(f"gpu-{index}", node=value) for index, value in enumerate([[1, 2], [2, 3], 3]))
    )
    claim = world.claim(world.request(count=2), constraints=[{"distinctAttribute": "gpu.nvidia.com/node"}])

    assert world.devices(claim) == ["gpu-0", "gpu-2"]


def test_a_constraint_without_a_rule_aborts(world: Any) -> None:
    with pytest.raises(AllocationError, match="constraint #0: empty constraint"):
        world.devices(world.claim(world.request(), constraints=[{"requests": ["r"]}]))


@pytest.mark.parametrize(
    ("toleration", "allocated"),
    [
        (None, False),
        ({"key": "maintenance", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "maintenance", "value": "disk"}, True),
        ({"key": "maintenance", "operator": "Equal", "value": "fan"}, False),
        ({"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_has_to_be_tolerated(world: Any, toleration: Any, allocated: bool) -> None:
    world.slice(world.device("gpu-0", taints=[MAINTENANCE]))
    tolerations = {"tolerations": [toleration]} if toleration else {}

    assert world.devices(world.claim(world.request(**tolerations))) == (["gpu-0"] if allocated else None)


def test_a_taint_for_information_keeps_nothing(world: Any) -> None:
    world.slice(world.device("gpu-0", taints=[{"key": "slow", "effect": "None"}]))

    assert world.devices(world.claim(world.request())) == ["gpu-0"]


def test_partitions_share_the_counters_of_their_gpu(world: Any) -> None:
    counters(world, memory=40)
    partitions = (world.device(f"mig-{index}", consumesCounters=consumes(memory=20)) for index in range(3))
    world.slice(*partitions, pool={"resourceSliceCount": 2})

    assert world.devices(world.claim(world.request(count=2))) == ["mig-0", "mig-1"]
    assert world.devices(world.claim(world.request(count=3))) is None
    world.take("mig-0")
    assert world.devices(world.claim(world.request(count=2))) is None


def test_counters_of_a_rejected_partition_are_given_back(world: Any) -> None:
    counters(world, memory=20)
    world.slice(
        world.device("mig-0", consumesCounters=consumes(memory=20), taints=[MAINTENANCE]),
        world.device("mig-1", consumesCounters=consumes(memory=20)),
        pool={"resourceSliceCount": 2},
    )

    assert world.devices(world.claim(world.request())) == ["mig-1"]


def test_an_overdrawn_counter_blocks_the_counters_of_its_pool(world: Any) -> None:
    counters(world, memory=10, cores=4)
    world.slice(
        world.device("big", consumesCounters=consumes(memory=20)),
        world.device("small", consumesCounters=consumes(cores=1)),
        world.device("free"),
        pool={"resourceSliceCount": 2},
    )
    world.take("big")

    assert world.devices(world.claim(world.request())) == ["free"]


def test_a_shared_device_is_given_out_until_its_capacity_is_used(world: Any) -> None:
    world.slice(world.device("gpu-0", allowMultipleAllocations=True, capacity={"memory": "40Gi"}))
    wanted = {"capacity": {"requests": {"memory": "15Gi"}}}
    world.take("gpu-0", shareID="a", consumedCapacity={"memory": "5Gi"})

    one, two, three = (world.request(name, **wanted) for name in ("one", "two", "three"))
    (result,) = world.allocate(world.claim(one, two))
    shares = result["devices"]["results"]
    assert [share["consumedCapacity"] for share in shares] == [{"memory": "15Gi"}, {"memory": "15Gi"}]
    assert len({share["shareID"] for share in shares}) == 2
    assert world.devices(world.claim(one, two, three)) is None


def test_a_shared_device_is_given_to_a_request_once(world: Any) -> None:
    world.slice(world.device("gpu-0", allowMultipleAllocations=True))

    assert world.devices(world.claim(world.request("a"), world.request("b"))) == ["gpu-0", "gpu-0"]
    assert world.devices(world.claim(world.request(count=2))) is None


def test_a_request_for_capacity_selects_among_whole_devices(world: Any) -> None:
    world.slice(
        world.device("small", capacity={"memory": "16Gi"}), world.device("big", capacity={"memory": "80Gi"})
    )

    (result,) = world.allocate(world.claim(world.request(capacity={"requests": {"memory": "40Gi"}})))
    assert result["devices"]["results"] == [
        {"request": "r", "driver": "gpu.nvidia.com", "pool": "pool", "device": "big"}
    ]


def test_a_capacity_that_the_device_lacks_does_not_fit(world: Any) -> None:
    world.slice(world.device("gpu-0", capacity={"memory": "16Gi"}))

    assert world.devices(world.claim(world.request(capacity={"requests": {"cores": "1"}}))) is None


@pytest.mark.parametrize(
    ("policy", "asked", "consumed"),
    [
        ({}, "7Gi", "7Gi"),
        ({}, None, "40Gi"),
        ({"default": "10Gi"}, None, "10Gi"),
        ({"default": "10Gi", "validRange": {"min": "5Gi"}}, "1Gi", "5Gi"),
        ({"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}, "11Gi", "15Gi"),
        ({"default": "10Gi", "validRange": {"min": "5Gi", "max": "20Gi"}}, "21Gi", None),
        ({"default": "10Gi", "validValues": ["5Gi", "10Gi", "20Gi"]}, "11Gi", "20Gi"),
        ({"default": "10Gi", "validValues": ["5Gi", "10Gi", "20Gi"]}, "30Gi", None),
        ({}, "41Gi", None),
    ],
)
def test_a_policy_rounds_what_is_asked_for(world: Any, policy: Any, asked: Any, consumed: Any) -> None:
    capacity = {"memory": {"value": "40Gi", **({"requestPolicy": policy} if policy else {})}}
    world.slice(world.device("gpu-0", allowMultipleAllocations=True, capacity=capacity))
    wanted = {"capacity": {"requests": {"memory": asked}}} if asked else {}

    results = world.allocate(world.claim(world.request(**wanted)))
    found = results and results[0]["devices"]["results"][0]["consumedCapacity"]
    assert found == (consumed and {"memory": consumed})


def test_the_first_share_pays_for_counters(world: Any) -> None:
    counters(world, memory=20)
    device = world.device("mig-0", consumesCounters=consumes(memory=20), allowMultipleAllocations=True)
    world.slice(device, pool={"resourceSliceCount": 2})

    assert world.devices(world.claim(world.request("a"), world.request("b"))) == ["mig-0", "mig-0"]

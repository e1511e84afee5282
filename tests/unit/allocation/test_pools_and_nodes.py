"""Which pools count, and for which nodes."""

from typing import Any

import pytest

from dra_driver.allocation import AllocationError, NodeError

ALL = {"allocationMode": "All"}


def test_only_the_newest_generation_counts(world: Any) -> None:
    world.slice(world.device("old"), pool={"generation": 1})
    world.slice(world.device("new"), pool={"generation": 2})

    assert world.devices(world.claim(world.request())) == ["new"]


def test_what_is_outdated_for_the_node_is_not_used(world: Any) -> None:
    world.slice(world.device("old"), pool={"generation": 1})
    world.slice(world.device("new"), pool={"generation": 2}, nodeName="n2")

    assert world.devices(world.claim(world.request())) == ["old"]
    world.slices[0]["spec"]["pool"]["resourceSliceCount"] = 2
    assert world.devices(world.claim(world.request(**ALL))) is None


def test_an_incomplete_pool_is_passed_over_but_not_by_all(world: Any) -> None:
    world.slice(world.device("gpu-0"), pool={"resourceSliceCount": 2})

    assert world.devices(world.claim(world.request())) is None
    with pytest.raises(
        AllocationError, match=r"resource pool gpu.nvidia.com/pool is currently being updated"
    ):
        world.devices(world.claim(world.request(**ALL)))


def test_slices_of_other_nodes_complete_a_pool(world: Any) -> None:
    world.slice(world.device("here"), pool={"resourceSliceCount": 2})
    world.slice(world.device("there"), pool={"resourceSliceCount": 2}, nodeName="n2")

    assert world.devices(world.claim(world.request(**ALL))) == ["here"]


def test_a_device_twice_makes_a_pool_invalid(world: Any) -> None:
    world.slice(world.device("gpu-0"), pool={"resourceSliceCount": 2})
    world.slice(world.device("gpu-0"), pool={"resourceSliceCount": 2})

    with pytest.raises(NodeError, match="invalid resource pools were encountered"):
        world.devices(world.claim(world.request()))
    with pytest.raises(AllocationError, match="is currently invalid"):
        world.devices(world.claim(world.request(**ALL)))


def test_a_counter_that_nobody_has_makes_a_pool_invalid(world: Any) -> None:
    consumes = [{"counterSet": "set", "counters": {"memory": {"value": "1"}}}]
    world.slice(world.device("gpu-0", consumesCounters=consumes))

    with pytest.raises(NodeError, match="invalid resource pools"):
        world.devices(world.claim(world.request()))


def test_an_invalid_pool_is_passed_over_where_another_has_what_is_wanted(world: Any) -> None:
    world.slice(world.device("gpu-0"), world.device("gpu-0"), pool={"name": "a"})
    world.slice(world.device("gpu-1"), pool={"name": "b"})

    assert world.devices(world.claim(world.request())) == ["gpu-1"]


@pytest.mark.parametrize(("first", "allocated"), [(1, ["gpu-0"]), (2, None)])
def test_of_slices_that_disagree_about_their_number_the_first_is_believed(
    world: Any, first: int, allocated: list[str] | None
) -> None:
    world.slice(world.device("gpu-0"), name="b", pool={"resourceSliceCount": first})
    world.slice(name="a", nodeName="n2", pool={"resourceSliceCount": 3 - first})
    world.slice(name="c", nodeName="n2")

    assert world.devices(world.claim(world.request())) == allocated


def test_pools_are_used_by_driver_and_name_and_slices_by_name(world: Any) -> None:
    world.slice(world.device("b2"), name="2", pool={"name": "b", "resourceSliceCount": 2})
    world.slice(world.device("b1"), name="1", pool={"name": "b", "resourceSliceCount": 2})
    world.slice(world.device("a1"), name="3", pool={"name": "a"})

    assert world.devices(world.claim(world.request(**ALL))) == ["a1", "b1", "b2"]


def test_pools_with_binding_conditions_come_last(world: Any) -> None:
    world.slice(world.device("bound", bindingConditions=["ready"]), pool={"name": "a"})
    world.slice(world.device("free"), pool={"name": "b"})

    assert world.devices(world.claim(world.request(**ALL))) == ["free", "bound"]


def test_a_slice_is_for_the_nodes_it_selects(world: Any) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    world.slice(world.device("zonal"), nodeSelector={"nodeSelectorTerms": [term]}, pool={"name": "zonal"})
    world.slice(world.device("global"), allNodes=True, pool={"name": "global"})

    claim = world.claim(world.request(**ALL))
    assert world.devices(claim, zone="a") == ["global", "zonal"]
    assert world.devices(claim, zone="b") == ["global"]


def test_a_device_may_be_for_nodes_of_its_own(world: Any) -> None:
    devices = (
        world.device("one", nodeName="n1"),
        world.device("two", nodeName="n2"),
        world.device("all", allNodes=True),
    )
    world.slice(*devices, perDeviceNodeSelection=True)

    assert world.devices(world.claim(world.request(**ALL))) == ["one", "all"]


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ({"operator": "In", "values": ["5"]}, True),
        ({"operator": "NotIn", "values": ["5"]}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
        ({"operator": "Gt", "values": ["4"]}, True),
        ({"operator": "Lt", "values": ["4"]}, False),
    ],
)
def test_node_selectors_compare_labels(world: Any, requirement: Any, holds: bool) -> None:
    term = {"matchExpressions": [{"key": "size", **requirement}]}
    world.slice(world.device("gpu-0"), nodeSelector={"nodeSelectorTerms": [term]})

    assert (world.devices(world.claim(world.request()), size="5") is not None) is holds


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_a_slice_that_compares_a_label_with_no_integer_aborts_whatever_the_claim(
    world: Any, operator: str
) -> None:
    terms = [
        {"matchExpressions": [{"key": "size", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "size", "operator": operator, "values": ["big"]}]},
    ]
    world.slice(world.device("gpu-0"), pool={"name": "a"})
    world.slice(
        world.device("nic-0"), pool={"name": "b"}, name="odd", nodeSelector={"nodeSelectorTerms": terms}
    )

    with pytest.raises(
        AllocationError, match=rf"slice odd: node selector: {operator} on label 'size' needs one integer"
    ):
        world.devices(world.claim(world.request()), size="5")


def test_an_empty_term_selects_no_node(world: Any) -> None:
    world.slice(world.device("gpu-0"), nodeSelector={"nodeSelectorTerms": [{}]})

    assert world.devices(world.claim(world.request())) is None

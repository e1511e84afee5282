"""Which devices the requests of claims get."""

from typing import Any

import pytest

from dra_driver.allocation import AllocationError, Snapshot

H100 = "device.attributes['gpu.nvidia.com'].model == 'H100'"


@pytest.fixture
def gpus(world: Any) -> Any:
    world.slice(
        *(world.device(f"gpu-{index}", model=model) for index, model in enumerate(["L4", "H100", "H100"]))
    )
    return world


def test_the_first_device_that_is_selected_is_taken(gpus: Any) -> None:
    assert gpus.devices(gpus.claim(gpus.request("r", H100))) == ["gpu-1"]


def test_a_count_takes_devices_in_their_order(gpus: Any) -> None:
    assert gpus.devices(gpus.claim(gpus.request(count=2))) == ["gpu-0", "gpu-1"]


def test_more_devices_than_there_are_do_not_fit(gpus: Any) -> None:
    assert gpus.devices(gpus.claim(gpus.request(count=4))) is None


def test_all_takes_every_selected_device(gpus: Any) -> None:
    assert gpus.devices(gpus.claim(gpus.request("r", H100, allocationMode="All"))) == ["gpu-1", "gpu-2"]


def test_all_of_nothing_does_not_fit(gpus: Any) -> None:
    assert gpus.devices(gpus.claim(gpus.request("r", "false", allocationMode="All"))) is None


def test_all_does_not_fit_while_one_is_in_use(gpus: Any) -> None:
    gpus.take("gpu-2")

    assert gpus.devices(gpus.claim(gpus.request("r", H100, allocationMode="All"))) is None


def test_all_does_not_fit_while_one_is_shared_until_nothing_is_left(world: Any) -> None:
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": "10Gi"}}
    world.slice(world.device("gpu-0", **shared), world.device("gpu-1", **shared), world.device("gpu-2"))
    claim = world.claim(world.request(allocationMode="All", capacity={"requests": {"memory": "4Gi"}}))

    assert world.devices(claim) == ["gpu-0", "gpu-1"]
    world.take("gpu-0", shareID="1", consumedCapacity={"memory": "8Gi"})
    assert world.devices(claim) is None


def test_a_later_request_makes_an_earlier_one_choose_otherwise(gpus: Any) -> None:
    claim = gpus.claim(
        gpus.request("any", "device.attributes['gpu.nvidia.com'].model != 'L4'"), gpus.request("h", H100)
    )

    assert gpus.devices(claim) == ["gpu-1", "gpu-2"]
    assert gpus.devices(gpus.claim(gpus.request("two", count=2)), gpus.claim(gpus.request("l4", "true"))) == [
        "gpu-0",
        "gpu-1",
        "gpu-2",
    ]


def test_several_claims_fit_together_or_not_at_all(gpus: Any) -> None:
    one, two = (gpus.claim(gpus.request("r", H100), name=name) for name in ("one", "two"))

    assert gpus.devices(one, two) == ["gpu-1", "gpu-2"]
    assert gpus.devices(one, two, gpus.claim(gpus.request("r", H100))) is None


def test_the_first_alternative_that_works_for_everything_wins(gpus: Any) -> None:
    first = gpus.first_available("r", all={"allocationMode": "All"}, two={"count": 2}, one={"count": 1})

    assert gpus.devices(gpus.claim(first)) == ["gpu-0", "gpu-1", "gpu-2"]
    assert gpus.devices(gpus.claim(first, gpus.request("more"))) == ["gpu-0", "gpu-1", "gpu-2"]
    assert gpus.devices(gpus.claim(first, gpus.request("more", count=2))) == ["gpu-0", "gpu-1", "gpu-2"]


def test_results_name_the_alternative(gpus: Any) -> None:
    (result,) = gpus.allocate(gpus.claim(gpus.first_available("r", four={"count": 4}, one={})))

    assert [device["request"] for device in result["devices"]["results"]] == ["r/one"]


def test_a_device_in_use_is_passed_over(gpus: Any) -> None:
    gpus.take("gpu-1")

    assert gpus.devices(gpus.claim(gpus.request("r", H100))) == ["gpu-2"]


def test_admin_access_ignores_and_causes_no_use(gpus: Any) -> None:
    gpus.take("gpu-0")
    gpus.take("gpu-1", adminAccess=True)
    claim = gpus.claim(gpus.request("watch", adminAccess=True, allocationMode="All"))

    (result,) = gpus.allocate(claim)
    assert [device["adminAccess"] for device in result["devices"]["results"]] == [True, True, True]
    assert gpus.devices(gpus.claim(gpus.request("r"))) == ["gpu-1"]


def test_class_selectors_come_first_and_spare_the_claims(world: Any) -> None:
    world.slice(world.device("nic-0"), driver="dra.net", pool={"name": "nics"})
    world.slice(world.device("gpu-0", model="H100"))
    world.device_class("gpu", "device.driver == 'gpu.nvidia.com'")

    assert world.devices(world.claim(world.request("r", H100, deviceClassName="gpu"))) == ["gpu-0"]


def test_a_selector_that_fails_aborts(world: Any) -> None:
    world.slice(world.device("gpu-0"), world.device("gpu-1", model="H100"))

    with pytest.raises(
        AllocationError, match="claim team/c: selector #0: CEL runtime error: no such key: model"
    ):
        world.devices(world.claim(world.request("r", H100)))


def test_selectors_read_lists_where_lists_are_known(world: Any) -> None:
    world.slice(
        world.device("gpu-0", node=1), world.device("gpu-1", node=[2, 1]), world.device("gpu-2", node=[2])
    )
    claim = world.claim(world.request("r", "device.attributes['gpu.nvidia.com'].node.includes(1)", count=2))

    with pytest.raises(AllocationError, match="CEL compile error"):
        world.devices(claim)
    world.lists = True
    assert world.devices(claim) == ["gpu-0", "gpu-1"]
    world.take("gpu-0")
    assert world.reasons(claim)["gpu-2"] == [
        "selector 0 is false: device.attributes['gpu.nvidia.com'].node.includes(1) is false (with node = [2])"
    ]


def test_a_selector_behind_the_answer_is_not_asked(world: Any) -> None:
    world.slice(world.device("gpu-0", model="H100"), world.device("gpu-1"))

    assert world.devices(world.claim(world.request("r", H100))) == ["gpu-0"]


def test_a_selector_that_does_not_compile_aborts(gpus: Any) -> None:
    with pytest.raises(
        AllocationError, match=r"claim team/c: selector #0: CEL compile error: .*undefined field 'pool'"
    ):
        gpus.devices(gpus.claim(gpus.request("r", "device.pool == 'x'")))


def test_a_missing_class_aborts(gpus: Any) -> None:
    with pytest.raises(
        AllocationError, match='request r: could not retrieve device class nope: device class "nope"'
    ):
        gpus.devices(gpus.claim(gpus.request(deviceClassName="nope")))


def test_more_than_32_devices_abort(gpus: Any) -> None:
    with pytest.raises(AllocationError, match="number of requested devices 33 exceeds the claim limit of 32"):
        gpus.devices(gpus.claim(gpus.request("a", count=20), gpus.request("b", count=13)))


def test_a_smaller_alternative_keeps_a_claim_within_32_devices(world: Any) -> None:
    world.slice(*(world.device(f"gpu-{index:02}") for index in range(40)))
    first = world.first_available("r", many={"count": 30}, few={"count": 2})

    found = world.devices(world.claim(first, world.request("more", count=30)))
    assert found is not None
    assert len(found) == 32


def test_where_every_alternative_is_too_many_no_other_devices_are_tried_before(world: Any) -> None:
    healthy = [world.device(f"gpu-{index:02}", healthy=True) for index in range(21)]
    world.slice(*healthy, world.device("unknown"))
    selectors = [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].healthy"}}]
    first = world.first_available("r", many={"count": 20, "selectors": selectors}, few={"count": 1})

    found = world.devices(world.claim(first, world.first_available("more", many={"count": 20})))
    assert found is not None
    assert len(found) == 21


def test_a_search_that_takes_too_long_is_aborted(world: Any) -> None:
    world.slice(*(world.device(f"gpu-{index:02}") for index in range(60)))
    nobody_has_it = {"requests": ["b"], "distinctAttribute": "gpu.nvidia.com/clique"}
    claim = world.claim(world.request("a", count=15), world.request("b"), constraints=[nobody_has_it])

    with pytest.raises(AllocationError, match="node n1: timed out trying to allocate devices"):
        Snapshot(world.slices, world.classes, ()).allocate(
            [claim], node={"metadata": {"name": "n1"}}, timeout=0.1
        )


@pytest.mark.parametrize("wanted", [{"count": 16}, {"count": 15}])
def test_what_cannot_fit_is_not_looked_for_in_every_combination(world: Any, wanted: Any) -> None:
    cliques = ["a", "b", None] if wanted["count"] == 15 else ["a", "b"]
    world.slice(
        *(
            world.device(f"gpu-{clique}-{index:02}", **({"clique": clique} if clique else {}))
            for clique in cliques
            for index in range(15)
        )
    )
    same = {"matchAttribute": "gpu.nvidia.com/clique"}
    claim = world.claim(world.request("a", **wanted), world.request("b"), constraints=[same])

    assert world.devices(claim) is None


def test_a_selector_that_fails_is_an_error_however_long_it_takes_to_come_to_it(world: Any) -> None:
    world.slice(
        *(world.device(f"gpu-{index:02}", clique=str(index // 4)) for index in range(24)), world.device("odd")
    )
    same = {"requests": ["a"], "matchAttribute": "gpu.nvidia.com/clique"}
    clique = "device.attributes['gpu.nvidia.com'].clique"
    first = [{"cel": {"expression": f"'clique' in {clique.removesuffix('.clique')} && {clique} != '0'"}}]
    claim = world.claim(
        world.request("a", count=4, selectors=first),
        world.request("b", f"{clique} == '9'"),
        constraints=[same],
    )

    with pytest.raises(AllocationError, match="no such key: clique"):
        world.devices(claim)


def test_partitions_that_lead_to_the_same_counters_are_tried_once(world: Any) -> None:
    """Five small ones of 13 leave the same nine units in 1,287 ways; with those, 1,470 ways of large ones are tried."""
    counters = [{"name": "units", "counters": {"unit": {"value": "14"}}}]
    world.slice(sharedCounters=counters, pool={"resourceSliceCount": 2})
    small, large = ([{"counterSet": "units", "counters": {"unit": {"value": value}}}] for value in ("1", "2"))
    world.slice(
        *(world.device(f"small-{index:02}", large=False, consumesCounters=small) for index in range(13)),
        *(world.device(f"large-{index:02}", large=True, consumesCounters=large) for index in range(14)),
        pool={"resourceSliceCount": 2},
    )
    is_large = "device.attributes['gpu.nvidia.com'].large"
    claim = world.claim(
        world.request("small", f"!{is_large}", count=5), world.request("large", is_large, count=5)
    )

    assert world.devices(claim) is None

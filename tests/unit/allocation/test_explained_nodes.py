"""What nodes say to claims as a whole: pools, constraints, requests that compete, and nodes that say the same."""

from typing import Any

from dra_driver.allocation.explanation import Scene, explain

GPU = "device.attributes['gpu.nvidia.com']"


def _node(world: Any, *claims: Any, node: str = "n1") -> Any:
    (report,) = world.explain(*claims, nodes=(node,)).nodes
    return report


def test_a_node_where_claims_fit_has_nothing_to_say(world: Any) -> None:
    world.slice(world.device("a"))

    explanation = world.explain(world.claim(world.request()), nodes=("n1", "n2"))

    assert (("n1",), True, None) == (explanation.fitting, explanation.satisfiable, explanation.error)
    assert () == explanation.changes


def test_one_node_that_fails_stops_the_scheduler_although_another_fits(world: Any) -> None:
    world.slice(world.device("a", foo="x"), nodeName="n1", pool={"name": "n1"})
    world.slice(world.device("b"), nodeName="n2", pool={"name": "n2"})
    claim = world.claim(world.request("r", f"{GPU}.foo == 'x'"))

    explanation = world.explain(claim, nodes=("n1", "n2"))
    failing = explanation.nodes[1]

    assert (("n1",), False) == (explanation.fitting, explanation.satisfiable)
    assert "claim team/c: selector #0: CEL runtime error: no such key: foo" == explanation.error
    assert (("n2",), "b") == (failing.nodes, failing.requests[0].devices[0].device.device)


def test_nodes_that_say_the_same_are_one_report(world: Any) -> None:
    for node in ("n1", "n2", "n3"):
        model = "x" if node == "n2" else "y"
        world.slice(world.device("a", model=model), nodeName=node, pool={"name": node})
    claim = world.claim(world.request("r", f"{GPU}.model == 'z'"))

    nodes = [report.nodes for report in world.explain(claim, nodes=("n1", "n2", "n3")).nodes]

    assert [("n1", "n3"), ("n2",)] == nodes


def test_an_incomplete_and_an_invalid_pool_are_told(world: Any) -> None:
    world.slice(world.device("a"), pool={"name": "p1", "generation": 3, "resourceSliceCount": 2})
    world.slice(world.device("b"), world.device("b"), pool={"name": "p2"})

    assert (
        (
            "pool gpu.nvidia.com/p1 is incomplete: 1 of 2 slices of generation 3 are there; none of its devices can be"
            " had until its driver has published the others"
        ),
        "pool gpu.nvidia.com/p2 is invalid: duplicate device name b; none of its devices can be had",
    ) == _node(world, world.claim(world.request())).obstacles


def test_no_value_of_an_attribute_is_shared_by_enough_devices(world: Any) -> None:
    cliques = ("a", "a", "b", "b", "b")
    world.slice(*(world.device(f"d{index}", clique=clique) for index, clique in enumerate(cliques)))
    claim = world.claim(world.request(count=4), constraints=[{"matchAttribute": "gpu.nvidia.com/clique"}])

    report = _node(world, claim)

    assert (
        (
            "matchAttribute gpu.nvidia.com/clique: 4 devices are wanted with one value, and no value is shared by more"
            " than 3 (b)"
        ),
    ) == report.notes
    assert ["d2", "d3", "d4"] == [one.device.device for one in report.requests[0].free]


def test_lists_without_a_value_in_common_are_told(world: Any) -> None:
    world.lists = True
    world.slice(
        *(world.device(f"gpu-{index}", nodes=nodes) for index, nodes in enumerate([[0, 1], [1], [2, 3]]))
    )
    constraint = {"matchAttribute": "gpu.nvidia.com/nodes"}
    claim = world.claim(world.request(count=3), constraints=[constraint])

    (note,) = _node(world, claim).notes
    assert note == (
        "matchAttribute gpu.nvidia.com/nodes: 3 devices are wanted with one value, and no value is shared by more"
        " than 2 (1)"
    )
    assert world.reasons(claim) == {
        "gpu-0": [],
        "gpu-1": [],
        "gpu-2": ["constraint: gpu.nvidia.com/nodes is 2, 3, not 1 as of the others"],
    }


def test_an_attribute_of_another_drivers_devices_is_answered_with_those_that_all_have(world: Any) -> None:
    numa = {"resource.kubernetes.io/numaNode": 0}
    world.device_class("gpu", "device.driver == 'gpu.nvidia.com'")
    world.device_class("nic", "device.driver == 'dra.net'")
    world.slice(world.device("gpu", numa=0, **numa))
    world.slice(world.device("nic", numaNode=0, **numa), driver="dra.net", pool={"name": "nics"})
    claim = world.claim(
        world.request("gpu", deviceClassName="gpu"),
        world.request("nic", deviceClassName="nic"),
        constraints=[{"matchAttribute": "gpu.nvidia.com/numa"}],
    )

    assert (
        (
            "no device for request nic has the attribute gpu.nvidia.com/numa; all devices of its requests have"
            " resource.kubernetes.io/numaNode"
        ),
    ) == _node(world, claim).notes


def test_too_few_different_values_are_told(world: Any) -> None:
    world.slice(*(world.device(f"d{index}", root="a") for index in range(2)))
    claim = world.claim(world.request(count=2), constraints=[{"distinctAttribute": "gpu.nvidia.com/root"}])

    assert (
        (
            "distinctAttribute gpu.nvidia.com/root: 2 devices are wanted with different values, and there is only 1"
            " value"
        ),
    ) == _node(world, claim).notes


def test_requests_that_want_the_same_devices_are_told(world: Any) -> None:
    world.slice(world.device("a"), world.device("b"))
    claim = world.claim(world.request("one"), world.request("two", count=2))

    assert ("requests one, two want 3 devices together, and only 2 would do for any of them",) == _node(
        world, claim
    ).notes


def test_partitions_that_fit_one_by_one_and_not_together_are_told(world: Any) -> None:
    eats = [{"counterSet": "set", "counters": {"memory": {"value": "30Gi"}}}]
    two = {"resourceSliceCount": 2}
    world.slice(sharedCounters=[{"name": "set", "counters": {"memory": {"value": "40Gi"}}}], pool=two)
    world.slice(world.device("a", consumesCounters=eats), world.device("b", consumesCounters=eats), pool=two)

    assert ("each request finds devices, but not all of them together",) == _node(
        world, world.claim(world.request(count=2))
    ).notes


def test_all_devices_are_not_had_while_one_is_taken_and_none_is_not_all(world: Any) -> None:
    world.slice(world.device("a"), world.device("b"))
    world.take("a")
    everything = world.claim(world.request(allocationMode="All"))
    nothing = world.claim(world.request("r", "false", allocationMode="All"))

    missing = [_node(world, claim).requests[0].missing for claim in (everything, nothing)]

    assert [1, 1] == missing


def test_every_alternative_is_explained(world: Any) -> None:
    world.slice(world.device("a"))
    request = world.first_available("r", four={"count": 4}, two={"count": 2})

    reports = _node(world, world.claim(request)).requests

    assert [("r/four", 4, 1), ("r/two", 2, 1)] == [
        (one.request, one.wanted, len(one.free)) for one in reports
    ]


def test_devices_of_a_shared_slice_that_are_for_other_nodes_do_not_count(world: Any) -> None:
    world.slice(
        world.device("a", nodeName="n1"), world.device("b", nodeName="n2"), perDeviceNodeSelection=True
    )

    (report,) = _node(world, world.claim(world.request(count=2))).requests

    assert ["a"] == [one.device.device for one in report.devices]


def test_what_a_pod_meets_before_any_device_is_an_obstacle(world: Any) -> None:
    world.slice(world.device("a"))
    scene = Scene.of(world.slices, world.classes, [])
    node = {"metadata": {"name": "n1"}}

    explanation = explain(
        scene, [world.claim(world.request())], [node], obstacles={"n1": "node(s) were unschedulable"}
    )

    assert [("node(s) were unschedulable",)] == [report.obstacles for report in explanation.nodes]
    assert not explanation.satisfiable


def test_a_slice_that_aborts_every_allocation_is_named(world: Any) -> None:
    term = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["big"]}]}
    world.slice(world.device("gpu-0"))
    world.slice(
        world.device("nic-0"), name="odd", pool={"name": "b"}, nodeSelector={"nodeSelectorTerms": [term]}
    )

    (report,) = world.explain(world.claim(world.request())).nodes
    assert not report.fits
    assert report.error == "slice odd: node selector: Gt on label 'size' needs one integer, not ['big']"

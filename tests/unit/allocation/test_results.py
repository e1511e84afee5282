"""What goes into the claim's status."""

from typing import Any

import pytest

from dra_driver.allocation import AllocationError


def opaque(value: int) -> dict[str, Any]:
    return {"opaque": {"driver": "gpu.nvidia.com", "parameters": {"value": value}}}


def test_a_device_of_the_node_ties_the_claim_to_it(world: Any) -> None:
    world.slice(world.device("gpu-0"))

    (result,) = world.allocate(world.claim(world.request()))
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert result["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [field]}]}


def test_a_device_for_all_nodes_ties_the_claim_to_none(world: Any) -> None:
    world.slice(world.device("gpu-0"), allNodes=True)

    (result,) = world.allocate(world.claim(world.request()))
    assert "nodeSelector" not in result


def test_a_device_that_binds_ties_the_claim_to_the_node(world: Any) -> None:
    world.slice(world.device("gpu-0", bindsToNode=True), allNodes=True)

    (result,) = world.allocate(world.claim(world.request()))
    assert result["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n1"]


def test_node_selectors_of_several_devices_are_merged(world: Any) -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    same = {"key": "zone", "operator": "In", "values": ["b", "a"]}
    rack = {"key": "rack", "operator": "Exists"}
    for name, requirements in (("one", [zone]), ("two", [same, rack])):
        selector = {"nodeSelectorTerms": [{"matchExpressions": requirements}]}
        world.slice(world.device(name), nodeSelector=selector, pool={"name": name})

    (result,) = world.allocate(world.claim(world.request(count=2)), labels={"zone": "a", "rack": "1"})
    assert result["nodeSelector"] == {"nodeSelectorTerms": [{"matchExpressions": [zone, rack]}]}


@pytest.mark.parametrize("ambiguous_first", [True, False])
def test_alternatives_of_a_devices_nodes_cannot_be_merged_unless_one_before_ties_to_the_node(
    world: Any, ambiguous_first: bool
) -> None:
    term = {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}
    ambiguous = world.device("ambiguous", nodeSelector={"nodeSelectorTerms": [term, term]})
    tied = world.device("tied", allNodes=True, bindsToNode=True)
    devices = (ambiguous, tied) if ambiguous_first else (tied, ambiguous)
    world.slice(*devices, perDeviceNodeSelection=True)
    claim = world.claim(world.request(count=2))

    if ambiguous_first:
        with pytest.raises(AllocationError, match="unsupported number of node selector terms"):
            world.allocate(claim, labels={"rack": "1"})
    else:
        assert world.allocate(claim, labels={"rack": "1"}) is not None


def test_configuration_of_classes_comes_before_the_claims(world: Any) -> None:
    world.slice(world.device("gpu-0"), world.device("gpu-1"))
    world.device_class("tuned", config=[opaque(1)])
    requests = (world.request(name, deviceClassName="tuned") for name in ("a", "b"))
    claim = world.claim(
        *requests, config=[{"requests": ["b"], **opaque(2)}, {"requests": ["x"], **opaque(3)}, opaque(4)]
    )

    (result,) = world.allocate(claim)
    assert result["devices"]["config"] == [
        {"source": "FromClass", "requests": ["a", "b"], **opaque(1)},
        {"source": "FromClaim", "requests": ["b"], **opaque(2)},
        {"source": "FromClaim", **opaque(4)},
    ]


def test_configuration_of_an_alternative_that_was_not_chosen_is_left_out(world: Any) -> None:
    world.slice(world.device("gpu-0"))
    config = [{"requests": [name], **opaque(index)} for index, name in enumerate(["r/two", "r/one", "r"])]

    (result,) = world.allocate(
        world.claim(world.first_available("r", two={"count": 2}, one={}), config=config)
    )
    assert [entry["requests"] for entry in result["devices"]["config"]] == [["r/one"], ["r"]]


def test_tolerations_and_binding_conditions_are_copied(world: Any) -> None:
    world.slice(world.device("gpu-0", bindingConditions=["ready"]))
    toleration = {"operator": "Exists"}

    (result,) = world.allocate(world.claim(world.request(tolerations=[toleration])))
    (device,) = result["devices"]["results"]
    assert (device["tolerations"], device["bindingConditions"]) == ([toleration], ["ready"])

"""Why something waits, in one sentence and one word."""

from typing import Any

import pytest

from dra_driver.allocation.diagnosis import World as Objects
from dra_driver.allocation.diagnosis import diagnose_claim, diagnose_pod
from dra_driver.allocation.diagnosis.brief import MAX_TEXT, REASONS, Brief, brief

Object = dict[str, Any]
ATTRIBUTES = 'device.attributes["gpu.nvidia.com"]'


def node(name: str = "n1", **spec: Any) -> Object:
    return {"metadata": {"name": name, "labels": {}}, "spec": spec}


def asked(world: Any, *requests: Object, nodes: tuple[Object, ...] = (node(),), **devices: Any) -> Brief:
    """The brief for a claim in the world of the fixture."""
    claim = {**world.claim(*requests, **devices), "status": {}}
    objects = Objects(
        slices=world.slices, classes=world.classes, claims=[*world.allocated, claim], nodes=nodes
    )
    found = brief(diagnose_claim(objects, claim))
    assert found.reason in REASONS
    return found


def test_what_can_be_had_needs_no_words(world: Any) -> None:
    world.slice(world.device("gpu-0"))
    assert asked(world, world.request()) == Brief("satisfiable", "")


def test_the_device_that_comes_nearest_is_named_with_what_would_do(world: Any) -> None:
    world.slice(
        *(world.device(f"gpu-{size}", capacity={"memory": f"{size}Gi"}) for size in (24, 40)),
    )
    wish = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'
    found = asked(world, world.request("r", wish))
    assert found.reason == "selector"
    assert found.text == (
        "request r: nearest is gpu.nvidia.com/pool/gpu-40: memory 40Gi is below 80Gi, the largest of 2 devices that"
        " only this keeps out; what would do: request r: selector 0: compare memory with 40Gi instead of 80Gi"
    )


def test_who_holds_the_last_device_is_told(world: Any) -> None:
    world.slice(world.device("gpu-0"))
    world.take("gpu-0")
    found = asked(world, world.request())
    assert found.reason == "in-use"
    assert found.text == (
        "request r: 1 device is kept out only by being in use; what would do: wait until claim team/old-0 (used by no"
        " Pod) is gone, or delete it"
    )


def test_a_selector_that_fails_on_one_device_stops_everything(world: Any) -> None:
    world.slice(world.device("gpu-0", model="a"), world.device("gpu-1"))
    found = asked(world, world.request("r", f'{ATTRIBUTES}.model == "b"'))
    assert found.reason == "error"
    assert found.text.startswith(
        "request r: on gpu.nvidia.com/pool/gpu-1 selector 0 fails: no such key: model"
    )
    assert "has(" in found.text


@pytest.mark.parametrize(
    ("taken", "reason", "start"),
    [
        (
            {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "tainted",
            "request r: 1 device is kept out only by",
        ),
        ({}, "too-few", "request r: 2 devices wanted, and no node has more than 1 that it could ever have"),
    ],
    ids=["tainted", "too few"],
)
def test_states_of_devices_are_told(world: Any, taken: Object, reason: str, start: str) -> None:
    world.slice(world.device("gpu-0", **taken))
    found = asked(world, world.request(count=1 if taken else 2))
    assert (found.reason, found.text[: len(start)]) == (reason, start)


def test_a_constraint_is_told_in_its_own_words(world: Any) -> None:
    world.slice(world.device("gpu-0", clique="a"), world.device("gpu-1", clique="b"))
    found = asked(world, world.request(count=2), constraints=[{"matchAttribute": "gpu.nvidia.com/clique"}])
    assert found.reason == "constraint"
    assert found.text.startswith("matchAttribute gpu.nvidia.com/clique: 2 devices are wanted with one value")


def test_a_pool_that_is_being_rewritten_is_told(world: Any) -> None:
    world.slice(world.device("gpu-0"), pool={"resourceSliceCount": 2})
    found = asked(world, world.request())
    assert found.reason == "pools-unusable"
    assert found.text.startswith("pool gpu.nvidia.com/pool is incomplete: 1 of 2 slices")


def test_a_cluster_without_nodes_or_devices_is_told(world: Any) -> None:
    assert asked(world, world.request(), nodes=()) == Brief("no-nodes", "there are no nodes")
    found = asked(world, world.request())
    assert found == Brief("no-devices", "none of the nodes that are open to it has a device")


def test_a_missing_class_is_told_with_the_name_that_comes_near(world: Any) -> None:
    found = asked(world, world.request(deviceClassName="anny"))
    assert found.reason == "class-missing"
    assert found.text == "claim team/c, request r: there is no DeviceClass anny; did you mean any?"


def test_nodes_that_are_closed_to_a_pod_are_counted_by_what_closes_them(world: Any) -> None:
    world.slice(world.device("gpu-0"))
    claim = world.claim(world.request())
    pod = {
        "metadata": {"name": "p", "namespace": "team", "uid": "u"},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
    }
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    objects = Objects(
        slices=world.slices,
        classes=world.classes,
        claims=[claim],
        pods=[pod],
        nodes=[node("n1", taints=[taint]), node("n2", taints=[taint]), node("n3", unschedulable=True)],
    )
    assert brief(diagnose_pod(objects, pod)) == Brief(
        "nodes-closed",
        "no node is open to it: 2 node(s) had untolerated taint {gpu: yes}, 1 node(s) were unschedulable",
    )


def test_a_sentence_fits_into_an_event(world: Any) -> None:
    world.slice(world.device("gpu-0", model="a"))
    found = asked(world, world.request("r", f'{ATTRIBUTES}.model == "{"b" * 2000}"'))
    assert len(found.text) <= MAX_TEXT


def test_every_word_is_one_of_those_that_are_known() -> None:
    assert len(set(REASONS)) == len(REASONS)

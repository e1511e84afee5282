"""The change that would help: it is named, and it is true."""

import copy
from typing import Any

import pytest

from dra_driver.allocation.explanation import Change

GPU = "device.attributes['gpu.nvidia.com']"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"


@pytest.fixture
def gpus(world: Any) -> Any:
    models = (("a", "NVIDIA H100 80GB HBM3", "81559Mi"), ("b", "NVIDIA L4", "23034Mi"))
    world.slice(
        *(world.device(name, model=model, peers=1, capacity={"memory": m}) for name, model, m in models)
    )
    return world


def _first(world: Any, *claims: Any) -> Change | None:
    changes: tuple[Change, ...] = world.explain(*claims).changes
    return changes[0] if changes else None


def _text(world: Any, *claims: Any) -> str:
    change = _first(world, *claims)
    return "" if change is None else change.text


@pytest.mark.parametrize(
    ("expression", "before", "after"),
    [
        (f"{MEMORY}.compareTo(quantity('80Gi')) >= 0", "80Gi", "79Gi"),
        (f"{MEMORY}.isGreaterThan(quantity('80Gi')) && true", "80Gi", "79Gi"),
        (f"{MEMORY}.isLessThan(quantity('20Gi'))", "20Gi", "23Gi"),
        (f"{GPU}.model == 'H100'", "H100", "NVIDIA H100 80GB HBM3"),
        (f"{GPU}.peers >= 7", "7", "1"),
        (f"{GPU}.peers < 1", "1", "2"),
    ],
)
def test_a_constant_that_no_device_meets_is_answered_with_one_that_works(
    gpus: Any, expression: str, before: str, after: str
) -> None:
    change = _first(gpus, gpus.claim(gpus.request("gpu", expression)))

    assert change is not None
    assert "request gpu: selector 0: compare" in change.text
    assert expression.replace(before, after) == change.after
    assert gpus.devices(gpus.claim(gpus.request("gpu", change.after)))


def test_of_versions_the_newest_that_is_old_enough_is_proposed(world: Any) -> None:
    devices = [world.device(name) for name in ("a", "b")]
    for device, version in zip(devices, ("8.0.0", "8.9.0"), strict=True):
        device["attributes"]["cc"] = {"version": version}
    world.slice(*devices)
    expression = f"{GPU}.cc.compareTo(semver('9.0.0')) >= 0"

    change = _first(world, world.claim(world.request("gpu", expression)))

    assert change is not None
    assert expression.replace("9.0.0", "8.9.0") == change.after


def test_another_claim_would_have_to_go(gpus: Any) -> None:
    gpus.take("a")
    gpus.take("b")
    gpus.allocated[0]["status"]["reservedFor"] = [{"resource": "pods", "name": "train"}]
    claim = gpus.claim(gpus.request("gpu", f"{GPU}.model.contains('H100')"))

    assert "wait until claim team/old-0 of Pod team/train is gone, or delete it" == _text(gpus, claim)


def test_a_taint_could_be_tolerated(world: Any) -> None:
    world.slice(world.device("a", taints=[{"key": "sick", "effect": "NoExecute"}]))

    assert "request r: tolerate the taint: {key: sick, operator: Exists, effect: NoExecute}" == _text(
        world, world.claim(world.request())
    )


def test_fewer_devices_would_do(gpus: Any) -> None:
    assert "request r: ask for 2 instead of 4" == _text(gpus, gpus.claim(gpus.request(count=4)))


def test_some_instead_of_all_would_do(gpus: Any) -> None:
    gpus.take("a")
    texts = [change.text for change in gpus.explain(gpus.claim(gpus.request(allocationMode="All"))).changes]

    assert "request r: ask for 1 instead of all" in texts


def test_a_constraint_could_be_left_out(world: Any) -> None:
    world.slice(world.device("a", clique="x"), world.device("b", clique="y"))
    claim = world.claim(
        world.request("one"), world.request("two"), constraints=[{"matchAttribute": "gpu.nvidia.com/clique"}]
    )

    assert "leave out the constraint matchAttribute: gpu.nvidia.com/clique" == _text(world, claim)


def test_less_capacity_would_do(world: Any) -> None:
    world.slice(world.device("a", allowMultipleAllocations=True, capacity={"memory": "80Gi"}))
    world.take("a", shareID="1", consumedCapacity={"memory": "30Gi"})
    claim = world.claim(world.request(capacity={"requests": {"memory": "60Gi"}}))
    texts = [change.text for change in world.explain(claim).changes]

    assert [
        "wait until claim team/old-0 (used by no Pod) is gone, or delete it",
        "request r: ask for 50Gi of memory instead of 60Gi",
    ] == texts


def test_a_selector_could_be_left_out(gpus: Any) -> None:
    assert "request r: leave out selector 1" == _text(
        gpus, gpus.claim(gpus.request("r", "true", f"{GPU}.model.startsWith('AMD')"))
    )


def test_another_class_would_do(gpus: Any) -> None:
    gpus.device_class("mig.nvidia.com", "false")
    gpus.device_class("gpu.nvidia.com", "true")

    claim = gpus.claim(gpus.request("r", deviceClassName="mig.nvidia.com"))

    assert "request r: use the class gpu.nvidia.com instead of mig.nvidia.com" == _text(gpus, claim)


def test_a_selector_that_fails_is_guarded_and_then_fits_elsewhere(gpus: Any) -> None:
    gpus.slice(gpus.device("c", model="new", brand="x"), pool={"name": "pool-2"})
    claim = gpus.claim(gpus.request("r", f"{GPU}.brand == 'x'"))

    change = _first(gpus, claim)

    assert change is not None
    assert ("request r: guard selector 0", "n1") == (change.text, change.node)
    assert f"has(device.attributes[\"gpu.nvidia.com\"].brand) && {GPU}.brand == 'x'" == change.after


def test_a_class_that_fails_is_guarded(gpus: Any) -> None:
    gpus.slice(gpus.device("c", model="new", brand="x"), pool={"name": "pool-2"})
    gpus.device_class("branded", f"{GPU}.brand == 'x'")

    assert "class branded: guard selector 0" == _text(
        gpus, gpus.claim(gpus.request(deviceClassName="branded"))
    )


def test_an_error_that_no_selector_made_is_mended_by_changing_the_wish(world: Any) -> None:
    world.slice(world.device("a", clique="x"), world.device("b", clique="y"))
    everything = world.claim(
        world.request(allocationMode="All"), constraints=[{"matchAttribute": "gpu.nvidia.com/clique"}]
    )
    too_many = world.claim(world.request(count=33))

    assert "cannot add device" in world.explain(everything).error
    assert "request r: ask for 1 instead of all" == _text(world, everything)
    assert "request r: ask for 2 instead of 33" == _text(world, too_many)


def test_where_no_single_change_helps_none_is_named(gpus: Any) -> None:
    claim = gpus.claim(gpus.request("r", "false", "1 > 2"))

    assert () == gpus.explain(claim).changes


def test_objects_are_not_changed_by_what_is_tried(gpus: Any) -> None:
    claim = gpus.claim(gpus.request("r", f"{MEMORY}.isGreaterThan(quantity('80Gi'))", count=2))
    before = copy.deepcopy((claim, gpus.slices, gpus.classes, gpus.allocated))

    gpus.explain(claim)

    assert before == (claim, gpus.slices, gpus.classes, gpus.allocated)

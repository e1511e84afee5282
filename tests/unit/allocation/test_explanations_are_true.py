"""On small inputs: the explanation says what the allocator does, and what it proposes works."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_driver.allocation import AllocationError, allocate
from dra_driver.allocation.explanation import Explanation, Scene, explain

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"
GPU = f"device.attributes['{DRIVER}']"
NODE = {"metadata": {"name": "n1"}}
CLASS = {"metadata": {"name": "any"}, "spec": {}}

devices = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["x", "y", None]),
        "memory": st.sampled_from(["1Gi", "2Gi"]),
        "counter": st.sampled_from([0, 1, 3]),
        "tainted": st.booleans(),
        "shared": st.booleans(),
        "taken": st.booleans(),
    }
)
selectors = st.sampled_from(
    [
        "true",
        f"{GPU}.model == 'x'",
        f"{GPU}.?model.orValue('') == 'z'",
        f"device.capacity['{DRIVER}'].memory.compareTo(quantity('3Gi')) >= 0",
        f"device.capacity['{DRIVER}'].memory.compareTo(quantity('2Gi')) >= 0",
    ]
)
requests = st.fixed_dictionaries(
    {
        "count": st.integers(1, 3),
        "all": st.booleans(),
        "selectors": st.lists(selectors, max_size=2),
        "memory": st.sampled_from([None, "1Gi", "2Gi"]),
        "tolerates": st.booleans(),
    }
)


def _world(given_devices: list[Object]) -> tuple[list[Object], list[Object]]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "pool": pool, "nodeName": "n1"}
    bodies, results = [], []
    for index, device in enumerate(given_devices):
        body: Object = {
            "name": f"d{index}",
            "attributes": {},
            "capacity": {"memory": {"value": device["memory"]}},
        }
        if device["model"]:
            body["attributes"]["model"] = {"string": device["model"]}
        if device["counter"]:
            units = {"units": {"value": str(device["counter"])}}
            body["consumesCounters"] = [{"counterSet": "set", "counters": units}]
        if device["tainted"]:
            body["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
        if device["shared"]:
            body["allowMultipleAllocations"] = True
        bodies.append(body)
        if device["taken"]:
            share = {"shareID": "s", "consumedCapacity": {"memory": "1Gi"}} if device["shared"] else {}
            results.append({"request": "r", "driver": DRIVER, "pool": "p", "device": f"d{index}", **share})
    counters = [{"name": "set", "counters": {"units": {"value": "4"}}}]
    slices: list[Object] = [
        {"metadata": {"name": "a"}, "spec": {**common, "sharedCounters": counters}},
        {"metadata": {"name": "b"}, "spec": {**common, "devices": bodies}},
    ]
    held = [
        {"metadata": {"name": f"old-{index}"}, "status": {"allocation": {"devices": {"results": [result]}}}}
        for index, result in enumerate(results)
    ]
    return slices, held


def _claim(request: Object) -> Object:
    exactly: Object = {
        "deviceClassName": "any",
        "selectors": [{"cel": {"expression": e}} for e in request["selectors"]],
    }
    exactly |= {"allocationMode": "All"} if request["all"] else {"count": request["count"]}
    if request["memory"]:
        exactly["capacity"] = {"requests": {"memory": request["memory"]}}
    if request["tolerates"]:
        exactly["tolerations"] = [{"operator": "Exists"}]
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


def _allocated(claim: Object, slices: list[Object], held: list[Object]) -> list[Object] | str | None:
    try:
        return allocate([claim], node=NODE, slices=slices, classes=[CLASS], allocated=held)
    except AllocationError as error:
        return str(error)


def _explained(claim: Object, slices: list[Object], held: list[Object]) -> Explanation:
    return explain(Scene.of(slices, [CLASS], held), [claim], [NODE])


@settings(max_examples=150, deadline=None)
@given(given_devices=st.lists(devices, max_size=4), request=requests)
def test_the_verdict_is_the_allocators(given_devices: list[Object], request: Object) -> None:
    slices, held = _world(given_devices)
    claim = _claim(request)
    answer = _allocated(claim, slices, held)

    explanation = _explained(claim, slices, held)

    assert isinstance(answer, list) == explanation.satisfiable
    assert (answer if isinstance(answer, str) else None) == explanation.error


@settings(max_examples=150, deadline=None)
@given(given_devices=st.lists(devices, min_size=1, max_size=4), request=requests)
def test_one_device_is_had_exactly_where_a_device_has_nothing_against_it(
    given_devices: list[Object], request: Object
) -> None:
    slices, held = _world(given_devices)
    claim = _claim({**request, "count": 1, "all": False})

    (report,) = _explained(claim, slices, held).nodes

    assert report.fits or report.error or not report.requests[0].free


@settings(max_examples=60, deadline=None)
@given(given_devices=st.lists(devices, min_size=1, max_size=4), request=requests)
def test_a_claim_that_is_said_to_be_in_the_way_is(given_devices: list[Object], request: Object) -> None:
    slices, held = _world(given_devices)
    claim = _claim(request)

    waits = [one.text for one in _explained(claim, slices, held).changes if one.text.startswith("wait until")]

    for text in waits:
        left = [one for one in held if f"claim default/{one['metadata']['name']} " not in text]
        assert isinstance(_allocated(claim, slices, left), list)

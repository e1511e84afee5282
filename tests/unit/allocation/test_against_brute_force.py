"""On small inputs: what is allocated keeps every rule, and where nothing is, nothing could be.

The rules are written down a second time here, as a check of a whole assignment rather than as a search, and brute
force tries every assignment there is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dra_driver.allocation import AllocationError, allocate, search

Object = dict[str, Any]
Assignment = list[tuple[int, str, Object, Object]]  # claim, request name, request, device
NODE = {"metadata": {"name": "n1"}}
CLASS = {"metadata": {"name": "any"}, "spec": {}}
DRIVER = "gpu.nvidia.com"
TOTAL = 4  # of the one counter
RARELY = st.sampled_from([False, False, False, True])  # so that most inputs are not hopeless at once

devices = st.fixed_dictionaries(
    {
        "clique": st.sampled_from(["a", "a", "b", "b", None]),
        "model": st.sampled_from(["x", "y"]),
        "memory": st.sampled_from([4, 4, 3]),
        "counter": st.sampled_from([0, 0, 1, 3]),
        "tainted": RARELY,
        "shared": RARELY,
        "stepped": st.booleans(),  # where shared: 1 or 3 of memory, 1 where nothing is asked for
        "taken": RARELY,
    }
)
requests = st.fixed_dictionaries(
    {
        "count": st.sampled_from([1, 1, 1, 2, 2, None]),  # None: all that there are
        "model": st.sampled_from([None, None, None, "x"]),
        "memory": st.sampled_from([None, None, 1, 2, 3]),
        "tolerates": st.booleans(),
        "admin": RARELY,
    }
)
claims = st.fixed_dictionaries(
    {
        "requests": st.lists(st.lists(requests, min_size=1, max_size=2), min_size=1, max_size=2),
        "rule": st.sampled_from([None, "matchAttribute", "distinctAttribute"]),
    }
)


def device_object(index: int, device: Object) -> Object:
    body: Object = {
        "name": f"d{index}",
        "attributes": {"model": {"string": device["model"]}},
        "capacity": {"memory": {"value": str(device["memory"])}},
    }
    if device["clique"]:
        body["attributes"]["clique"] = {"string": device["clique"]}
    if device["counter"]:
        taken = {"units": {"value": str(device["counter"])}}
        body["consumesCounters"] = [{"counterSet": "set", "counters": taken}]
    if device["tainted"]:
        body["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
    if device["shared"]:
        body["allowMultipleAllocations"] = True
        if device["stepped"]:
            policy = {"default": "1", "validRange": {"min": "1", "step": "2"}}
            body["capacity"]["memory"]["requestPolicy"] = policy
    return body


def request_object(request: Object) -> Object:
    how: Object = {"count": request["count"]} if request["count"] else {"allocationMode": "All"}
    body: Object = {"deviceClassName": "any", **how}
    if request["model"]:
        expression = f"device.attributes['{DRIVER}'].model == '{request['model']}'"
        body["selectors"] = [{"cel": {"expression": expression}}]
    if request["memory"]:
        body["capacity"] = {"requests": {"memory": str(request["memory"])}}
    if request["tolerates"]:
        body["tolerations"] = [{"operator": "Exists"}]
    return body


def claim_object(index: int, claim: Object) -> Object:
    entries: list[Object] = []
    for number, alternatives in enumerate(claim["requests"]):
        if len(alternatives) == 1:
            exactly = {**request_object(alternatives[0]), "adminAccess": alternatives[0]["admin"]}
            entries.append({"name": f"r{number}", "exactly": exactly})
        else:
            subs = [{"name": f"s{sub}", **request_object(one)} for sub, one in enumerate(alternatives)]
            entries.append({"name": f"r{number}", "firstAvailable": subs})
    spec: Object = {"requests": entries}
    if claim["rule"]:
        spec["constraints"] = [{claim["rule"]: f"{DRIVER}/clique"}]
    return {"metadata": {"name": f"c{index}", "namespace": "n"}, "spec": {"devices": spec}}


def slices_and_allocated(given_devices: Sequence[Object]) -> tuple[list[Object], list[Object]]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "pool": pool, "nodeName": "n1"}
    bodies = [device_object(index, device) for index, device in enumerate(given_devices)]
    counters = [{"name": "set", "counters": {"units": {"value": str(TOTAL)}}}]
    slices: list[Object] = [
        {"metadata": {"name": "a"}, "spec": {**common, "sharedCounters": counters}},
        {"metadata": {"name": "b"}, "spec": {**common, "devices": bodies}},
    ]
    results = [
        {"request": "r", "driver": DRIVER, "pool": "p", "device": f"d{index}"}
        for index, device in enumerate(given_devices)
        if device["taken"] and not device["shared"]
    ]
    return slices, [{"status": {"allocation": {"devices": {"results": results}}}}]


def is_valid(assignment: Assignment, given_devices: Sequence[Object], given_claims: Sequence[Object]) -> bool:
    """Whether the devices may be given out like that, all at once."""
    owners: defaultdict[str, list[tuple[int, bool]]] = defaultdict(list)
    memory: Counter[str] = Counter()
    cliques: defaultdict[int, list[str | None]] = defaultdict(list)
    for claim, _, request, device in assignment:
        name = device["name"]
        if request["model"] and device["model"] != request["model"]:
            return False
        if device["tainted"] and not request["tolerates"]:
            return False
        wanted = _memory(request, device)
        if wanted > device["memory"]:
            return False
        if device["shared"]:
            memory[name] += wanted
            if memory[name] > device["memory"]:
                return False
        else:
            in_use = any(owner == claim for owner, _ in owners[name]) if request["admin"] else owners[name]
            if in_use or (device["taken"] and not request["admin"]):
                return False
            owners[name].append((claim, request["admin"]))
        cliques[claim].append(device["clique"])
    rules = ((given_claims[claim]["rule"], values) for claim, values in cliques.items())
    return all(_keeps(rule, values) for rule, values in rules) and _counters_suffice(
        assignment, given_devices
    )


def _memory(request: Object, device: Object) -> int:
    """What the request takes of the device's memory."""
    if device["shared"] and device["stepped"]:
        return 3 if (request["memory"] or 1) > 1 else 1
    return int(request["memory"] or device["memory"])


def _keeps(rule: str | None, values: Sequence[str | None]) -> bool:
    if rule is None:
        return True
    return None not in values and len(set(values)) == (1 if rule == "matchAttribute" else len(values))


def _counters_suffice(assignment: Assignment, given_devices: Sequence[Object]) -> bool:
    used = sum(device["counter"] for device in given_devices if device["taken"] and not device["shared"])
    paid: set[str] = set()
    charged = False
    for _, _, _, device in assignment:
        if not device["shared"] or device["name"] not in paid:
            used += device["counter"]
            charged |= device["counter"] > 0
        paid.add(device["name"])
    return used <= TOTAL or not charged


def assignments(given_devices: Sequence[Object], given_claims: Sequence[Object]) -> Iterator[Assignment]:
    """Every way to give each request as many devices as it wants."""
    options = []
    for claim, body in enumerate(given_claims):
        for number, alternatives in enumerate(body["requests"]):
            options.append(
                [
                    [(claim, f"r{number}", request, device) for device in chosen]
                    for one in alternatives
                    for request in [{**one, "admin": one["admin"] and len(alternatives) == 1}]
                    for chosen in _choices(one, given_devices)
                ]
            )
    for choice in product(*options):
        yield [entry for part in choice for entry in part]


def _choices(request: Object, given_devices: Sequence[Object]) -> Iterator[tuple[Object, ...]]:
    """The devices that a request could have, were there no others."""
    if request["count"]:
        yield from combinations(given_devices, request["count"])
        return
    selected = (one for one in given_devices if request["model"] in {None, one["model"]})
    chosen = tuple(one for one in selected if _memory(request, one) <= one["memory"])
    if chosen:
        yield chosen


def as_assignment(
    results: list[Object], given_devices: Sequence[Object], given_claims: Sequence[Object]
) -> Assignment:
    found: Assignment = []
    for claim, result in enumerate(results):
        for device in result["devices"]["results"]:
            name, _, sub = device["request"].partition("/")
            alternatives = given_claims[claim]["requests"][int(name[1:])]
            request = alternatives[int(sub[1:])] if sub else alternatives[0]
            admin = request["admin"] and not sub
            found.append((claim, name, {**request, "admin": admin}, given_devices[int(device["device"][1:])]))
    return found


@pytest.fixture(scope="module", params=[1, 500], ids=["pruned", "searched"], autouse=True)
def steps_until_pruned(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small inputs are never hard; the answer must be the same where they are taken for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_HARD", request.param)
        yield


@settings(max_examples=300, deadline=None)
@given(st.lists(devices, max_size=5), st.lists(claims, min_size=1, max_size=2))
def test_the_answer_is_that_of_brute_force(given_devices: list[Object], given_claims: list[Object]) -> None:
    named = [{**device, "name": f"d{index}"} for index, device in enumerate(given_devices)]
    slices, allocated = slices_and_allocated(named)
    wanted = [claim_object(index, claim) for index, claim in enumerate(given_claims)]
    # Of a request with several devices, Kubernetes compares only the last one's value with those of other requests.
    assume(not any(one["rule"] == "distinctAttribute" and _has_several(one) for one in given_claims))

    try:
        results = allocate(wanted, node=NODE, slices=slices, classes=[CLASS], allocated=allocated)
    except AllocationError as error:
        if "cannot add device" not in str(error):  # a constraint against one of all devices, which aborts
            raise
        return

    if results is None:
        possible = (one for one in assignments(named, given_claims) if is_valid(one, named, given_claims))
        assert next(possible, None) is None
    else:
        assert is_valid(as_assignment(results, named, given_claims), named, given_claims)


def _has_several(claim: Object) -> bool:
    return any(one["count"] != 1 for alternatives in claim["requests"] for one in alternatives)

"""Why a request does not get a device, in words."""

from typing import Any

import pytest

GPU = "device.attributes['gpu.nvidia.com']"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"


def _gpu(world: Any, name: str, memory: str = "81559Mi", **fields: Any) -> Any:
    return world.device(name, model="H100", capacity={"memory": memory}, **fields)


def test_each_device_says_its_own_reason_on_each_node(world: Any) -> None:
    """Two nodes with four devices, and every reason there is."""
    taint = {"key": "gpu.nvidia.com/gpu-lost", "value": "missing", "effect": "NoSchedule"}
    eats = [{"counterSet": "set", "counters": {"memory": {"value": "40Gi"}}}]
    two = {"resourceSliceCount": 2}
    for node in ("n1", "n2"):
        counters = [{"name": "set", "counters": {"memory": {"value": "30Gi"}}}]
        world.slice(nodeName=node, pool={"name": node, **two}, sharedCounters=counters)
    world.slice(
        _gpu(world, "held", clique="a"),
        _gpu(world, "sick", clique="a", taints=[taint]),
        _gpu(world, "small", "15360Mi", clique="a"),
        _gpu(world, "partition", clique="a", consumesCounters=eats),
        nodeName="n1",
        pool={"name": "n1", **two},
    )
    world.slice(
        world.device("unknown", model="T4", clique="a"),
        _gpu(world, "one", clique="a"),
        _gpu(world, "other", clique="b"),
        _gpu(world, "alone"),
        nodeName="n2",
        pool={"name": "n2", **two},
    )
    world.take("held", "n1")
    world.allocated[0]["status"]["reservedFor"] = [{"resource": "pods", "name": "train"}]
    claim = world.claim(
        world.request("gpu", f"{MEMORY}.compareTo(quantity('40Gi')) >= 0", count=2),
        constraints=[{"matchAttribute": "gpu.nvidia.com/clique"}],
    )

    assert {
        "held": ["in use by claim team/old-0 of Pod team/train"],
        "sick": ["tainted gpu.nvidia.com/gpu-lost=missing:NoSchedule"],
        "small": ["selector 0 is false: memory 15360Mi (15Gi) is below 40Gi"],
        "partition": ["counter memory of set is short by 10Gi: needs 40Gi, 30Gi is left"],
    } == world.reasons(claim)
    assert {
        "unknown": ["selector 0 fails: no such key: memory: this device has no memory"],
        "one": [],
        "other": ["constraint: gpu.nvidia.com/clique is b, not a as of the others"],
        "alone": ["it has no attribute gpu.nvidia.com/clique, which a constraint compares"],
    } == world.reasons(claim, node="n2")


def test_every_selector_says_how_many_devices_it_kept(world: Any) -> None:
    world.slice(*(_gpu(world, f"gpu-{index}", "40Gi") for index in range(4)))
    claim = world.claim(
        world.request("r", f"{GPU}.model == 'NONEXISTENT'", f"{MEMORY}.compareTo(quantity('40Gi')) >= 0")
    )

    counts = [(count.index, count.kept, count.of) for _, _, count in world.explain(claim).selectors]

    assert [(0, 0, 4), (1, 4, 4)] == counts


def test_a_class_filters_before_the_request_asks(world: Any) -> None:
    world.device_class("gpu", f"{GPU}.type == 'gpu'")
    world.slice(world.device("a", type="gpu"), world.device("b", type="mig"))
    claim = world.claim(world.request("r", f"{GPU}.foo == 1", deviceClassName="gpu"))

    explanation = world.explain(claim)

    assert ['not of class gpu: selector 0 is false: type is "mig", not "gpu"'] == world.reasons(claim)["b"]
    assert [("class gpu", 1, 2, 0), ("request r", 0, 1, 1)] == [
        (count.owner, count.kept, count.of, count.failed) for _, _, count in explanation.selectors
    ]


def test_a_card_of_80_gb_has_less_than_80_gi(world: Any) -> None:
    world.slice(_gpu(world, "a", "40960Mi"), _gpu(world, "b"))
    claim = world.claim(world.request("gpu", f"{MEMORY}.isGreaterThan(quantity('80Gi'))"))

    assert (
        (
            "request gpu: nearest is gpu.nvidia.com/pool/b: memory 81559Mi (79.65Gi) is below 80Gi,"
            " the largest of 2 devices that only this keeps out"
        ),
    ) == world.explain(claim).nearest


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (f"{GPU}.model == 'T4'", 'model is "H100", not "T4"'),
        (f"{GPU}.model != 'H100'", 'model is "H100"'),
        (f"{GPU}.model.contains('A100')", 'model "H100" does not contain "A100"'),
        (f"{GPU}.?brand.orValue('') == 'x'", "it has no brand"),
        (f"has({GPU}.brand)", "it has no brand"),
        (f"{MEMORY}.isGreaterThan(quantity('81559Mi'))", "memory 81559Mi is not above 81559Mi"),
        (f"{MEMORY}.isLessThan(quantity('1Gi'))", "memory 81559Mi (79.65Gi) is above 1Gi"),
        (f"{GPU}.sick", "sick is false, not true"),
        (f"{GPU}.peers >= 7", "peers 3 is below 7"),
        (
            f"{GPU}.model.lowerAscii() == 't4'",
            f"{GPU}.model.lowerAscii() == 't4' is false (with model = \"H100\")",
        ),
        (
            f"{GPU}.model == 'H100' && {GPU}.peers > 3 && {GPU}.sick",
            "peers 3 is not above 3, sick is false, not true",
        ),
    ],
)
def test_a_false_selector_is_told_with_the_values_it_saw(world: Any, expression: str, text: str) -> None:
    world.slice(_gpu(world, "a", sick=False, peers=3))

    assert [f"selector 0 is false: {text}"] == world.reasons(world.claim(world.request("r", expression)))["a"]


@pytest.mark.parametrize(
    ("expression", "text", "fix"),
    [
        (
            f"{GPU}.foo == 'x'",
            "no such key: foo: this device has no foo",
            f"write has(device.attributes[\"gpu.nvidia.com\"].foo) && {GPU}.foo == 'x'",
        ),
        (
            f"{GPU}.modle == 'x'",
            "no such key: modle: did you mean model?",
            'write device.attributes["gpu.nvidia.com"].model',
        ),
        (
            "device.attributes['gpu-driver.example.com'].memory == '16Gi'",
            (
                'no such key: memory: nothing has the domain "gpu-driver.example.com"; did you mean "gpu.nvidia.com"?'
                " memory is a capacity there"
            ),
            (
                'write, for example, has(device.capacity["gpu.nvidia.com"].memory) &&'
                ' device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
            ),
        ),
        (
            f"{GPU}.memory.compareTo(quantity('1Gi')) > 0",
            "no such key: memory: memory is a capacity",
            (
                'write, for example, has(device.capacity["gpu.nvidia.com"].memory) &&'
                ' device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
            ),
        ),
        (
            f"{GPU}.version.compareTo(semver('550.127.08')) >= 0",
            '"550.127.08" is no semantic version',
            f"write {GPU}.version.compareTo(semver('550.127.8')) >= 0",
        ),
        (
            f"{MEMORY}.compareTo(quantity('80GB')) >= 0",
            '"80GB" is no quantity',
            f"write {MEMORY}.compareTo(quantity('80G')) >= 0",
        ),
        (
            f"{GPU}.model.compareTo(semver('1.0.0')) >= 0",
            "no such overload: compareTo(string, kubernetes.Semver)",
            None,
        ),
    ],
)
def test_a_selector_that_fails_comes_with_what_to_write(
    world: Any, expression: str, text: str, fix: str | None
) -> None:
    world.slice(_gpu(world, "a"))
    (report,) = world.explain(world.claim(world.request("r", expression))).nodes

    (blocker,) = report.requests[0].devices[0].blockers

    assert (f"selector 0 fails: {text}", fix) == (blocker.text, blocker.fix)
    assert report.error is not None


def test_a_guard_of_several_attributes_is_complete(world: Any) -> None:
    world.slice(world.device("a", model="x"))
    (report,) = world.explain(world.claim(world.request("r", f"{GPU}.a1 == 1 || {GPU}.b1 == 2"))).nodes

    (blocker,) = report.requests[0].devices[0].blockers

    reads = [f'has(device.attributes["gpu.nvidia.com"].{name})' for name in ("a1", "b1")]
    assert blocker.fix in {
        f"write {reads[1]} && ({GPU}.a1 == 1 || {GPU}.b1 == 2)",
        f"write {reads[0]} && {reads[1]} && ({GPU}.a1 == 1 || {GPU}.b1 == 2)",
    }


def test_a_selector_that_would_fail_on_a_taken_device_is_not_asked(world: Any) -> None:
    world.slice(world.device("a"))
    world.take("a")
    claim = world.claim(world.request("r", f"{GPU}.foo == 1"))

    assert ["in use by claim team/old-0 (used by no Pod)"] == world.reasons(claim)["a"]
    assert world.explain(claim).error is None


def test_what_is_left_of_a_shared_device_is_told(world: Any) -> None:
    world.slice(world.device("a", allowMultipleAllocations=True, capacity={"memory": "80Gi"}))
    world.take("a", shareID="1", consumedCapacity={"memory": "30Gi"})

    def asking(amount: str, name: str = "memory") -> Any:
        return world.reasons(world.claim(world.request(capacity={"requests": {name: amount}})))["a"]

    assert world.devices(world.claim(world.request(capacity={"requests": {"memory": "50Gi"}}))) == ["a"]
    assert [
        (
            "capacity memory is short by 10Gi: needs 60Gi, 50Gi of 80Gi is left;"
            " shared with claim team/old-0 (used by no Pod)"
        )
    ] == asking("60Gi")
    assert ["it has no capacity shares"] == asking("1", "shares")


def test_a_request_that_a_policy_does_not_allow_is_told(world: Any) -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi"}}
    memory = {"value": "80Gi", "requestPolicy": policy}
    world.slice(world.device("a", allowMultipleAllocations=True, capacity={"memory": memory}))
    claim = world.claim(world.request(capacity={"requests": {"memory": "8Gi"}}))

    assert ["its request policy does not allow 8Gi of memory"] == world.reasons(claim)["a"]


def test_a_place_that_is_taken_names_who_has_it(world: Any) -> None:
    """Of partitions, the memory slice is told, with the claim that has that very slice."""

    def eats(*slices: int) -> Any:
        counters = {"memory": f"{len(slices) * 10}Gi", **{f"memory-slice-{index}": "1" for index in slices}}
        return [
            {
                "counterSet": "gpu-0-counters",
                "counters": {name: {"value": value} for name, value in counters.items()},
            }
        ]

    (total,) = eats(0, 1, 2, 3)
    two = {"resourceSliceCount": 2}
    world.slice(sharedCounters=[{"name": "gpu-0-counters", "counters": total["counters"]}], pool=two)
    world.slice(
        world.device("gpu-0", consumesCounters=eats(0, 1, 2, 3)),
        world.device("mig-0", consumesCounters=eats(0)),
        world.device("mig-1", consumesCounters=eats(1)),
        world.device("mig-0-1", consumesCounters=eats(0, 1)),
        pool=two,
    )
    world.take("mig-1")
    world.allocated[0]["status"]["reservedFor"] = [{"resource": "pods", "name": "train"}]
    claim = world.claim(world.request(count=2))

    assert {
        "gpu-0": ["gpu-0-counters: memory-slice-1 is taken by claim team/old-0 of Pod team/train"],
        "mig-0": [],
        "mig-1": ["in use by claim team/old-0 of Pod team/train"],
        "mig-0-1": ["gpu-0-counters: memory-slice-1 is taken by claim team/old-0 of Pod team/train"],
    } == world.reasons(claim)
    world.allocated.clear()
    world.take("gpu-0")
    assert world.reasons(claim)["mig-0-1"] == [
        "gpu-0-counters: memory-slice-0 and memory-slice-1 are taken by claim team/old-0 (used by no Pod)"
    ]


def test_counters_name_who_uses_them(world: Any) -> None:
    eats = [{"counterSet": "set", "counters": {"memory": {"value": "40Gi"}}}]
    two = {"resourceSliceCount": 2}
    world.slice(sharedCounters=[{"name": "set", "counters": {"memory": {"value": "40Gi"}}}], pool=two)
    world.slice(
        world.device("whole", consumesCounters=eats), world.device("part", consumesCounters=eats), pool=two
    )
    world.take("part")

    assert [
        "counter memory of set is short by 40Gi: needs 40Gi, 0 is left beside claim team/old-0 (used by no Pod)"
    ] == world.reasons(world.claim(world.request()))["whole"]

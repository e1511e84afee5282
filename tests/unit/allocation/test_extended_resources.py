"""`nvidia.com/gpu: 1` of a container becomes a request of the scheduler's own claim."""

from typing import Any

import pytest

from dra_driver.allocation.extended import of_pod

GPU, MIG = "nvidia.com/gpu", "deviceclass.resource.kubernetes.io/mig"
CLASSES = [
    {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}},
    {"metadata": {"name": "mig"}, "spec": {}},
]


def container(name: str, gpus: int = 0, **resources: Any) -> dict[str, Any]:
    asked = {**resources, **({GPU: gpus} if gpus else {})}
    return {"name": name, "resources": {"limits": asked}}


def sidecar(name: str, gpus: int) -> dict[str, Any]:
    return {**container(name, gpus), "restartPolicy": "Always"}


def of(
    *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()
) -> tuple[dict[str, int], list[str]]:
    """Counts by request, and `container: request` of each mapping."""
    found = of_pod({"spec": {"initContainers": list(init), "containers": list(containers)}}, CLASSES)
    counts = {one["name"]: one["exactly"]["count"] for one in found.requests}
    return counts, [f"{one['containerName']}: {one['requestName']}" for one in found.mappings]


def test_each_container_has_a_request_for_each_resource() -> None:
    assert of(container("a", 1), container("b", 2)) == (
        {"container-0-request-0": 1, "container-1-request-0": 2},
        ["a: container-0-request-0", "b: container-1-request-0"],
    )


def test_a_request_is_numbered_among_all_resources_of_its_container() -> None:
    counts, _ = of(container("a", 1, cpu="1", memory="1Gi", **{MIG: 2}))

    assert counts == {"container-0-request-1": 2, "container-0-request-3": 1}


@pytest.mark.parametrize(
    ("init", "counts", "used"),
    [
        ((container("i", 1),), {"container-1-request-0": 2}, ["m: 1", "i: 1"]),
        (
            (container("i", 3),),
            {"container-0-request-0": 1, "container-1-request-0": 2},
            ["m: 1", "i: 1", "i: 0"],
        ),
        (
            (container("i", 3), container("j", 5), container("k", 2)),
            {"container-1-request-0": 3, "container-3-request-0": 2},
            ["m: 3", "i: 3", "i: 1", "j: 3", "j: 1", "k: 3"],
        ),
        (
            (sidecar("s", 1), container("i", 3)),
            {"container-0-request-0": 1, "container-1-request-0": 1, "container-2-request-0": 2},
            ["s: 0", "m: 2", "i: 2", "i: 1"],
        ),
        (
            (container("i", 3), sidecar("s", 1)),
            {"container-1-request-0": 1, "container-2-request-0": 2},
            ["s: 1", "m: 2", "i: 1", "i: 2"],
        ),
    ],
    ids=["fewer", "more", "several", "sidecar before", "sidecar after"],
)
def test_init_containers_use_devices_of_later_containers_and_share_what_they_need_beyond(
    init: Any, counts: Any, used: Any
) -> None:
    found, mappings = of(container("m", 2), init=init)

    assert found == counts
    assert [one.replace("container-", "").removesuffix("-request-0") for one in mappings] == used


def test_resources_that_no_class_stands_for_are_told() -> None:
    pod = {"spec": {"containers": [container("a", 1, **{"other.io/nic": 1}), container("b", cpu="1")]}}

    assert of_pod(pod, CLASSES).unknown == ("other.io/nic",)

"""What containers can read of their devices, in the format of KEP-5304."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dra_driver.errors import ClaimError, UnavailableError
from dra_driver.prepare import ClaimRef

GPU0, GPU1 = "gpu-0000-65-00-0", "gpu-0000-ca-00-0"
DIRECTORY = "/var/run/kubernetes.io/dra-device-attributes"
TEMPLATE = {"resource.kubernetes.io/pod-claim-name": "my-gpus"}


def mounts(node: Any, ref: ClaimRef) -> dict[str, list[dict[str, Any]]]:
    """The metadata mounts of each device of a claim's spec."""
    body = json.loads(node.spec_file(ref).read_text())
    return {
        device["name"].removeprefix(f"{ref.uid}-"): [
            mount
            for mount in device["containerEdits"].get("mounts", ())
            if mount["containerPath"].startswith(DIRECTORY)
        ]
        for device in body["devices"]
    }


def read(node: Any, ref: ClaimRef, request: str = "gpu") -> list[dict[str, Any]]:
    """The objects in the stream that a container finds for a request."""
    text = (node.metadata_dir / f"{ref.uid}_{request}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def annotate(node: Any, ref: ClaimRef, annotations: Any) -> None:
    node.claims.objects[str(ref)]["metadata"]["annotations"] = annotations


def test_a_container_finds_a_stream_with_each_version_newest_first(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0})

    node.engine().prepare(ref)

    device = {
        "driver": "gpu.nvidia.com",
        "pool": "node-a/gpu",
        "name": GPU0,
        "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-0"}},
    }
    body = {
        "kind": "DeviceMetadata",
        "metadata": {"name": "a", "namespace": "default", "uid": ref.uid, "generation": 1},
        "requests": [{"name": "gpu", "devices": [device]}],
    }
    assert read(node, ref) == [
        {"apiVersion": "metadata.resource.k8s.io/v1beta1", **body},
        {"apiVersion": "metadata.resource.k8s.io/v1alpha1", **body},
    ]


def test_a_claim_by_name_is_found_under_its_name(node: Any) -> None:
    ref = node.allocate("my.claim", {"device": GPU0})

    node.engine().prepare(ref)

    assert mounts(node, ref) == {
        GPU0: [
            {
                "hostPath": str(node.metadata_dir / f"{ref.uid}_gpu.json"),
                "containerPath": f"{DIRECTORY}/resourceclaims/my.claim/gpu/gpu.nvidia.com-metadata.json",
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
        ]
    }


def test_a_claim_of_a_template_is_found_under_the_name_in_the_pod(node: Any) -> None:
    ref = node.allocate("my-gpus-x7k2p", {"device": GPU0})
    annotate(node, ref, TEMPLATE)

    node.engine().prepare(ref)

    ((mount,),) = mounts(node, ref).values()
    path = f"{DIRECTORY}/resourceclaimtemplates/my-gpus/gpu/gpu.nvidia.com-metadata.json"
    assert mount["containerPath"] == path
    assert [entry["podClaimName"] for entry in read(node, ref)] == ["my-gpus"] * 2


def test_an_alternative_is_named_in_full_under_its_requests_path(node: Any) -> None:
    ref = node.allocate("a", {"request": "gpu/large", "device": GPU0})

    node.engine().prepare(ref)

    assert list(mounts(node, ref)[GPU0][0]["containerPath"].split("/")[-3:]) == [
        "a",
        "gpu",
        "gpu.nvidia.com-metadata.json",
    ]
    assert [request["name"] for request in read(node, ref)[0]["requests"]] == ["gpu/large"]


def test_a_device_of_two_alternatives_is_named_in_full_under_both(node: Any) -> None:
    ref = node.allocate("a", {"request": "x/big", "device": GPU0}, {"request": "y/small", "device": GPU0})

    node.engine().prepare(ref)

    assert [[request["name"] for request in read(node, ref, name)[0]["requests"]] for name in ("x", "y")] == [
        ["x/big"],
        ["y/small"],
    ]


def test_a_request_with_several_devices_has_one_file_on_its_first(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU1}, {"device": GPU0})

    node.engine().prepare(ref)

    assert {name: len(found) for name, found in mounts(node, ref).items()} == {GPU1: 1, GPU0: 0}
    assert [device["name"] for device in read(node, ref)[0]["requests"][0]["devices"]] == [GPU1, GPU0]


def test_every_request_has_a_file_of_its_own_devices(node: Any) -> None:
    ref = node.allocate("a", {"request": "big", "device": GPU1}, {"request": "small", "device": GPU0})

    node.engine().prepare(ref)

    found = {
        request: [device["name"] for device in read(node, ref, request)[0]["requests"][0]["devices"]]
        for request in ("big", "small")
    }
    assert found == {"big": [GPU1], "small": [GPU0]}
    assert {name: mount[0]["containerPath"].split("/")[-2] for name, mount in mounts(node, ref).items()} == {
        GPU1: "big",
        GPU0: "small",
    }


def test_a_device_of_two_requests_brings_the_files_of_both(node: Any) -> None:
    ref = node.allocate("a", {"request": "one", "device": GPU0}, {"request": "two", "device": GPU0})

    node.engine().prepare(ref)

    assert [mount["containerPath"].split("/")[-2] for mount in mounts(node, ref)[GPU0]] == ["one", "two"]
    assert read(node, ref, "one")[0]["requests"][0]["name"] == "one"


def test_mig_devices_and_claims_with_admin_access_have_files_too(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0, "adminAccess": True})

    node.engine().prepare(ref)

    assert read(node, ref)[0]["requests"][0]["devices"][0]["name"] == GPU0


def test_everybody_in_a_container_can_read_it(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0})

    node.engine().prepare(ref)

    (path,) = node.metadata_dir.iterdir()
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_files_are_there_before_a_spec_mounts_them(
    node: Any, killing: Callable[[int, str], Any], killed: type[BaseException]
) -> None:
    ref = node.allocate("a", {"device": GPU0})

    with pytest.raises(killed):
        node.engine(files=killing(1, "before")).prepare(ref)

    assert ([f"{ref.uid}_gpu.json"], []) == (node.metadata_files(), node.spec_files())


def test_unprepare_takes_the_files_away(node: Any) -> None:
    engine = node.engine()
    refs = [node.allocate("a", {"device": GPU0}), node.allocate("b", {"device": GPU1})]
    for ref in refs:
        engine.prepare(ref)

    engine.unprepare(refs[0])

    assert node.metadata_files() == [f"{refs[1].uid}_gpu.json"]


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_text("half")], ids=["gone", "damaged"]
)
@pytest.mark.parametrize("by", ["a start", "preparing again"])
def test_files_are_written_again_from_the_record(node: Any, damage: Any, by: str) -> None:
    ref = node.allocate("x", {"request": "gpu/large", "device": GPU0})
    annotate(node, ref, TEMPLATE)
    engine = node.engine()
    engine.prepare(ref)
    before = read(node, ref)
    damage(node.metadata_dir / f"{ref.uid}_gpu.json")

    if by == "a start":
        assert node.engine(restored=False).restore().rewritten == (ref,)
    else:
        engine.prepare(ref)

    assert read(node, ref) == before


def test_without_a_driver_files_are_written_again_too(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0})
    engine = node.engine()
    engine.prepare(ref)
    (node.metadata_dir / f"{ref.uid}_gpu.json").unlink()
    node.lose_driver()

    engine.prepare(ref)

    assert node.metadata_files() == [f"{ref.uid}_gpu.json"]


def test_files_without_a_record_are_removed_at_a_start(node: Any) -> None:
    node.metadata_dir.mkdir()
    for name in ("0a1b_gpu.json", ".dra-0a1b_gpu.json-7.tmp"):
        (node.metadata_dir / name).touch()

    node.engine()

    assert node.metadata_files() == []


def test_files_of_a_damaged_record_stay_since_its_containers_may_run(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0})
    node.engine().prepare(ref)
    node.record_file(ref).write_text("half")

    engine = node.engine()

    assert node.metadata_files() == [f"{ref.uid}_gpu.json"]
    engine.unprepare(ref)
    assert node.metadata_files() == []


def test_a_directory_that_cannot_be_written_is_an_error_and_nothing_stays(node: Any) -> None:
    node.metadata_dir.touch()
    ref = node.allocate("a", {"device": GPU0})
    engine = node.engine(restored=False)

    with pytest.raises(
        UnavailableError, match=f"metadata of claim default/a cannot be written into {node.metadata_dir}"
    ):
        engine.prepare(ref)

    assert (node.spec_files(), engine.held()) == ([], ())


@pytest.mark.parametrize(
    "annotation",
    ["../../../etc", "a/b", "", "A", "x" * 64, "a\nb", 7, None],
    ids=lambda value: repr(value)[:12],
)
def test_an_annotation_that_is_no_name_of_a_pods_claim_is_ignored(node: Any, annotation: Any) -> None:
    ref = node.allocate("a", {"device": GPU0})
    annotate(node, ref, {"resource.kubernetes.io/pod-claim-name": annotation})

    node.engine().prepare(ref)

    assert mounts(node, ref)[GPU0][0]["containerPath"].startswith(f"{DIRECTORY}/resourceclaims/a/")


@pytest.mark.parametrize("request_name", ["..", "../x/y", "A", "x" * 64, "a.b", "a_b"])
def test_a_hostile_request_name_is_refused_and_nothing_is_written(node: Any, request_name: str) -> None:
    ref = node.allocate("a", {"device": GPU0, "request": request_name})

    with pytest.raises(
        ClaimError, match="cannot be the name of a request that is prepared; delete the claim"
    ):
        node.engine().prepare(ref)

    assert (node.spec_files(), node.metadata_files()) == ([], [])

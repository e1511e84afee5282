"""What Prepare answers, and for which claims it does."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.cdi.validate import validate
from dra_driver.errors import ClaimError, UnavailableError
from dra_driver.prepare import ClaimRef, PreparedDevice

GPU0, GPU1 = "gpu-0000-65-00-0", "gpu-0000-ca-00-0"
SHARE_A, SHARE_B = "0a000000-0000-4000-8000-000000000000", "0b000000-0000-4000-8000-000000000000"


def spec(node: Any, ref: ClaimRef) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(node.spec_file(ref).read_text())
    return body


def test_a_claim_for_one_gpu_gets_its_node_alone(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU1})

    answer = node.engine().prepare(ref)

    cdi_id = f"k8s.gpu.nvidia.com/claim={ref.uid}-{GPU1}"
    assert answer == (PreparedDevice(("gpu",), "node-a/gpu", GPU1, (cdi_id,)),)
    body = spec(node, ref)
    assert validate(body) == []
    (device,) = body["devices"]
    assert [found["path"] for found in device["containerEdits"]["deviceNodes"]] == ["/dev/nvidia1"]
    assert body["containerEdits"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]


def test_several_requests_are_answered_in_the_order_of_the_allocation(node: Any) -> None:
    ref = node.allocate("a", {"request": "big", "device": GPU1}, {"request": "small", "device": GPU0})

    answer = node.engine().prepare(ref)

    assert [(device.request_names, device.device) for device in answer] == [
        (("big",), GPU1),
        (("small",), GPU0),
    ]


def test_an_alternative_answers_under_its_base_name(node: Any) -> None:
    ref = node.allocate("a", {"request": "gpu/large", "device": GPU0})

    (device,) = node.engine().prepare(ref)

    assert device.request_names == ("gpu",)


def test_results_of_other_drivers_are_ignored(node: Any) -> None:
    ref = node.allocate(
        "a",
        {"device": GPU0},
        {"device": "eth1", "driver": "dra.net", "pool": "node-a"},
        {"device": "cpudevnuma000", "driver": "dra.cpu", "pool": "node-a"},
    )

    assert [device.device for device in node.engine().prepare(ref)] == [GPU0]


def test_a_claim_without_a_device_of_ours_is_refused(node: Any) -> None:
    ref = node.allocate("a", {"device": "eth1", "driver": "dra.net", "pool": "node-a"})

    with pytest.raises(ClaimError, match=r"claim default/a holds no device of driver gpu.nvidia.com"):
        node.engine().prepare(ref)


def test_one_device_for_two_requests_is_one_cdi_device(node: Any) -> None:
    ref = node.allocate("a", {"request": "x", "device": GPU0}, {"request": "y", "device": GPU0})

    (device,) = node.engine().prepare(ref)

    assert device.request_names == ("x", "y")
    assert len(spec(node, ref)["devices"]) == 1


def test_one_device_twice_for_a_request_is_named_once(node: Any) -> None:
    ref = node.allocate("a", {"request": "x/big", "device": GPU0}, {"request": "x/small", "device": GPU0})

    (device,) = node.engine().prepare(ref)

    assert device.request_names == ("x",)


def test_two_shares_of_one_device_are_two_cdi_devices(node: Any) -> None:
    ref = node.allocate(
        "a",
        {"request": "x", "device": GPU0, "shareID": SHARE_A},
        {"request": "y", "device": GPU0, "shareID": SHARE_B},
    )

    answer = node.engine().prepare(ref)

    assert [device.share_id for device in answer] == [SHARE_A, SHARE_B]
    assert [device.cdi_ids for device in answer] == [
        (f"k8s.gpu.nvidia.com/claim={ref.uid}-{GPU0}-{SHARE_A}",),
        (f"k8s.gpu.nvidia.com/claim={ref.uid}-{GPU0}-{SHARE_B}",),
    ]
    assert [device["name"] for device in spec(node, ref)["devices"]] == [
        f"{ref.uid}-{GPU0}-{SHARE_A}",
        f"{ref.uid}-{GPU0}-{SHARE_B}",
    ]
    assert validate(spec(node, ref)) == []


def test_a_mig_device_is_prepared_with_its_capabilities(node: Any, tmp_path: Any) -> None:
    node.cut_into_mig()
    instance = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig/gi7"
    (instance / "ci0").mkdir(parents=True)
    (instance / "access").write_text("DeviceFileMinor: 66\nDeviceFileMode: 292\n")
    (instance / "ci0/access").write_text("DeviceFileMinor: 67\nDeviceFileMode: 292\n")
    (tmp_path / "proc/devices").write_text("Character devices:\n234 nvidia-caps\n")
    ref = node.allocate("a", {"device": node.devices.devices[0].name})

    node.engine().prepare(ref)

    (device,) = spec(node, ref)["devices"]
    assert [found["path"] for found in device["containerEdits"]["deviceNodes"]] == [
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap66",
        "/dev/nvidia-caps/nvidia-cap67",
    ]


def test_a_claim_that_is_gone_is_refused(node: Any) -> None:
    with pytest.raises(ClaimError, match="claim default/a does not exist any more"):
        node.engine().prepare(ClaimRef("default", "a", "u-1"))


@pytest.mark.parametrize("status", [{}, None, {"allocation": None}, {"reservedFor": []}])
def test_a_claim_without_allocation_is_refused(node: Any, status: Any) -> None:
    ref = node.allocate("a")
    node.claims.objects["default/a"]["status"] = status

    with pytest.raises(ClaimError, match="claim default/a is not allocated"):
        node.engine().prepare(ref)


def test_a_claim_that_was_replaced_is_refused(node: Any) -> None:
    node.allocate("a", {"device": GPU0}, uid="new")

    with pytest.raises(ClaimError, match="claim default/a was replaced by a new claim of the same name"):
        node.engine().prepare(ClaimRef("default", "a", "old"))


@pytest.mark.parametrize("uid", ["../../x", "", "a/b", "x" * 300])
def test_a_hostile_uid_is_refused_before_anything_is_asked(node: Any, uid: str) -> None:
    engine = node.engine()

    with pytest.raises(ClaimError, match="is no UID of a claim"):
        engine.prepare(ClaimRef("default", "a", uid))

    assert node.claims.gets == 0


def test_an_api_server_that_is_away_is_told_as_such(node: Any) -> None:
    node.claims.error = UnavailableError("the API server does not answer")

    with pytest.raises(UnavailableError, match="the API server does not answer"):
        node.engine().prepare(ClaimRef("default", "a", "u-1"))


@pytest.mark.parametrize(
    "name", ["", "..", "a/../../nodes", "a?watch=true", "\ud800", "A", "a\0b", "x" * 254]
)
@pytest.mark.parametrize(("part", "what"), [("name", "claim"), ("namespace", "namespace")])
def test_a_hostile_name_is_refused_before_anything_is_asked(
    node: Any, part: str, what: str, name: str
) -> None:
    ref = replace(node.allocate("a", {"device": GPU0}), **{part: name})

    with pytest.raises(ClaimError, match=f"cannot be the name of a {what}; delete the Pod"):
        node.engine().prepare(ref)

    assert 0 == node.claims.gets


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"metadata": None},
        {"metadata": []},
        {"kind": "Status", "status": "Success", "metadata": {"uid": "UID"}},
        {"metadata": {"uid": "UID"}, "status": []},
        {"metadata": {"uid": "UID"}, "status": {"allocation": "all of them"}},
        {"metadata": {"uid": "UID"}, "status": {"allocation": {"devices": {"results": [None]}}}},
        {
            "metadata": {"uid": "UID"},
            "status": {"allocation": {"devices": {"results": [{"driver": "gpu.nvidia.com"}]}}},
        },
        {"metadata": {"uid": "UID"}, "status": {"allocation": {"devices": {"results": 1}}}},
    ],
    ids=str,
)
def test_an_answer_that_is_no_claim_is_told_and_tried_again(node: Any, answer: dict[str, Any]) -> None:
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})
    right = node.claims.objects[str(ref)]
    node.claims.objects[str(ref)] = json.loads(json.dumps(answer).replace("UID", ref.uid))

    with pytest.raises((UnavailableError, ClaimError), match="claim default/a"):
        engine.prepare(ref)

    assert ([], []) == (node.spec_files(), node.record_files())
    node.claims.objects[str(ref)] = right
    assert engine.prepare(ref)


def test_hardware_is_followed_while_the_api_server_hangs_for_a_claim(node: Any) -> None:
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})
    engine.prepare(ref)
    asked, answered = threading.Event(), threading.Event()

    def hang() -> None:
        asked.set()
        answered.wait(60)

    node.claims.hang = hang

    with ThreadPoolExecutor(2) as threads:
        again = threads.submit(engine.prepare, ref)
        assert asked.wait(60)
        node.change_gpu(0, minor=1)
        report = threads.submit(engine.repair).result(60)
        waiting = not again.done()
        answered.set()

    assert ((ref,), True) == (report.rewritten, waiting)
    assert again.result()
    assert b'"/dev/nvidia1"' in node.spec_file(ref).read_bytes()


def test_many_callers_and_repairs_at_once_leave_each_claim_whole(node: Any) -> None:
    engine = node.engine()
    refs = [node.allocate(f"a{number}", {"device": GPU0, "adminAccess": True}) for number in range(64)]
    bad = [node.allocate(f"b{number}", {"device": "gpu-9"}) for number in range(16)]
    over = threading.Event()

    def repair() -> None:
        while not over.is_set():
            assert () == engine.repair().unresolved

    def use(ref: ClaimRef) -> Any:
        first = engine.prepare(ref)
        engine.unprepare(ref)
        return first == engine.prepare(ref)

    with ThreadPoolExecutor(33) as threads:
        repairs = threads.submit(repair)
        ends = [threads.submit(use, ref) for ref in (*refs, *bad)]
        errors = [end.exception(60) for end in ends]
        over.set()
        repairs.result(60)

    assert [None] * 64 == errors[:64]
    assert all(isinstance(error, ClaimError) for error in errors[64:])
    assert all(end.result() for end in ends[:64])
    assert (64, 64) == (len(node.spec_files()), len(node.record_files()))
    for ref in refs:
        engine.unprepare(ref)
    assert ([], [], []) == (node.spec_files(), node.record_files(), node.metadata_files())


def test_preparing_again_gives_the_same_answer_and_writes_nothing(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    first = engine.prepare(ref)
    written = [path.stat().st_mtime_ns for path in (node.spec_file(ref), node.record_file(ref))]

    assert [engine.prepare(ref) for _ in range(3)] == [first] * 3
    assert written == [path.stat().st_mtime_ns for path in (node.spec_file(ref), node.record_file(ref))]


def test_preparing_again_writes_a_spec_that_is_gone(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    engine.prepare(ref)
    before = node.spec_file(ref).read_bytes()
    node.spec_file(ref).unlink()

    engine.prepare(ref)

    assert node.spec_file(ref).read_bytes() == before


def test_preparing_again_follows_a_gpu_whose_minor_changed(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    engine.prepare(ref)
    node.change_gpu(0, minor=1)

    engine.prepare(ref)

    assert b'"/dev/nvidia1"' in node.spec_file(ref).read_bytes()


def test_a_claim_that_was_allocated_anew_gets_its_new_device(node: Any) -> None:
    engine = node.engine()
    engine.prepare(node.allocate("a", {"device": GPU0}))
    ref = node.allocate("a", {"device": GPU1})

    (device,) = engine.prepare(ref)

    assert device.device == GPU1
    assert [held.device.name for held in engine.held()] == [GPU1]


def test_a_full_disk_leaves_nothing_behind(node: Any, full_disk: Any) -> None:
    engine = node.engine(files=full_disk)
    ref = node.allocate("a", {"device": GPU0})

    with pytest.raises(UnavailableError, match="No space left on device"):
        engine.prepare(ref)

    assert (node.spec_files(), node.record_files(), engine.held()) == ([], [], ())


def test_a_record_that_cannot_be_written_takes_the_spec_with_it(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    node.record_file(ref).mkdir()

    with pytest.raises(UnavailableError, match=r"claim default/a cannot be recorded in .*: Is a directory"):
        engine.prepare(ref)

    assert (node.spec_files(), engine.held()) == ([], ())
    other = node.allocate("b", {"device": GPU0})
    assert engine.prepare(other)


def test_one_bad_claim_of_three_fails_alone(node: Any) -> None:
    engine = node.engine()
    good, bad, other = (
        node.allocate("a", {"device": GPU0}),
        node.allocate("b", {"device": "gpu-9"}),
        node.allocate("c", {"device": GPU1}),
    )

    assert engine.prepare(good)
    with pytest.raises(ClaimError, match="device gpu-9 of pool node-a/gpu does not exist"):
        engine.prepare(bad)
    assert engine.prepare(other)


def test_claims_beyond_kubernetes_own_limits_are_prepared_all_the_same(node: Any) -> None:
    results = [{"request": f"r{i}", "device": GPU0, "adminAccess": True} for i in range(64)]

    (device,) = node.engine().prepare(node.allocate("a", *results))

    assert len(device.request_names) == 64

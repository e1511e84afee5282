"""What a start makes of the files that the last process left."""

import errno
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dra_driver.files
from dra_driver.errors import UnavailableError
from dra_driver.files import AnyPath
from dra_driver.inventory.model import Inventory
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.partitions.mig_device import MigDevices
from dra_driver.prepare import ClaimRef, RecordStore
from dra_driver.prepare.record import RecordedStep, State

GPU0, GPU1 = "gpu-0000-65-00-0", "gpu-0000-ca-00-0"
SHARE = "0a000000-0000-4000-8000-000000000000"


def two_claims(node: Any) -> tuple[ClaimRef, ClaimRef]:
    engine = node.engine()
    refs = node.allocate("a", {"device": GPU0}), node.allocate("b", {"device": GPU1})
    for ref in refs:
        engine.prepare(ref)
    return refs


def test_an_empty_node_has_nothing_to_restore(node: Any) -> None:
    report = node.engine(restored=False).restore()

    assert (report.held, report.damaged, report.orphans) == (0, (), ())


def test_prepared_claims_are_held_and_their_specs_untouched(node: Any) -> None:
    first, second = two_claims(node)

    engine = node.engine(restored=False)
    report = engine.restore()

    assert (report.held, report.rewritten, report.unresolved) == (2, (), ())
    assert {held.claim_uid for held in engine.held()} == {first.uid, second.uid}


def test_specs_that_are_gone_are_written_again_byte_for_byte(node: Any) -> None:
    refs = two_claims(node)
    before = [node.spec_file(ref).read_bytes() for ref in refs]
    for ref in refs:
        node.spec_file(ref).unlink()
    node.cdi_dir.rmdir()

    report = node.engine(restored=False).restore()

    assert set(report.rewritten) == set(refs)
    assert [node.spec_file(ref).read_bytes() for ref in refs] == before


def test_a_stale_spec_is_written_again(node: Any) -> None:
    first, _ = two_claims(node)
    node.change_gpu(0, minor=1)
    node.change_gpu(1, minor=0)

    report = node.engine(restored=False).restore()

    assert len(report.rewritten) == 2
    assert b'"/dev/nvidia1"' in node.spec_file(first).read_bytes()


def test_a_missing_gpu_leaves_its_claim_held_and_the_others_restored(node: Any) -> None:
    first, second = two_claims(node)
    node.spec_file(second).unlink()
    node.inventory = replace(node.inventory, gpus=node.inventory.gpus[1:])

    engine = node.engine(restored=False)
    report = engine.restore()

    (unresolved,) = report.unresolved
    assert (unresolved.ref, report.rewritten) == (first, (second,))
    assert f"device {GPU0} (GPU-0) is gone from the node" in unresolved.reason
    assert len(engine.held()) == 2


def test_without_a_driver_everything_stays_as_it_is(node: Any) -> None:
    first, second = two_claims(node)
    devices = node.devices
    node.lose_driver()

    engine = node.engine(restored=False)
    report = engine.restore()

    assert {unresolved.ref for unresolved in report.unresolved} == {first, second}
    assert {held.device.name for held in engine.held()} == {device.name for device in devices}
    assert len(node.spec_files()) == 2


def test_device_metadata_is_written_again_without_a_driver(node: Any) -> None:
    two_claims(node)
    before = node.metadata_files()
    for name in before:
        (node.metadata_dir / name).unlink()
    node.lose_driver()

    node.engine()

    assert (2, before) == (len(before), node.metadata_files())


def test_specs_are_repaired_when_the_driver_comes_back(node: Any) -> None:
    first, second = two_claims(node)
    inventory, devices = node.inventory, node.devices
    node.spec_file(first).unlink()
    node.lose_driver()
    engine = node.engine()

    node.inventory, node.devices = inventory, devices
    report = engine.repair()

    assert (report.rewritten, report.unresolved) == ((first,), ())
    assert node.spec_file(second).exists()


def test_a_step_of_another_shape_costs_its_claim_alone_and_nothing_is_cleared_away(node: Any) -> None:
    first, second = two_claims(node)
    node.spec_file(second).unlink()
    backend = SimulatedBackend(load_profile("dgx-h100"), "node-a")
    gpu = backend.scan().gpus[0].uuid
    backend.mig.set_mode(gpu, enabled=True)
    backend.mig.create_gpu_instance(gpu, 19, 0)
    store = RecordStore(node.claims_dir, boot_id=node.boot_id)
    store.load()
    record = store.get(first.uid)
    assert record is not None
    store.write(replace(record, steps=(RecordedStep("mig-device", (gpu,), {"gpu": gpu}),)))

    partitions = MigDevices(backend.mig, lambda: {gpu: True}, lambda: None)
    report = node.engine(restored=False, partitions=partitions).restore()

    (unresolved,) = report.unresolved
    assert (unresolved.ref, unresolved.reason) == (first, "internal error: 'uuid'")
    assert (report.held, report.rewritten) == (2, (second,))
    assert len(backend.mig.instances(gpu)) == 1


def test_specs_without_a_record_are_removed_and_those_of_others_stay(node: Any) -> None:
    first, _ = two_claims(node)
    node.record_file(first).unlink()
    other = node.cdi_dir / "nvidia.yaml"
    other.touch()

    report = node.engine(restored=False).restore()

    assert report.orphans == (first.uid,)
    assert not node.spec_file(first).exists()
    assert other.exists()


def test_an_orphan_that_cannot_be_removed_stops_neither_the_start_nor_the_removal_of_others(
    node: Any,
) -> None:
    stuck, second = two_claims(node)
    for ref in (stuck, second):
        node.record_file(ref).unlink()
    node.spec_file(stuck).unlink()
    node.spec_file(stuck).mkdir()

    report = node.engine(restored=False).restore()

    assert (0, sorted((stuck.uid, second.uid))) == (report.held, sorted(report.orphans))
    assert [node.spec_file(stuck).name] == node.spec_files()


def test_after_a_reboot_nothing_recorded_is_trusted(node: Any) -> None:
    refs = two_claims(node)
    node.boot_id = str(uuid.uuid4())

    engine = node.engine(restored=False)
    report = engine.restore()

    assert set(report.dropped) == set(refs)
    assert (engine.held(), node.spec_files(), node.record_files()) == ((), [], [])
    assert [len(engine.prepare(ref)) for ref in refs] == [1, 1]


def test_a_damaged_record_leaves_the_running_container_its_spec(node: Any) -> None:
    first, second = two_claims(node)
    node.record_file(first).write_bytes(b"")

    engine = node.engine(restored=False)
    report = engine.restore()

    assert [damaged.claim_uid for damaged in report.damaged] == [first.uid]
    assert (report.orphans, node.spec_file(first).exists()) == ((), True)
    assert [held.claim_uid for held in engine.held()] == [second.uid]


def test_a_claim_with_a_damaged_record_is_prepared_again_with_the_same_answer(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    answer = engine.prepare(ref)
    node.record_file(ref).write_bytes(b"{")

    assert node.engine().prepare(ref) == answer
    assert json.loads(node.record_file(ref).read_text())["record"]["state"] == "completed"


class NoMoreRecords:
    """A file system that is full where the records are."""

    remove = staticmethod(dra_driver.files.remove)
    write_new = staticmethod(dra_driver.files.write_new)

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write_atomic(self, path: AnyPath, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
        if Path(path).parent == self._directory:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        dra_driver.files.write_atomic(path, data, mode=mode, sync=sync)


@pytest.mark.parametrize("full", ["everywhere", "records"])
def test_a_failed_retry_of_a_damaged_claim_leaves_its_files(node: Any, full_disk: Any, full: str) -> None:
    first, second = two_claims(node)
    node.record_file(first).write_bytes(b"{")
    node.engine()

    with pytest.raises(UnavailableError):
        node.engine(files=full_disk if full == "everywhere" else NoMoreRecords(node.claims_dir)).prepare(
            first
        )

    assert node.spec_file(first).exists()
    assert sorted(f"{ref.uid}_gpu.json" for ref in (first, second)) == node.metadata_files()


def test_a_claim_with_a_damaged_record_is_unprepared_whole(node: Any) -> None:
    first, second = two_claims(node)
    node.record_file(first).write_bytes(b"{")
    engine = node.engine()

    engine.unprepare(first)

    assert node.spec_files() == [node.spec_file(second).name]
    assert node.engine(restored=False).restore().damaged == ()


def start(node: Any, ref: ClaimRef) -> None:
    """Rewrite the claim's record as that of a preparation which was cut off."""
    store = RecordStore(node.claims_dir, boot_id=node.boot_id)
    store.load()
    record = store.get(ref.uid)
    assert record is not None
    store.write(replace(record, state=State.STARTED))


def test_a_half_done_preparation_is_undone(node: Any) -> None:
    first, second = two_claims(node)
    start(node, first)

    engine = node.engine(restored=False)
    report = engine.restore()

    assert report.undone == (first,)
    assert (node.spec_files(), node.record_files()) == ([node.spec_file(second).name], [f"{second.uid}.json"])
    assert engine.prepare(node.allocate("c", {"device": GPU0}))


def test_a_half_done_preparation_that_cannot_be_undone_stays_held_until_it_can(node: Any) -> None:
    first, _ = two_claims(node)
    start(node, first)
    node.spec_file(first).unlink()
    node.spec_file(first).mkdir()

    engine = node.engine(restored=False)
    report = engine.restore()

    assert [unresolved.ref for unresolved in report.unresolved] == [first]
    assert first.uid in {held.claim_uid for held in engine.held()}
    node.spec_file(first).rmdir()
    assert engine.prepare(first)
    assert json.loads(node.record_file(first).read_text())["record"]["state"] == "completed"


def test_a_half_done_mig_claim_is_unprepared_without_its_hardware(node: Any) -> None:
    first, _ = two_claims(node)
    start(node, first)
    node.inventory = Inventory(available=False)
    engine = node.engine()

    engine.unprepare(first)

    assert not node.record_file(first).exists()


def test_shares_are_held_after_a_restart(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0, "shareID": SHARE})
    answer = node.engine().prepare(ref)

    assert node.engine().prepare(ref) == answer


def test_admin_access_holds_nothing_in_the_pool(node: Any) -> None:
    engine = node.engine()
    engine.prepare(node.allocate("a", {"device": GPU0, "adminAccess": True}))

    assert engine.held() == node.engine().held() == ()
    assert len(node.record_files()) == 1

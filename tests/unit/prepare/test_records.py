"""The directory of records: damage stays alone, unknown fields stay, old files stay readable."""

import dataclasses
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.config.settings import Setting
from dra_driver.devices.model import Device, Target
from dra_driver.errors import RecordError, UnavailableError
from dra_driver.prepare import ClaimRef, Record, RecordStore, read_boot_id
from dra_driver.prepare.record import NewerRecordError, RecordedDevice, RecordedStep, State, decode, encode
from dra_driver.steps import Partition

SAMPLES = Path(__file__).parent / "samples"
BOOT = "b0000000-0000-4000-8000-000000000000"


def record(uid: str = "uid-1", boot_id: str = BOOT, **fields: Any) -> Record:
    device = Device("gpu-1", Target("gpu", "GPU-1", "GPU-1", "0000:01:00.0"), {"type": "gpu"})
    return Record(
        ClaimRef("ns", "a", uid), boot_id, State.COMPLETED, (RecordedDevice(device, "p", ("r",)),), **fields
    )


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "claims", boot_id=BOOT)


def reopened(store: RecordStore) -> RecordStore:
    other = RecordStore(store.directory, boot_id=store.boot_id)
    other.load()
    return other


def test_a_record_is_read_back_as_it_was_written(store: RecordStore) -> None:
    written = record(extra={"later": [1]})
    store.write(written)

    assert reopened(store).all() == (written,)


def test_all_that_is_known_of_a_device_is_read_back(store: RecordStore) -> None:
    plain = record()
    (device,) = plain.devices
    share = dataclasses.replace(
        device,
        share_id="share-1",
        admin_access=True,
        subrequests=("r/small",),
        partition=Partition("MIG-1", 7, 0),
        memory=1 << 30,
        setting=Setting("MPS", exclusive=True),
        extra={"later": 1},
    )
    step = RecordedStep("mig-device", ("GPU-1",), {"gpu": "GPU-1"})
    written = dataclasses.replace(plain, devices=(device, share), pod_claim_name="gpus", steps=(step, step))
    store.write(written)

    assert reopened(store).all() == (written,)


def test_a_record_is_one_json_document_for_its_owner_only(store: RecordStore) -> None:
    store.write(record())

    path = store.directory / "uid-1.json"
    assert json.loads(path.read_text())["record"]["name"] == "a"
    assert (path.stat().st_mode & 0o777, store.directory.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_a_stored_sample_of_each_version_is_read_and_written_again_without_loss(sample: Path) -> None:
    stored = decode(sample.read_bytes())

    assert decode(encode(stored)) == stored
    assert json.loads(encode(stored))["record"] == json.loads(sample.read_bytes())["record"]


def test_only_a_record_with_steps_is_kept_from_releases_that_could_not_undo_them() -> None:
    steps = (RecordedStep("mig-device", ("GPU-1",), {"gpu": "GPU-1"}),)
    versions = [json.loads(encode(each))["record"]["version"] for each in (record(), record(steps=steps))]
    assert [1, 2] == versions


def test_fields_of_other_versions_are_kept_at_both_levels() -> None:
    stored = decode((SAMPLES / "v1.json").read_bytes())

    assert stored.extra == {"sharing": {"strategy": "MPS"}}
    assert stored.devices[0].extra == {"partition": 7}


def test_a_sample_keeps_what_is_needed_to_find_the_hardware_again() -> None:
    (device, mig) = decode((SAMPLES / "v1.json").read_bytes()).devices

    assert device.device.target == Target("gpu", "GPU-0", "GPU-0", "0000:65:00.0")
    assert (mig.device.target.uuid, mig.share_id, mig.admin_access) == (
        "MIG-1",
        "0a000000-0000-4000-8000-000000000000",
        True,
    )


GOOD = encode(record())
DAMAGED = {
    "empty": b"",
    "cut off": GOOD[:-20],
    "text": b"hello\n",
    "other checksum": GOOD.replace(b'"name":"a"', b'"name":"b"'),
    "written by hand": json.dumps(json.loads(GOOD), indent=1).encode(),
    "appended to": GOOD + GOOD,
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_data_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode(data)


@given(st.binary())
def test_no_bytes_make_the_decoder_raise_anything_else(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode(data)


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_noticed(place: int, change: int) -> None:
    data = bytearray(GOOD)
    data[place] ^= change

    with pytest.raises(RecordError):
        decode(bytes(data))


def resealed(body: dict[str, Any]) -> bytes:
    """A record of any content with a checksum that fits."""

    class Foreign:
        def as_dict(self) -> dict[str, Any]:
            return body

    return encode(cast("Record", Foreign()))


def test_a_record_of_a_newer_release_says_so() -> None:
    with pytest.raises(NewerRecordError, match="it is of version 3, this release knows 2"):
        decode(resealed({"version": 3, "claims": []}))


@pytest.mark.parametrize(
    "change",
    [
        {"state": "aborted"},
        {"devices": None},
        {"devices": [{}]},
        {"version": 0},
        {"version": "1"},
        {"uid": ...},
    ],
)
def test_valid_json_of_another_shape_is_damaged(change: dict[str, Any]) -> None:
    body = {key: value for key, value in {**record().as_dict(), **change}.items() if value is not ...}

    with pytest.raises(RecordError, match="its content is none of version 2 or older"):
        decode(resealed(body))


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_set_aside_alone_and_listed(store: RecordStore, data: bytes) -> None:
    store.write(record("uid-1"))
    (store.directory / "uid-2.json").write_bytes(data)

    other = reopened(store)

    assert [found.ref.uid for found in other.all()] == ["uid-1"]
    (damaged,) = other.damaged()
    assert (damaged.claim_uid, damaged.path.read_bytes()) == ("uid-2", data)
    assert not (store.directory / "uid-2.json").exists()


def test_a_directory_in_place_of_a_record_is_set_aside(store: RecordStore) -> None:
    (store.directory / "uid-2.json" / "inner").mkdir(parents=True)

    (damaged,) = reopened(store).damaged()

    assert (damaged.path / "inner").is_dir()


def test_a_record_under_the_name_of_another_is_set_aside(store: RecordStore) -> None:
    store.write(record("uid-1"))
    (store.directory / "uid-1.json").rename(store.directory / "uid-2.json")

    (damaged,) = reopened(store).damaged()

    assert damaged.reason == "it is the record of claim 'uid-1'"


def test_a_name_that_is_no_uid_is_set_aside(store: RecordStore) -> None:
    store.write(record("uid-1"))
    (store.directory / "uid-1.json").rename(store.directory / "a..b.json")

    assert [damaged.claim_uid for damaged in reopened(store).damaged()] == ["a..b"]


def test_what_was_set_aside_stays_listed_over_restarts_until_its_claim_is_removed(store: RecordStore) -> None:
    store.directory.mkdir()
    (store.directory / "uid-2.json").touch()
    reopened(store)

    other = reopened(store)
    assert [damaged.claim_uid for damaged in other.damaged()] == ["uid-2"]

    other.remove("uid-2")
    assert other.damaged() == reopened(store).damaged() == ()


def test_what_was_set_aside_before_a_reboot_is_dropped(store: RecordStore) -> None:
    store.directory.mkdir()
    (store.directory / "uid-2.json").mkdir()
    reopened(store)

    later = RecordStore(store.directory, boot_id=str(uuid.uuid4()))
    later.load()

    assert later.damaged() == ()
    assert list((store.directory / "damaged").iterdir()) == []


def test_a_newer_record_stays_in_place_for_the_next_upgrade(store: RecordStore) -> None:
    store.directory.mkdir()
    path = store.directory / "uid-2.json"
    path.write_bytes(resealed({"version": 3}))

    (damaged,) = reopened(store).damaged()

    assert damaged.path == path
    assert path.exists()


def test_records_of_another_boot_are_dropped_and_told(store: RecordStore) -> None:
    store.write(record("uid-1", boot_id="other"))
    store.write(record("uid-2"))

    dropped = RecordStore(store.directory, boot_id=BOOT).load()

    assert [found.ref.uid for found in dropped] == ["uid-1"]
    assert [found.ref.uid for found in reopened(store).all()] == ["uid-2"]


def test_left_overs_of_killed_writes_are_removed(store: RecordStore) -> None:
    store.directory.mkdir()
    (store.directory / ".dra-uid-1.json-abc.tmp").touch()

    reopened(store)

    assert list(store.directory.iterdir()) == []


def test_removing_what_is_unknown_is_fine(store: RecordStore) -> None:
    store.remove("uid-9")


def test_a_directory_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "claims").touch()

    with pytest.raises(UnavailableError, match="cannot be read"):
        RecordStore(tmp_path / "claims", boot_id=BOOT).load()


def test_a_full_disk_is_an_error_and_keeps_what_was_known(tmp_path: Path, full_disk: Any) -> None:
    store = RecordStore(tmp_path, boot_id=BOOT, files=full_disk)

    with pytest.raises(
        UnavailableError, match=r"claim ns/a cannot be recorded in .*: No space left on device"
    ):
        store.write(record())

    assert store.all() == ()


def test_records_of_one_device_share_its_published_form(store: RecordStore) -> None:
    for i in range(3):
        store.write(record(f"uid-{i}"))

    assert len({id(found.devices[0].device) for found in reopened(store).all()}) == 1


def test_a_device_that_is_published_otherwise_now_keeps_each_records_form(store: RecordStore) -> None:
    first = record("uid-1")
    changed = dataclasses.replace(first.devices[0].device, attributes={"type": "gpu", "new": True})
    second = dataclasses.replace(
        record("uid-2"), devices=(dataclasses.replace(first.devices[0], device=changed),)
    )
    store.write(first)
    store.write(second)

    assert reopened(store).all() == (first, second)


def test_the_boot_id_is_the_kernels() -> None:
    assert str(uuid.UUID(read_boot_id())) == read_boot_id()


@pytest.mark.parametrize("content", ["", "../x\n", "a b"])
def test_no_boot_id_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "boot_id").write_text(content)

    with pytest.raises(UnavailableError, match="holds no boot id, so no record can be trusted"):
        read_boot_id(tmp_path / "boot_id")


def test_a_boot_id_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="the boot id cannot be read from"):
        read_boot_id(tmp_path / "boot_id")


def test_what_is_nested_too_deep_is_damaged() -> None:
    body = b"[" * 100_000 + b"]" * 100_000
    frame = (
        b'{"checksum":"sha256:' + hashlib.sha256(body).hexdigest().encode() + b'","record":' + body + b"}\n"
    )

    with pytest.raises(RecordError, match="its content is none of version"):
        decode(frame)

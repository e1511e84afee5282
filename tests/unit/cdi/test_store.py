"""One spec per claim, in a directory shared with others."""

import json
import uuid
from pathlib import Path

import pytest

import dra_driver.files
from dra_driver.cdi.spec import CdiDevice, ContainerEdits, DeviceNode, Spec
from dra_driver.cdi.store import SpecStore
from dra_driver.cdi.validate import validate
from dra_driver.errors import ClaimError, UnavailableError
from dra_driver.files import AnyPath

UID = "0a1b2c3d-0000-4000-8000-000000000001"


@pytest.fixture
def store(tmp_path: Path) -> SpecStore:
    return SpecStore(tmp_path / "cdi", "gpu.nvidia.com")


def spec(store: SpecStore, node: str = "/dev/nvidia0") -> Spec:
    name = store.device_name(UID, "gpu-0000-65-00-0")
    return Spec(store.kind, (CdiDevice(name, ContainerEdits(device_nodes=(DeviceNode(node),))),))


class FullDisk:
    """A file system that takes nothing and gives nothing up."""

    def write_atomic(self, path: AnyPath, data: bytes, *, mode: int = 0, sync: bool = True) -> None:
        raise OSError(28, "No space left on device", str(path))

    def write_new(self, path: AnyPath, data: bytes, *, mode: int = 0) -> bool:
        raise OSError(28, "No space left on device", str(path))

    def remove(self, path: AnyPath, *, sync: bool = True) -> bool:
        raise OSError(30, "Read-only file system", str(path))


def test_a_claims_spec_has_its_uid_in_file_and_device_name(store: SpecStore) -> None:
    store.ensure(UID, spec(store))

    path = store.directory / f"k8s.gpu.nvidia.com-claim_{UID}.json"
    body = json.loads(path.read_text())
    assert (validate(body), body["kind"]) == ([], "k8s.gpu.nvidia.com/claim")
    assert body["devices"][0]["name"] == f"{UID}-gpu-0000-65-00-0"


def test_a_share_has_a_name_of_its_own(store: SpecStore) -> None:
    share = str(uuid.UUID(int=7))

    assert store.qualified_name(UID, "gpu-a", share) == f"k8s.gpu.nvidia.com/claim={UID}-gpu-a-{share}"


def test_runtimes_of_other_users_can_read_it(store: SpecStore) -> None:
    store.ensure(UID, spec(store))

    assert store.path(UID).stat().st_mode & 0o777 == 0o644


def test_a_missing_directory_is_made(store: SpecStore) -> None:
    assert not store.directory.exists()

    assert store.ensure(UID, spec(store))

    assert store.claims() == [UID]


def test_the_same_spec_is_written_once(store: SpecStore) -> None:
    assert [store.ensure(UID, spec(store)) for _ in range(3)] == [True, False, False]


def test_another_spec_replaces_the_stale_one(store: SpecStore) -> None:
    store.ensure(UID, spec(store))

    assert store.ensure(UID, spec(store, "/dev/nvidia5"))
    assert b"/dev/nvidia5" in (store.read(UID) or b"")


def test_removing_is_idempotent(store: SpecStore) -> None:
    store.ensure(UID, spec(store))

    assert [store.remove(UID), store.remove(UID)] == [True, False]


def test_files_of_others_are_neither_listed_nor_removed(store: SpecStore) -> None:
    store.directory.mkdir()
    others = [
        "nvidia.yaml",
        "k8s.gpu.nvidia.com-claim_x.yaml",
        "k8s.gpu.nvidia.com-claim_a.b.json",
        f"k8s.other.com-claim_{UID}.json",
        ".dra-k8s.other.com-claim_1.json-x.tmp",
        "spec.123.tmp",
    ]
    for name in others:
        (store.directory / name).touch()

    store.remove_temporary()

    assert store.claims() == []
    assert sorted(path.name for path in store.directory.iterdir()) == sorted(others)


def test_left_overs_of_killed_writes_are_removed(store: SpecStore) -> None:
    store.directory.mkdir()
    left_over = store.directory / f".dra-{store.path(UID).name}-x1y2.tmp"
    left_over.touch()

    store.remove_temporary()

    assert not left_over.exists()


@pytest.mark.parametrize("uid", ["../../etc/cron.d/x", "..", "a/b", "", "x" * 300, "a\0b"])
def test_hostile_uids_never_become_a_path(store: SpecStore, uid: str) -> None:
    for call in (store.path, store.read, store.remove, lambda text: store.ensure(text, spec(store))):
        with pytest.raises(ClaimError, match="is no UID of a claim"):
            call(uid)

    assert not store.directory.exists()


def test_a_full_disk_is_an_error_that_names_the_directory(tmp_path: Path) -> None:
    store = SpecStore(tmp_path, "gpu.nvidia.com", files=FullDisk())

    with pytest.raises(
        UnavailableError, match=rf"claim {UID} .* into {tmp_path} .*: No space left on device"
    ):
        store.ensure(UID, spec(store))


def test_a_read_only_directory_is_an_error_of_removal_too(tmp_path: Path) -> None:
    SpecStore(tmp_path, "gpu.nvidia.com").ensure(UID, spec(SpecStore(tmp_path, "gpu.nvidia.com")))
    store = SpecStore(tmp_path, "gpu.nvidia.com", files=FullDisk())

    with pytest.raises(UnavailableError, match=rf"claim {UID} cannot be removed .*: Read-only file system"):
        store.remove(UID)


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cdi").touch()
    store = SpecStore(tmp_path / "cdi", "gpu.nvidia.com")

    with pytest.raises(UnavailableError, match="Not a directory"):
        store.ensure(UID, spec(store))
    with pytest.raises(UnavailableError, match="Not a directory"):
        store.claims()


def test_a_spec_that_cannot_be_read_counts_as_missing(store: SpecStore) -> None:
    store.path(UID).mkdir(parents=True)

    assert store.read(UID) is None


def test_a_directory_that_is_missing_holds_nothing(store: SpecStore) -> None:
    assert store.claims() == []
    store.remove_temporary()
    assert not dra_driver.files.is_temporary(store.path(UID).name)

"""Unprepare needs nothing but the record, and not even that."""

import errno
from pathlib import Path
from typing import Any

import pytest

import dra_driver.files
from dra_driver.errors import ConflictError, UnavailableError
from dra_driver.files import AnyPath
from dra_driver.prepare import ClaimRef

GPU0 = "gpu-0000-65-00-0"


class StuckRecords:
    """A file system whose records can be written, and not removed while it is `stuck`."""

    write_atomic = staticmethod(dra_driver.files.write_atomic)
    write_new = staticmethod(dra_driver.files.write_new)

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.stuck = True

    def remove(self, path: AnyPath, *, sync: bool = True) -> bool:
        if self.stuck and Path(path).parent == self._directory:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return dra_driver.files.remove(path, sync=sync)


def test_spec_and_record_are_gone(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    engine.prepare(ref)

    engine.unprepare(ref)

    assert (node.spec_files(), node.record_files(), engine.held()) == ([], [], ())


def test_twice_is_fine(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    engine.prepare(ref)

    engine.unprepare(ref)
    engine.unprepare(ref)


def test_an_unknown_claim_is_done_at_once_without_hardware_or_api(node: Any) -> None:
    engine = node.engine()

    engine.unprepare(ClaimRef("default", "never", "u-1"))

    assert (node.scans, node.claims.gets) == (0, 0)


def test_a_prepared_claim_needs_neither_hardware_nor_api(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    engine.prepare(ref)
    scans, gets = node.scans, node.claims.gets
    node.lose_driver()
    node.claims.objects.clear()

    engine.unprepare(ref)

    assert (node.scans, node.claims.gets) == (scans, gets)
    assert node.record_files() == []


def test_it_works_after_a_restart_without_a_driver(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0})
    node.engine().prepare(ref)
    node.lose_driver()

    node.engine().unprepare(ref)

    assert (node.spec_files(), node.record_files()) == ([], [])


def test_a_claim_whose_first_prepare_failed_is_fine(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": "gpu-9"})
    with pytest.raises(Exception, match="does not exist"):
        engine.prepare(ref)

    engine.unprepare(ref)


@pytest.mark.parametrize("uid", ["../x", "..", "", "a/b", "x" * 300])
def test_a_hostile_uid_touches_nothing_outside_the_directories(node: Any, tmp_path: Path, uid: str) -> None:
    engine = node.engine()
    victim = tmp_path / "x.json"
    victim.touch()

    engine.unprepare(ClaimRef("default", "a", uid))

    assert victim.exists()


def test_a_spec_that_cannot_be_removed_keeps_the_claim_held(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    engine.prepare(ref)
    node.spec_file(ref).unlink()
    node.spec_file(ref).mkdir()

    with pytest.raises(UnavailableError, match=f"the CDI spec of claim {ref.uid} cannot be removed"):
        engine.unprepare(ref)

    assert [held.claim for held in engine.held()] == ["default/a"]


def test_a_record_that_cannot_be_removed_keeps_others_from_the_device(node: Any) -> None:
    files = StuckRecords(node.claims_dir)
    engine = node.engine(files=files)
    ref, other = node.allocate("a", {"device": GPU0}), node.allocate("b", {"device": GPU0})
    engine.prepare(ref)

    with pytest.raises(UnavailableError, match=f"the record of claim {ref.uid} cannot be removed"):
        engine.unprepare(ref)
    with pytest.raises(ConflictError, match="is held by claim default/a"):
        engine.prepare(other)

    files.stuck = False
    engine.unprepare(ref)
    assert engine.prepare(other)


def test_configuration_is_not_looked_at(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    engine.prepare(ref)
    devices = node.claims.objects["default/a"]["status"]["allocation"]["devices"]
    devices["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": {"domainID": "../x"}}}]

    engine.unprepare(ref)

    assert node.record_files() == []

"""CDI directories that cannot be written, as the kernel says it: a sentence, nothing left behind, and the retry works."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dra_driver.cdi import registry
from dra_driver.errors import UnavailableError
from tests.integration.prepare.conftest import UID, Host, SmallMount

_WRITTEN = f"the CDI spec of claim {UID} cannot be written into "


def test_a_directory_that_is_missing_is_made_and_made_again(host: Host) -> None:
    engine = host.start()
    host.prepare(engine)
    shutil.rmtree(host.specs.directory)

    answer = host.prepare(engine)

    found = registry.load([host.specs.directory])
    assert ([*answer[0].cdi_ids], {}) == (list(found.devices), found.problems)


def add_file(path: Path) -> None:
    path.write_text("of somebody")


def add_link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def add_loop(path: Path) -> None:
    path.symlink_to(path.name)


IN_THE_WAY: dict[Callable[[Path], None], str] = {
    add_file: "Not a directory",
    add_link_to_nothing: "File exists",
    add_loop: "Too many levels of symbolic links",
}


@pytest.mark.parametrize("add", IN_THE_WAY, ids=lambda add: add.__name__)
def test_what_is_in_the_way_of_the_directory_is_told_and_left_alone(
    host: Host, add: Callable[[Path], None]
) -> None:
    engine, before = host.start(), host.rest()
    add(host.specs.directory)
    there = host.written()

    with pytest.raises(UnavailableError) as raised:
        host.prepare(engine)

    assert f"{_WRITTEN}{host.specs.directory} on the node: {IN_THE_WAY[add]}" == str(raised.value)
    assert (there, before) == (host.written(), host.rest())
    host.specs.directory.unlink()
    assert host.prepare(engine)


@pytest.mark.root
def test_a_full_directory_is_told_and_nothing_of_the_claim_is_left(
    host: Host, small_mount: SmallMount
) -> None:
    host.use_cdi_dir(small_mount.path)
    engine = host.start()
    small_mount.fill()

    with pytest.raises(UnavailableError) as raised:
        host.prepare(engine)

    assert f"{_WRITTEN}{small_mount.path} on the node: No space left on device" == str(raised.value)
    assert [str(small_mount.path / "other")] == host.written()
    (small_mount.path / "other").unlink()
    assert host.prepare(engine)


@pytest.mark.root
def test_a_read_only_directory_is_told_by_prepare_and_by_unprepare(
    host: Host, small_mount: SmallMount
) -> None:
    host.use_cdi_dir(small_mount.path)
    engine = host.start()
    small_mount.remount("ro")

    with pytest.raises(UnavailableError) as raised:
        host.prepare(engine)

    assert f"{_WRITTEN}{small_mount.path} on the node: Read-only file system" == str(raised.value)
    assert [] == host.written()
    small_mount.remount("rw")
    host.prepare(engine)
    small_mount.remount("ro")
    with pytest.raises(
        UnavailableError, match=f"claim {UID} cannot be removed from .*: Read-only file system"
    ):
        host.unprepare(engine)
    assert [host.result["device"]] == [held.device.name for held in engine.held()]
    small_mount.remount("rw")
    host.unprepare(engine)
    assert ([], ()) == (host.written(), engine.held())


@pytest.mark.root
def test_a_full_directory_does_not_stop_the_start_or_the_claims_that_are_prepared(
    host: Host, small_mount: SmallMount
) -> None:
    host.use_cdi_dir(small_mount.path)
    answer = host.prepare(host.start())
    small_mount.fill()

    assert answer == host.prepare(host.start())

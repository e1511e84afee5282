import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dra_driver import files
from dra_driver.errors import UnavailableError, UsageError


def test_a_write_replaces_the_whole_file_with_the_mode_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    files.write_atomic(path, b"old and longer")

    files.write_atomic(path, b"new", mode=0o644)

    assert (b"new", 0o644) == (path.read_bytes(), path.stat().st_mode & 0o777)
    assert ["record.json"] == os.listdir(tmp_path)


def test_a_write_that_fails_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "a directory"
    target.mkdir()

    with pytest.raises(IsADirectoryError):
        files.write_atomic(target, b"new")

    assert ["a directory"] == os.listdir(tmp_path)


@pytest.mark.parametrize("sync", [True, False])
def test_a_write_is_on_the_disk_before_the_file_has_its_name_and_the_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    done = []
    fsync, rename, unlink = os.fsync, os.rename, os.unlink

    def note_fsync(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        done.append("directory" if path == tmp_path else f"data {path.read_bytes()!r}")
        fsync(fd)

    def note_rename(source: str, target: Path) -> None:
        done.append("rename")
        rename(source, target)

    def note_unlink(path: Path) -> None:
        done.append("unlink")
        unlink(path)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    monkeypatch.setattr(os, "unlink", note_unlink)

    files.write_atomic(tmp_path / "record.json", b"new", sync=sync)
    files.remove(tmp_path / "record.json", sync=sync)

    synced = ["data b'new'", "rename", "directory", "unlink", "directory"]
    assert (synced if sync else ["rename", "unlink"]) == done


def test_a_new_file_has_the_mode_asked_for_and_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "metadata.json"

    made = [files.write_new(path, data, mode=0o644) for data in (b"first", b"second")]

    assert ([True, False], b"first", 0o644) == (made, path.read_bytes(), path.stat().st_mode & 0o777)


def test_a_new_file_that_cannot_be_filled_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)

    with pytest.raises(OSError, match="No space left"):
        files.write_new(tmp_path / "metadata.json", b"data")

    assert [] == os.listdir(tmp_path)


def test_reading_what_is_not_there_or_no_file_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")

    assert [b"data", None, None] == [files.read(tmp_path / name) for name in ("file", "nothing", ".")]


def test_left_overs_of_a_killed_writer_are_recognised_and_no_cdi_spec(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from dra_driver import files; os.rename = lambda *_: os._exit(9);"
        "files.write_atomic(pathlib.Path(sys.argv[1]), b'x')"
    )

    subprocess.run([sys.executable, "-c", code, str(tmp_path / "spec.json")], check=False)

    (left,) = os.listdir(tmp_path)
    assert files.is_temporary(left)
    assert not left.endswith((".json", ".yaml"))
    assert not files.is_temporary("spec.json")
    assert not files.is_temporary(".dra-of-somebody-else.json")


def test_a_left_over_of_a_killed_process_with_the_same_numbers_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container all processes have one number."""
    monkeypatch.setattr(files, "_numbers", itertools.count())
    left_over = tmp_path / f".dra-record.json-{os.getpid():x}-0.tmp"
    left_over.write_bytes(b"half")

    files.write_atomic(tmp_path / "record.json", b"whole")

    assert (b"whole", b"half") == ((tmp_path / "record.json").read_bytes(), left_over.read_bytes())


@pytest.mark.parametrize("write", [files.write_atomic, files.write_new])
def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], object]
) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, bytes(data)[:3]))

    write(tmp_path / "record.json", b"a whole record")

    assert b"a whole record" == (tmp_path / "record.json").read_bytes()


def test_removing_says_whether_there_was_something(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()

    assert [True, False] == [files.remove(path), files.remove(path)]


def test_a_second_process_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys, pathlib; from dra_driver import files\n"
        "lock = files.Lock(pathlib.Path(sys.argv[1])).acquire('this'); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()

        with pytest.raises(UsageError, match=f"the plugin runs already: process {other.pid} holds"):
            files.Lock(path).acquire("the plugin")

        other.kill()
        other.wait()
        files.Lock(path).acquire("the plugin").release()


def test_a_lock_that_was_given_back_can_be_taken_by_another(tmp_path: Path) -> None:
    first = files.Lock(tmp_path / "lock").acquire("the plugin")
    first.release()

    with files.Lock(tmp_path / "lock").acquire("the plugin"), pytest.raises(UsageError):
        first.acquire("the plugin")


def test_a_full_disk_does_not_stop_a_start() -> None:
    lock = files.Lock(Path("/dev/full"))  # takes no byte

    assert lock.acquire("the plugin") is lock
    with pytest.raises(UsageError, match=r"the plugin runs already: process .* holds /dev/full"):
        files.Lock(Path("/dev/full")).acquire("the plugin")
    lock.release()


def test_a_lock_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=f"cannot open the lock {tmp_path}: Is a directory"):
        files.Lock(tmp_path).acquire("the plugin")

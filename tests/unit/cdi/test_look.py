"""Looking under a root: links stay inside, nothing is an error, and every change is noticed."""

import shutil
import socket
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from dra_driver.cdi.look import Look
from dra_driver.cdi.root import Root

LATER = 10**18  # nanoseconds after anything that a test does: all changes have settled


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/usr/lib").mkdir(parents=True)
    (tmp_path / "root/usr/lib/libcuda.so.1").touch()
    (tmp_path / "libcuda.so.1").touch()
    return tmp_path / "root"


def look(root: Path, *, now: int = LATER) -> Look:
    return Look(Root(PurePosixPath("/run/nvidia/driver"), root), now=lambda: now)


@pytest.mark.parametrize(
    ("link", "target", "expected"),
    [
        ("lib", "usr/lib", "/usr/lib/libcuda.so.1"),
        ("lib", "/usr/lib", "/usr/lib/libcuda.so.1"),
        ("lib", "./usr/../usr/lib/", "/usr/lib/libcuda.so.1"),
        ("usr/lib64", "lib", "/usr/lib/libcuda.so.1"),
        ("usr/lib64", "../../../../../usr/lib", "/usr/lib/libcuda.so.1"),
    ],
)
def test_links_are_followed_inside_the_root(root: Path, link: str, target: str, expected: str) -> None:
    (root / link).symlink_to(target)

    assert expected == look(root).file(f"/{link}/libcuda.so.1")


@pytest.mark.parametrize("target", ["..", "../..", "/..", "/../../.."])
def test_no_link_leads_out_of_the_root(root: Path, target: str) -> None:
    (root / "out").symlink_to(target)

    assert look(root).file("/out/libcuda.so.1") is None
    assert look(root).file("/../libcuda.so.1") is None


def test_loops_links_to_nothing_and_files_as_directories_are_not_there(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "self").symlink_to("self/self")
    (root / "nothing").symlink_to("/nowhere")
    seen = look(root)

    paths = ("/a", "/self", "/nothing", "/usr/lib/libcuda.so.1/x", "/usr/none/../lib")
    assert [None] * 5 == [seen.real(path) for path in paths]


def test_forty_links_are_followed_and_no_more(root: Path) -> None:
    for number in range(41):
        (root / f"l{number}").symlink_to(f"l{number + 1}" if number < 40 else "usr")

    assert (look(root).real("/l1"), look(root).real("/l0")) == ("/usr", None)


def test_a_type_that_was_not_asked_for_is_not_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    seen = look(root)

    assert ("/socket", None) == (seen.socket("/socket"), seen.file("/socket"))
    assert ("/usr/lib", None) == (seen.directory("/usr/lib"), seen.file("/usr/lib"))
    assert None is seen.socket("/usr/lib/libcuda.so.1")


def test_the_host_has_its_own_name_for_what_is_seen(root: Path) -> None:
    seen = look(root)

    assert "/run/nvidia/driver/usr/lib" == seen.host_path("/usr/lib")
    assert str(root / "usr/lib") == seen.local_path("/usr/lib")


def test_a_directory_that_cannot_be_listed_is_empty(root: Path) -> None:
    assert frozenset({"libcuda.so.1"}) == look(root).names("/usr/lib")
    assert frozenset() == look(root).names("/usr/lib/libcuda.so.1") == look(root).names("/none")


def tick(root: Path) -> None:
    """Until the kernel's clock for files goes on, so that the next change has a later time."""
    (root / "tick").touch()
    before = root.stat().st_ctime_ns
    while root.stat().st_ctime_ns == before:
        (root / "tick").unlink()
        (root / "tick").touch()


def replace_file(root: Path) -> None:
    (root / "new").touch()
    (root / "new").rename(root / "usr/lib/libcuda.so.1")


def replace_directory(root: Path) -> None:
    shutil.copytree(root / "usr/lib", root / "usr/new")
    shutil.rmtree(root / "usr/lib")
    (root / "usr/new").rename(root / "usr/lib")


def retarget(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to("usr/none")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new library": lambda root: (root / "usr/lib/libnew.so").touch(),
    "a library gone": lambda root: (root / "usr/lib/libcuda.so.1").unlink(),
    "another library of that name": replace_file,
    "another directory of that name": replace_directory,
    "a file that was missing": lambda root: (root / "etc/x").touch(),
    "a directory that was missing": lambda root: (root / "opt").mkdir(),
    "a link to elsewhere": retarget,
    "a socket's directory": lambda root: (root / "run/nvidia").mkdir(),
    "other content": lambda root: (root / "hook").write_text("changed"),
    "the root gone": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(root: Path, change: str) -> None:
    for name in ("etc", "run"):
        (root / name).mkdir()
    (root / "hook").touch()
    (root / "link").symlink_to("usr/lib")
    tick(root)
    seen = look(root)
    seen.names("/usr/lib")
    seen.content("/hook")
    for path in ("/etc/x", "/opt/lib", "/link/libcuda.so.1", "/run/nvidia/socket", "/usr/lib/libcuda.so.1"):
        seen.real(path)
    assert seen.same()

    CHANGES[change](root)

    assert not seen.same()


@pytest.mark.parametrize("name", ["run/other", "usr/lib/sub/deep", "var/log", "etc/a/b"])
def test_a_change_elsewhere_is_none(root: Path, name: str) -> None:
    for directory in ("run", "usr/lib/sub", "var", "etc/a"):
        (root / directory).mkdir(parents=True)
    tick(root)
    seen = look(root)
    for path in ("/run/nvidia/socket", "/usr/lib/libcuda.so.1"):
        seen.real(path)

    (root / name).mkdir()

    assert seen.same()


def test_a_look_at_what_was_changed_a_moment_ago_is_not_to_be_trusted(root: Path) -> None:
    changed = (root / "usr/lib").stat().st_ctime_ns
    moment, long = look(root, now=changed + 1_000_000), look(root, now=changed + 100_000_000_000)
    for seen in (moment, long):
        seen.names("/usr/lib")

    assert (False, True) == (moment.same(), long.same())


@pytest.mark.parametrize("name", ["lib\udcff", "lib\U0001f600"], ids=["no text", "beyond YAML's escapes"])
def test_what_no_spec_can_say_is_not_there_also_behind_a_link(root: Path, name: str) -> None:
    (root / name).touch()
    (root / "link").symlink_to(name)
    (root / name.replace("lib", "dir")).symlink_to("usr/lib")

    seen = look(root)

    paths = (f"/{name}", "/link", f"/{name.replace('lib', 'dir')}/libcuda.so.1")
    assert [None] * 3 == [seen.file(path) for path in paths]

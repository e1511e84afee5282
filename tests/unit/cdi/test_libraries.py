"""Which libraries of a driver are found where, and in which version."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra_driver.cdi.elf import Machine
from dra_driver.cdi.libraries import Libraries, Library, find_libraries
from dra_driver.cdi.look import Look
from dra_driver.inventory.fake_elf import loader_cache, shared_library

VERSION = "580.95.05"
DIRECTORIES = [
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "lib64",
    "lib/x86_64-linux-gnu",
    "usr/lib",
    "lib",
    "run/opengl-driver/lib",
    "glibc/usr/lib",
    ".",
]

Find = Callable[..., Libraries]


@pytest.fixture
def find(driver: Any) -> Find:
    return lambda kernel=None: find_libraries(Look(driver.root()), kernel)


def names(found: Libraries) -> dict[str, tuple[str, ...]]:
    return {library.stem: library.names for library in found.found}


def test_a_library_is_known_by_file_soname_and_plain_name(find: Find) -> None:
    (cuda, ml) = find().found

    assert cuda == Library(
        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05",
        "/usr/lib/x86_64-linux-gnu",
        ("libcuda.so.580.95.05", "libcuda.so.1", "libcuda.so"),
        Machine.X86_64,
    )
    assert ml.names == ("libnvidia-ml.so.580.95.05", "libnvidia-ml.so.1")


def test_every_library_of_the_version_counts_also_below_vdpau(driver: Any, find: Find) -> None:
    driver.add_library("libnvidia-newfangled", "libnvidia-newfangled.so.1")
    driver.add_library("vdpau/libvdpau_nvidia", "vdpau/libvdpau_nvidia.so.1")

    found = names(find())

    assert found["libnvidia-newfangled"] == (
        "libnvidia-newfangled.so.580.95.05",
        "libnvidia-newfangled.so.1",
    )
    assert found["libvdpau_nvidia"][0] == "vdpau/libvdpau_nvidia.so.580.95.05"


def test_parts_with_versions_of_their_own_count_by_their_names(driver: Any, find: Find) -> None:
    driver.add_library("libnvidia-egl-gbm", "libnvidia-egl-gbm.so.1", version="1.1.2")
    driver.add_library("libnvidia-egl-wayland2", "libnvidia-egl-wayland2.so.1", version="1.0.0")
    driver.add_library("libnvidia-container", "libnvidia-container.so.1", version="1.18.0")

    assert set(names(find())) == {
        "libcuda",
        "libnvidia-ml",
        "libnvidia-egl-gbm",
        "libnvidia-egl-wayland2",
    }


@pytest.mark.parametrize("current", ["1.1.9", "1.1.13", "1.1.20"])
def test_of_parts_in_several_versions_the_one_that_the_link_leads_to_counts(
    driver: Any, find: Find, current: str
) -> None:
    for version in sorted(("1.1.9", "1.1.13", "1.1.20"), key=lambda version: version == current):
        driver.add_library("libnvidia-egl-wayland", "libnvidia-egl-wayland.so.1", version=version)

    found = [library.names for library in find().found if library.stem == "libnvidia-egl-wayland"]

    assert found == [(f"libnvidia-egl-wayland.so.{current}", "libnvidia-egl-wayland.so.1")]


def test_of_parts_in_two_directories_the_first_counts(driver: Any, find: Find) -> None:
    driver.add_library("libnvidia-egl-gbm", "libnvidia-egl-gbm.so.1", version="1.1.2")
    driver.add_file(
        "/usr/lib64/libnvidia-egl-gbm.so.1.1.1", shared_library("libnvidia-egl-gbm.so.1", "x86_64")
    )

    found = [library.names[0] for library in find().found if library.stem == "libnvidia-egl-gbm"]

    assert found == ["libnvidia-egl-gbm.so.1.1.1"]


def test_names_that_no_soname_gives_are_added(driver: Any, find: Find) -> None:
    driver.add_library("libGLX_nvidia", "libGLX_nvidia.so.0")
    driver.add_library("libnvidia-opticalflow", "libnvidia-opticalflow.so.1")
    driver.add_library("libnvidia-allocator", "libnvidia-allocator.so.1")

    found = names(find())

    assert found["libGLX_nvidia"][-1] == "libGLX_indirect.so.0"
    assert found["libnvidia-opticalflow"][-1] == "libnvidia-opticalflow.so"
    assert found["libnvidia-allocator"][-1] == "gbm/nvidia-drm_gbm.so"


@pytest.mark.parametrize(
    "soname", ["../../../etc/passwd", "/etc/passwd", "", "a/b", "a\nb", ".hidden", "ü.so"]
)
def test_a_soname_that_is_no_file_name_is_left_out(driver: Any, find: Find, soname: str) -> None:
    path = driver.local / driver.libraries / f"libnvidia-x.so.{VERSION}"
    path.write_bytes(shared_library(soname, "x86_64"))

    assert names(find())["libnvidia-x"] == (f"libnvidia-x.so.{VERSION}",)


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_every_well_known_directory_is_looked_into(driver: Any, find: Find, directory: str) -> None:
    libraries = driver.local / driver.libraries
    moved = driver.local / directory
    files = {path.name: path.read_bytes() for path in libraries.iterdir() if not path.is_symlink()}
    for path in list(libraries.iterdir()):
        path.unlink()
    moved.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (moved / name).write_bytes(data)

    found = find()

    assert (found.version, found.missing()) == (VERSION, ())
    assert {library.directory for library in found.found} == {"" if directory == "." else f"/{directory}"}


def test_a_directory_that_only_the_loaders_cache_knows_is_looked_into(driver: Any, find: Find) -> None:
    (driver.local / driver.libraries).rename(driver.local / "opt")
    assert find().missing()

    paths = {"libcuda.so.1": "/opt/libcuda.so.1"}
    driver.add_file("/etc/ld.so.cache", loader_cache(paths, "x86_64"))

    assert {library.directory for library in find().found} == {"/opt"}


@pytest.mark.parametrize("cache", [b"", b"ld.so-1.7.0\0\0\0\0\5", b"glibc-ld.so.cache1.1\xff\xff", b"text"])
def test_a_cache_that_cannot_be_read_takes_nothing_away(driver: Any, find: Find, cache: bytes) -> None:
    driver.add_file("/etc/ld.so.cache", cache)

    assert find().missing() == ()


def test_a_cache_without_end_is_passed_over(driver: Any, find: Find) -> None:
    os.truncate(driver.add_file("/etc/ld.so.cache"), 1 << 40)

    with capture_logs() as logs:
        assert find().missing() == ()

    assert [line["event"] for line in logs] == ["loader cache passed over"]


def test_a_directory_that_only_links_lead_to_is_looked_into(driver: Any, find: Find) -> None:
    libraries, alternatives = driver.local / driver.libraries, driver.local / "etc/alternatives"
    (libraries / "nvidia").mkdir()
    (libraries / "nvidia/tesla").mkdir()
    alternatives.mkdir(parents=True)
    for name in ("libcuda", "libnvidia-ml"):
        file = f"{name}.so.{VERSION}"
        (libraries / file).rename(libraries / "nvidia/tesla" / file)
        (libraries / f"{name}.so.1").unlink()
        (libraries / f"{name}.so.1").symlink_to(f"/etc/alternatives/{name}")
        (alternatives / name).symlink_to(f"/{driver.libraries}/nvidia/tesla/{file}")
    (libraries / f"nvidia/tesla/libnvidia-x.so.{VERSION}").write_bytes(
        shared_library("libnvidia-x.so.1", "x86_64")
    )

    found = find()

    assert {library.directory for library in found.found} == {f"/{driver.libraries}/nvidia/tesla"}
    assert set(names(found)) == {"libcuda", "libnvidia-ml", "libnvidia-x"}


def test_a_directory_with_two_names_is_looked_into_once(driver: Any, find: Find) -> None:
    (driver.local / "lib").symlink_to("usr/lib")
    (driver.local / "usr/lib64").symlink_to("/usr/lib/x86_64-linux-gnu")

    assert [library.directory for library in find().found] == ["/usr/lib64", "/usr/lib64"]


def test_the_file_behind_absolute_links_is_the_one_of_the_root(driver: Any, find: Find) -> None:
    libraries = driver.local / driver.libraries
    current = libraries / "nvidia"
    current.mkdir()
    for name in (f"libcuda.so.{VERSION}", f"libnvidia-ml.so.{VERSION}"):
        (libraries / name).rename(current / name)
        (driver.local / "etc/alternatives").mkdir(parents=True, exist_ok=True)
        (driver.local / "etc/alternatives" / name).symlink_to(f"/{driver.libraries}/nvidia/{name}")
        (libraries / name).symlink_to(f"/etc/alternatives/{name}")

    assert [library.host_path for library in find().found] == [
        f"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/nvidia/libcuda.so.{VERSION}",
        f"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/nvidia/libnvidia-ml.so.{VERSION}",
    ]


def test_of_two_versions_that_of_the_kernel_module_counts(driver: Any, find: Find) -> None:
    driver.install(version="570.86.15")

    for version in (VERSION, "570.86.15"):
        found = find(version)
        assert (found.version, found.versions) == (version, ("570.86.15", VERSION))
        assert {name[0].rpartition(".so.")[2] for name in names(found).values()} == {version}


def test_of_two_versions_that_of_the_link_counts_where_no_kernel_module_tells(
    driver: Any, find: Find
) -> None:
    driver.install(version="570.86.15")
    assert find().version == "570.86.15"

    driver.install(version=VERSION)

    assert find().version == VERSION


def test_two_versions_that_nothing_tells_apart_are_none(driver: Any, find: Find) -> None:
    driver.install(version="570.86.15")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (driver.local / driver.libraries / name).unlink()

    found = find()

    assert (found.version, found.found, found.versions) == (None, (), ("570.86.15", VERSION))


def test_an_empty_root_and_one_that_does_not_exist_have_nothing(driver: Any, tmp_path: Path) -> None:
    for root in (tmp_path / "empty", tmp_path / "none"):
        if root.name == "empty":
            root.mkdir()
        driver.local = root
        found = find_libraries(Look(driver.root()), None)
        assert (found.found, found.missing()) == (
            (),
            ("libcuda.so.<version>", "libnvidia-ml.so.<version>"),
        )


BROKEN: dict[str, Callable[[Path], object]] = {
    "it leads to no file": lambda path: path.symlink_to("nowhere"),
    "it is no ELF file": lambda path: path.write_text("half"),
    "it is cut off": lambda path: path.write_bytes(shared_library("libx.so.1", "x86_64")[:100]),
    "it is no 64-bit little-endian library": lambda path: path.write_bytes(b"\x7fELF\1\1" + b"\0" * 60),
}


@pytest.mark.parametrize("reason", BROKEN)
def test_a_library_that_cannot_be_used_is_left_out_alone_with_the_reason(
    driver: Any, find: Find, reason: str
) -> None:
    BROKEN[reason](driver.local / driver.libraries / f"libnvidia-x.so.{VERSION}")

    found = find()

    assert found.problems == {f"/{driver.libraries}/libnvidia-x.so.{VERSION}": reason}
    assert set(names(found)) == {"libcuda", "libnvidia-ml"}


def test_links_that_go_in_circles_are_left_out(driver: Any, find: Find) -> None:
    libraries = driver.local / driver.libraries
    (libraries / f"libnvidia-a.so.{VERSION}").symlink_to(f"libnvidia-b.so.{VERSION}")
    (libraries / f"libnvidia-b.so.{VERSION}").symlink_to(f"libnvidia-a.so.{VERSION}")

    assert set(find().problems.values()) == {"it leads to no file"}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_of_libraries_for_two_machines_those_for_the_node_count(
    driver: Any, find: Find, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    for triplet in ("x86_64-linux-gnu", "aarch64-linux-gnu"):
        directory = driver.local / "usr/lib" / triplet
        directory.mkdir(exist_ok=True)
        for name in ("libcuda", "libnvidia-ml"):
            data = shared_library(f"{name}.so.1", triplet.removesuffix("-linux-gnu"))
            (directory / f"{name}.so.{VERSION}").write_bytes(data)

    found = find()

    (other,) = {"x86_64", "aarch64"} - {machine}
    assert {library.directory for library in found.found} == {f"/usr/lib/{machine}-linux-gnu"}
    assert found.problems == {
        f"/usr/lib/{other}-linux-gnu/{name}.so.{VERSION}": f"it is for {other}"
        for name in ("libcuda", "libnvidia-ml")
    }


def test_a_required_library_for_another_machine_than_the_node_is_missing(
    driver: Any, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    path = driver.local / driver.libraries / f"libcuda.so.{VERSION}"
    path.write_bytes(shared_library("libcuda.so.1", "aarch64"))

    found = find()

    assert found.missing() == (f"libcuda.so.{VERSION}",)
    assert found.problems == {f"/{driver.libraries}/libcuda.so.{VERSION}": "it is for aarch64"}


@pytest.mark.parametrize("name", [b"lib\xff", "lib\U0001f600".encode(), b"lib\n", b"lib,x", b"-lib"])
def test_a_file_that_no_driver_has_is_left_alone_whatever_its_ending(
    driver: Any, find: Find, name: bytes
) -> None:
    path = os.fsencode(driver.local / driver.libraries) + b"/" + name + f".so.{VERSION}".encode()
    Path(os.fsdecode(path)).write_bytes(shared_library("libx.so.1", "x86_64"))

    assert (set(names(find())), find().problems) == ({"libcuda", "libnvidia-ml"}, {})

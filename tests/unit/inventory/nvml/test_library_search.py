"""libnvidia-ml.so.1 under the driver roots that installers make."""

from pathlib import Path

import pytest

from dra_driver.inventory.nvml_library import LIBRARY, Library, find_libraries, known_roots, resolve_in_root


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def found(*roots: Path) -> list[Path]:
    return [library.path for library in find_libraries(roots)]


@pytest.mark.parametrize(
    "directory",
    [
        "usr/lib64",
        "usr/lib/x86_64-linux-gnu",
        "usr/lib/aarch64-linux-gnu",
        "usr/lib/x86_64-linux-gnu/nvidia/current",
        "lib64",
        "usr/lib",
        "usr/lib/wsl/lib",
        "usr/lib/wsl/drivers/nv_dispi.inf_amd64_0123456789abcdef",
        "run/opengl-driver/lib",
        "",
    ],
)
def test_the_library_is_found_where_distributions_put_it(tmp_path: Path, directory: str) -> None:
    path = put(tmp_path / directory / LIBRARY)
    assert found(tmp_path) == [path]


@pytest.mark.parametrize(
    ("place", "root"),
    [
        ("usr/lib/x86_64-linux-gnu", "."),
        ("run/nvidia/driver/usr/lib64", "run/nvidia/driver"),
        ("home/kubernetes/bin/nvidia/lib64", "home/kubernetes/bin/nvidia"),
        ("usr/local/glibc/usr/lib", "usr/local"),
    ],
    ids=["host", "driver container", "gke", "talos"],
)
def test_the_known_roots_are_tried(tmp_path: Path, place: str, root: str) -> None:
    path = put(tmp_path / place / LIBRARY)
    assert list(find_libraries(known_roots(tmp_path))) == [Library(path, tmp_path / root)]


def test_the_host_comes_before_other_roots(tmp_path: Path) -> None:
    host, container = (put(tmp_path / d / LIBRARY) for d in ("usr/lib64", "run/nvidia/driver/usr/lib64"))
    assert found(*known_roots(tmp_path)) == [host, container]


def test_links_are_followed_inside_the_root(tmp_path: Path) -> None:
    target = put(tmp_path / "opt/nvidia/libnvidia-ml.so.580.95.05")
    link = tmp_path / "usr/lib64" / LIBRARY
    link.parent.mkdir(parents=True)
    link.symlink_to("/opt/nvidia/libnvidia-ml.so.580.95.05")
    assert found(tmp_path) == [target]


def test_a_directory_that_is_a_link_gives_its_library_once(tmp_path: Path) -> None:
    path = put(tmp_path / "usr/lib" / LIBRARY)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "lib64").symlink_to("/usr/lib")
    assert found(tmp_path) == [path]


def test_a_root_without_the_soname_link_gives_the_versioned_file(tmp_path: Path) -> None:
    path = put(tmp_path / "usr/lib64/libnvidia-ml.so.580.95.05")
    put(tmp_path / "usr/lib64/libnvidia-ml.so.txt")
    assert found(tmp_path) == [path]


def test_links_that_dangle_or_go_in_circles_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64" / LIBRARY).symlink_to(LIBRARY)
    (tmp_path / "lib64").symlink_to("/gone")
    path = put(tmp_path / "usr/lib" / LIBRARY)
    assert found(tmp_path) == [path]


def test_a_root_that_is_not_there_yet_is_no_error(tmp_path: Path) -> None:
    assert found(tmp_path / "driver") == []


def test_a_link_cannot_leave_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "up").symlink_to("../../../etc/passwd")
    assert resolve_in_root(root, root / "up") == root / "etc/passwd"

"""Driver roots with something wrong: a sentence that names it, or all that is left, and never a write."""

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dra_driver.errors import HardwareError
from dra_driver.inventory.fake_elf import loader_cache, shared_library
from tests.integration.prepare.conftest import Host, discard

_NOBODY = 65534
_PLACE = "under /run/nvidia/driver on the node"
_FINISH = "finish the upgrade of the driver, or reboot the node"


@contextmanager
def as_nobody() -> Iterator[None]:
    """With the rights of another user on files, for this thread."""
    libc = ctypes.CDLL(None)
    if os.geteuid() == 0:
        libc.setfsuid(_NOBODY)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())


def unload(host: Host) -> None:
    """Nothing tells the version of a kernel module."""
    (host.path / "sys/module/nvidia/version").unlink()


def add_version(host: Host, version: str) -> None:
    for name in ("libcuda", "libnvidia-ml"):
        (host.libraries / f"{name}.so.{version}").write_bytes(shared_library(f"{name}.so.1", "x86_64"))


def replace(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def no_root(host: Host) -> None:
    shutil.rmtree(host.root)


def empty_root(host: Host) -> None:
    no_root(host)
    host.root.mkdir()


def file_as_root(host: Host) -> None:
    no_root(host)
    host.root.write_text("a file")


def looping_root(host: Host) -> None:
    no_root(host)
    host.root.symlink_to("driver")


def two_versions_without_kernel(host: Host) -> None:
    unload(host)
    add_version(host, "570.86.15")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (host.libraries / name).unlink()


def another_version_is_loaded(host: Host) -> None:
    (host.path / "sys/module/nvidia/version").write_text("570.86.15\n")


def broken_cuda(host: Host) -> None:
    replace(host.libraries / f"libcuda.so.{host.version}", "gone")


def looping_cuda(host: Host) -> None:
    replace(host.libraries / f"libcuda.so.{host.version}", "libcuda.so.1")


def looping_directory(host: Host) -> None:
    shutil.rmtree(host.libraries)
    host.libraries.symlink_to("x86_64-linux-gnu")


def cuda_is_cut_off(host: Host) -> None:
    path = host.libraries / f"libcuda.so.{host.version}"
    path.write_bytes(path.read_bytes()[:80])


def unreadable_cuda(host: Host) -> None:
    (host.libraries / f"libcuda.so.{host.version}").chmod(0)


def unreadable_directory(host: Host) -> None:
    host.libraries.chmod(0)


def only_in_a_cut_off_cache(host: Host) -> None:
    host.libraries.rename(host.root / "opt")
    cache = host.root / "etc/ld.so.cache"
    cache.write_bytes(loader_cache({"libcuda.so.1": "/opt/libcuda.so.1"}, "x86_64")[:-10])


def no_nodes(host: Host) -> None:
    for node in host.root.glob("dev/nvidia*"):
        node.unlink()


REFUSED: dict[Callable[[Host], None], str] = {
    no_root: f"libcuda.so.580.126.20 and libnvidia-ml.so.580.126.20 do not exist {_PLACE} (looked in usr/lib64,",
    empty_root: f"libcuda.so.580.126.20 and libnvidia-ml.so.580.126.20 do not exist {_PLACE} (looked in usr/lib64,",
    file_as_root: f"libcuda.so.580.126.20 and libnvidia-ml.so.580.126.20 do not exist {_PLACE} (looked in usr/lib64,",
    looping_root: f"libcuda.so.580.126.20 and libnvidia-ml.so.580.126.20 do not exist {_PLACE} (looked in usr/lib64,",
    two_versions_without_kernel: f"{_PLACE} is there in versions 570.86.15 and 580.126.20, and neither the kernel module",
    another_version_is_loaded: f"for the loaded kernel module {_PLACE}, where libraries of 580.126.20 are; {_FINISH}",
    broken_cuda: "/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.20: it leads to no file); install it anew",
    looping_cuda: "/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.20: it leads to no file); install it anew",
    looping_directory: f"libcuda.so.580.126.20 and libnvidia-ml.so.580.126.20 do not exist {_PLACE} (looked in usr/lib64,",
    cuda_is_cut_off: "/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.20: it is cut off); install it anew",
    unreadable_cuda: "libcuda.so.580.126.20: it cannot be read (Permission denied)); install it anew",
    unreadable_directory: f"libcuda.so.580.126.20 and libnvidia-ml.so.580.126.20 do not exist {_PLACE} (looked in usr/lib64,",
    only_in_a_cut_off_cache: f"do not exist {_PLACE} (looked in usr/lib64,",
    no_nodes: f"/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm do not exist {_PLACE}; wait until the NVIDIA driver is up",
}


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda spoil: spoil.__name__)
def test_is_refused_in_one_sentence_and_works_once_it_is_mended(
    host: Host, spoil: Callable[[Host], None]
) -> None:
    whole = host.path / "whole"
    shutil.copytree(host.root, whole, symlinks=True)
    version = (host.path / "sys/module/nvidia/version").read_text()
    spoil(host)
    engine, before = host.start(), host.rest()

    with as_nobody(), pytest.raises(HardwareError) as raised:
        host.prepare(engine)

    assert REFUSED[spoil] in str(raised.value)
    assert "\n" not in str(raised.value)
    assert ([], before) == (host.written(), host.rest())
    discard(host.root)
    whole.rename(host.root)
    (host.path / "sys/module/nvidia/version").write_text(version)
    host.prepare(engine)
    assert f"/usr/lib64/libcuda.so.{host.version}" in host.mounts()


def two_versions_and_the_kernels(host: Host) -> None:
    add_version(host, "570.86.15")
    replace(host.libraries / "libcuda.so.1", "libcuda.so.570.86.15")


def two_versions_and_the_links(host: Host) -> None:
    unload(host)
    add_version(host, "570.86.15")


def broken_optional_library(host: Host) -> None:
    replace(host.libraries / f"libnvidia-ngx.so.{host.version}", "gone")


def looping_optional_library(host: Host) -> None:
    replace(host.libraries / f"libnvidia-ngx.so.{host.version}", f"libnvidia-ngx.so.{host.version}")


def unreadable_optional_library(host: Host) -> None:
    (host.libraries / f"libnvidia-ngx.so.{host.version}").chmod(0)


def looping_directories(host: Host) -> None:
    for name in ("lib64", "glibc", "usr/local/bin", "usr/lib64"):
        (host.root / name).parent.mkdir(exist_ok=True)
        (host.root / name).symlink_to(Path(name).name)


def directories_that_go_up(host: Host) -> None:
    (host.root / "lib64").symlink_to("../../../../..")
    (host.root / "glibc").symlink_to("/")


def unreadable_directories(host: Host) -> None:
    for name in ("etc/vulkan/icd.d", "lib/firmware/nvidia", "usr/share/egl"):
        (host.root / name).chmod(0)


def unreadable_cache(host: Host) -> None:
    (host.root / "etc/ld.so.cache").chmod(0)


def cache_of_the_other_byte_order(host: Host) -> None:
    cache = host.root / "etc/ld.so.cache"
    data = cache.read_bytes()
    at = data.index(b"glibc-ld.so.cache1.1") + 20
    cache.write_bytes(data[:at] + data[at : at + 4][::-1] + data[at + 4 :])


def cache_that_is_cut_off(host: Host) -> None:
    cache = host.root / "etc/ld.so.cache"
    cache.write_bytes(cache.read_bytes()[:-100])


def cache_with_hostile_paths(host: Host) -> None:
    paths = {
        "libcuda.so.1": "/../../../../../etc/libcuda.so.1",
        "libnvidia-ml.so.1": "relative/libnvidia-ml.so.1",
    }
    (host.root / "etc/ld.so.cache").write_bytes(loader_cache(paths, "x86_64"))


def directory_in_place_of_a_program(host: Host) -> None:
    (host.root / "usr/bin/nvidia-debugdump").unlink()
    (host.root / "usr/bin/nvidia-debugdump").mkdir()


def unreadable_hook_program(host: Host) -> None:
    hook = host.path / "usr/bin/nvidia-cdi-hook"
    hook.parent.mkdir(parents=True)
    hook.write_bytes(b"create-symlinks update-ldcache")
    hook.chmod(0o111)


PASSED_OVER: dict[Callable[[Host], None], tuple[str, ...]] = {
    two_versions_and_the_kernels: (),
    two_versions_and_the_links: (),
    broken_optional_library: ("libnvidia-ngx",),
    looping_optional_library: ("libnvidia-ngx",),
    unreadable_optional_library: ("libnvidia-ngx",),
    looping_directories: (),
    directories_that_go_up: (),
    unreadable_directories: ("/etc/vulkan", "/lib/firmware", "egl_external_platform"),
    unreadable_cache: (),
    cache_of_the_other_byte_order: (),
    cache_that_is_cut_off: (),
    cache_with_hostile_paths: (),
    directory_in_place_of_a_program: ("nvidia-debugdump",),
    unreadable_hook_program: (),
}


@pytest.mark.parametrize("spoil", PASSED_OVER, ids=lambda spoil: spoil.__name__)
def test_is_passed_over_alone(host: Host, spoil: Callable[[Host], None]) -> None:
    host.prepare(host.start())
    whole = host.mounts()
    host.end()
    spoil(host)
    before = host.rest()

    with as_nobody():
        host.prepare(host.start())

    lost = PASSED_OVER[spoil]
    expected = {path: source for path, source in whole.items() if not any(part in path for part in lost)}
    assert expected == host.mounts()
    assert before == host.rest()

"""How libraries reach a container, with NVIDIA's hook program and without."""

from pathlib import Path, PurePosixPath

import pytest

from dra_driver.cdi.elf import Machine
from dra_driver.cdi.hook import HookProgram, find_hook
from dra_driver.cdi.injection import render_links, with_hooks, without_hooks
from dra_driver.cdi.libraries import Library
from dra_driver.cdi.look import Look
from dra_driver.cdi.root import Root
from dra_driver.cdi.spec import ContainerEdits, Hook

ALL = frozenset(
    {
        "create-symlinks",
        "update-ldcache",
        "enable-cuda-compat",
        "disable-device-node-modification",
        "update-application-profile",
    }
)
CUDA = Library(
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05",
    "/usr/lib/x86_64-linux-gnu",
    ("libcuda.so.580.95.05", "libcuda.so.1", "libcuda.so"),
    Machine.X86_64,
)
VDPAU = Library(
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/vdpau/libvdpau_nvidia.so.580.95.05",
    "/usr/lib/x86_64-linux-gnu",
    ("vdpau/libvdpau_nvidia.so.580.95.05", "vdpau/libvdpau_nvidia.so.1"),
    Machine.X86_64,
)
GLX = Library(
    "/opt/libGLX_nvidia.so.580.95.05",
    "/opt",
    ("libGLX_nvidia.so.580.95.05", "libGLX_nvidia.so.0", "libGLX_indirect.so.0"),
    Machine.X86_64,
)
ALLOCATOR = Library(
    "/opt/libnvidia-allocator.so.580.95.05",
    "/opt",
    ("libnvidia-allocator.so.580.95.05", "libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so"),
    Machine.X86_64,
)


def program(*commands: str) -> HookProgram:
    return HookProgram("/usr/bin/nvidia-cdi-hook", ("/usr/bin/nvidia-cdi-hook",), frozenset(commands) or ALL)


def mounted(edits: ContainerEdits) -> dict[str, str]:
    return {mount.container_path: mount.host_path for mount in edits.mounts}


def hook(*args: str) -> Hook:
    return Hook(
        "createContainer",
        "/usr/bin/nvidia-cdi-hook",
        ("nvidia-cdi-hook", *args),
        env=("NVIDIA_CTK_DEBUG=false",),
    )


def test_with_hooks_a_library_is_mounted_where_it_is_and_the_hooks_do_the_rest() -> None:
    edits = with_hooks([CUDA, VDPAU], "580.95.05", program())

    directory = "/usr/lib/x86_64-linux-gnu"
    assert mounted(edits) == {
        f"{directory}/libcuda.so.580.95.05": CUDA.host_path,
        f"{directory}/vdpau/libvdpau_nvidia.so.580.95.05": VDPAU.host_path,
    }
    assert edits.hooks == (
        hook(
            "create-symlinks",
            *("--link", f"libcuda.so.580.95.05::{directory}/libcuda.so.1"),
            *("--link", f"libcuda.so.1::{directory}/libcuda.so"),
            *("--link", f"libvdpau_nvidia.so.580.95.05::{directory}/vdpau/libvdpau_nvidia.so.1"),
        ),
        hook("enable-cuda-compat", "--host-driver-version=580.95.05"),
        hook("update-ldcache", "--folder", directory, "--folder", f"{directory}/vdpau"),
        hook("disable-device-node-modification"),
        hook("update-application-profile"),
    )
    assert edits.env == (f"NVIDIA_CTK_LIBCUDA_DIR={directory}",)


def test_links_with_other_names_lead_to_the_file_of_the_library() -> None:
    (links, *_) = with_hooks([GLX, ALLOCATOR], "580.95.05", program()).hooks

    assert [arg for arg in links.args if "indirect" in arg or "gbm" in arg] == [
        "libGLX_nvidia.so.580.95.05::/opt/libGLX_indirect.so.0",
        "../libnvidia-allocator.so.1::/opt/gbm/nvidia-drm_gbm.so",
    ]


def test_an_older_program_is_not_asked_for_what_it_cannot_do() -> None:
    edits = with_hooks([CUDA], "580.95.05", program("create-symlinks", "update-ldcache"))

    assert [hook.args[1] for hook in edits.hooks] == ["create-symlinks", "update-ldcache"]


def test_libraries_of_a_root_without_directories_go_where_loaders_look() -> None:
    flat = Library("/home/x/libcuda.so.1.2", "", ("libcuda.so.1.2",), Machine.X86_64)

    assert mounted(with_hooks([flat], "1.2", program())) == {"/usr/lib64/libcuda.so.1.2": flat.host_path}


def test_without_hooks_every_name_is_mounted_in_both_places() -> None:
    edits = without_hooks([CUDA, VDPAU])

    assert mounted(edits) == {
        f"{directory}/{name}": library.host_path
        for library in (CUDA, VDPAU)
        for directory in ("/usr/lib64", "/usr/lib/x86_64-linux-gnu")
        for name in library.names
    }
    assert (edits.hooks, edits.env) == ((), ())


def test_without_hooks_the_directory_is_that_of_the_machine() -> None:
    arm = Library("/lib/libcuda.so.1.2", "/lib", ("libcuda.so.1.2",), Machine.AARCH64)

    assert set(mounted(without_hooks([arm]))) == {
        "/usr/lib64/libcuda.so.1.2",
        "/usr/lib/aarch64-linux-gnu/libcuda.so.1.2",
    }


def test_drm_nodes_get_links_by_place() -> None:
    assert render_links(program(), "0000:65:00.0", ["card1", "renderD129"]) == hook(
        "create-symlinks",
        *("--link", "../card1::/dev/dri/by-path/pci-0000:65:00.0-card"),
        *("--link", "../renderD129::/dev/dri/by-path/pci-0000:65:00.0-render"),
    )


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return tmp_path / "host"


def install(host: Path, path: str, content: bytes) -> None:
    file = Path(f"{host}{path}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(0o755)


def find(host: Path, path: str | None = None) -> HookProgram | None:
    return find_hook(Look(Root(PurePosixPath("/"), host)), path)


CONTENT = b"\x7fELF create-symlinks \0 update-ldcache \0 enable-cuda-compat \0 update-application-profile"


@pytest.mark.parametrize("path", ["/usr/bin/nvidia-cdi-hook", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"])
def test_the_program_is_found_in_its_usual_places_and_asked_what_it_can_do(host: Path, path: str) -> None:
    install(host, path, CONTENT)

    commands = ALL - {"disable-device-node-modification"}
    assert find(host) == HookProgram(path, (path,), commands)


def test_a_path_that_is_given_is_the_only_one_looked_at(host: Path) -> None:
    install(host, "/usr/bin/nvidia-cdi-hook", CONTENT)
    install(host, "/opt/hook", CONTENT)

    found = find(host, "/opt/hook")
    assert (found and found.path, find(host, "/opt/none")) == ("/opt/hook", None)


def test_a_link_on_the_host_is_followed_there_and_named_as_it_is(host: Path) -> None:
    install(host, "/opt/hook", CONTENT)
    (host / "usr/bin").mkdir(parents=True)
    (host / "usr/bin/nvidia-cdi-hook").symlink_to("/opt/hook")

    found = find(host)
    assert found is not None
    assert (found.path, found.files) == ("/usr/bin/nvidia-cdi-hook", ("/opt/hook",))


def test_the_gpu_operators_wrapper_is_named_and_the_program_behind_it_asked(host: Path) -> None:
    path = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"
    install(host, path, b"\x7fELF wrapper of create-symlinks")
    install(host, f"{path}.real", CONTENT)

    found = find(host)
    assert found is not None
    assert (found.path, found.files) == (path, (path, f"{path}.real"))
    assert "enable-cuda-compat" in found.commands


def test_a_wrapper_of_a_program_that_is_too_old_is_passed_over(host: Path) -> None:
    install(host, "/usr/local/nvidia/toolkit/nvidia-cdi-hook", CONTENT)
    install(host, "/usr/local/nvidia/toolkit/nvidia-cdi-hook.real", b"\x7fELF create-symlinks")

    assert find(host) is None


@pytest.mark.parametrize("name", ["nvidia-cdi-hook", "nvidia-cdi-hook.real"])
def test_a_program_that_may_not_be_run_is_passed_over(host: Path, name: str) -> None:
    for file in ("nvidia-cdi-hook", "nvidia-cdi-hook.real"):
        install(host, f"/usr/bin/{file}", CONTENT)
    (host / "usr/bin" / name).chmod(0o644)

    assert find(host) is None


@pytest.mark.parametrize("path", [None, "/usr/bin/nvidia-cdi-hook"])
def test_below_a_root_that_is_not_the_whole_host_the_spec_has_the_hosts_path(
    host: Path, path: str | None
) -> None:
    install(host, "/usr/bin/nvidia-cdi-hook", CONTENT)

    found = find_hook(Look(Root(PurePosixPath("/srv/node"), host)), path)

    assert found is not None
    assert found.hook("update-ldcache").path == "/srv/node/usr/bin/nvidia-cdi-hook"


@pytest.mark.parametrize("content", [b"", b"update-ldcache", b"#!/bin/sh\nexit 0\n"])
def test_a_program_without_the_commands_that_are_needed_is_passed_over(host: Path, content: bytes) -> None:
    install(host, "/usr/bin/nvidia-cdi-hook", content)

    assert find(host) is None


def test_a_command_across_two_reads_is_found(host: Path) -> None:
    padding = b"x" * ((1 << 20) - 5)
    install(host, "/usr/bin/nvidia-cdi-hook", padding + CONTENT)

    assert find(host) is not None

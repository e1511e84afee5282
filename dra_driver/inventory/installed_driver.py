"""What an installer of NVIDIA's driver puts on a simulated node: libraries, firmware, programs, configuration.

The set is that of R580 from NVIDIA's packages for a Debian-like system. Contents are as short as what reads them
allows.
"""

from collections.abc import Iterable, Iterator
from importlib import resources

from dra_driver.inventory import fake_elf
from dra_driver.inventory.model import Gpu
from dra_driver.inventory.root_entries import Entry, File, Layout, Symlink

# Library -> its soname's number; None: loaded by its full name only. The compute and graphics set of R580.
_SONAMES: dict[str, int | None] = {
    "libcuda": 1,
    "libcudadebugger": 1,
    "libnvcuvid": 1,
    "libnvidia-allocator": 1,
    "libnvidia-cfg": 1,
    "libnvidia-encode": 1,
    "libnvidia-fbc": 1,
    "libnvidia-ml": 1,
    "libnvidia-ngx": 1,
    "libnvidia-nvvm": 4,
    "libnvidia-opencl": 1,
    "libnvidia-opticalflow": 1,
    "libnvidia-ptxjitcompiler": 1,
    "libnvidia-sandboxutils": 1,
    "libnvidia-vksc-core": 1,
    "libnvoptix": 1,
    "libEGL_nvidia": 0,
    "libGLESv1_CM_nvidia": 1,
    "libGLESv2_nvidia": 2,
    "libGLX_nvidia": 0,
    "vdpau/libvdpau_nvidia": 1,
    "libnvidia-eglcore": None,
    "libnvidia-glcore": None,
    "libnvidia-glsi": None,
    "libnvidia-glvkspirv": None,
    "libnvidia-gpucomp": None,
    "libnvidia-pkcs11": None,
    "libnvidia-pkcs11-openssl3": None,
    "libnvidia-rtcore": None,
    "libnvidia-tls": None,
}
# Parts of the driver with versions of their own.
_OTHER_LIBRARIES = {"libnvidia-egl-gbm": "1.1.2", "libnvidia-egl-wayland": "1.1.20"}
# Those that have a plain .so beside the soname.
_DEVELOPMENT_LINKS = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
_PROGRAMS = ("nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-server")
_FAKES = resources.files("dra_driver.inventory") / "fake_programs"
_FIRMWARE = ("gsp_ga10x.bin", "gsp_tu10x.bin")
_HOOK_COMMANDS = (
    "create-symlinks",
    "enable-cuda-compat",
    "update-ldcache",
    "disable-device-node-modification",
)
_EGL = '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}'
_EGL_GBM = '{"file_format_version": "1.0.0", "ICD": {"library_path": "libnvidia-egl-gbm.so.1"}}'
_VULKAN = '{"file_format_version": "1.0.1", "ICD": {"library_path": "libGLX_nvidia.so.0", "api_version": "1.4.312"}}'
_CONFIGURATION = {
    "etc/OpenCL/vendors/nvidia.icd": "libnvidia-opencl.so.1",
    "etc/vulkan/icd.d/nvidia_icd.json": _VULKAN,
    "usr/share/glvnd/egl_vendor.d/10_nvidia.json": _EGL,
    "usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json": _EGL_GBM,
    "usr/share/X11/xorg.conf.d/nvidia-drm-outputclass.conf": "# X server configuration of a simulated driver",
    "usr/share/nvidia/nvoptix.bin": "OptiX data of a simulated driver",
}


def installed_driver(
    version: str, machine: str, gpus: Iterable[Gpu], layout: Layout
) -> Iterator[tuple[str, Entry]]:
    """The installed files of a driver for `machine` ("x86_64", "aarch64"), by path below the root."""
    directory = f"usr/lib/{fake_elf.TRIPLETS[machine]}"
    yield from _libraries(directory, version, machine)
    for name in _FIRMWARE:
        yield f"lib/firmware/nvidia/{version}/{name}", File(b"firmware of a simulated driver\n")
    for path, text in _CONFIGURATION.items():
        yield path, File(f"{text}\n".encode())
    yield from _programs(gpus)
    if layout.cdi_hook:
        yield "usr/bin/nvidia-cdi-hook", _program(f"# {', '.join(_HOOK_COMMANDS)}", "exit 0")
    if layout.loader_cache:
        sonames = [f"{name}.so.{number}" for name, number in _SONAMES.items() if number is not None]
        paths = {name: f"/{directory}/{name}" for name in sonames if "/" not in name}
        yield "etc/ld.so.cache", File(fake_elf.loader_cache(paths, machine))


def _libraries(directory: str, version: str, machine: str) -> Iterator[tuple[str, Entry]]:
    for name, number in _SONAMES.items():
        base = name.rpartition("/")[2]
        real = f"{base}.so.{version}"
        soname = real if number is None else f"{base}.so.{number}"
        yield f"{directory}/{name}.so.{version}", File(fake_elf.shared_library(soname, machine))
        if number is not None:
            yield f"{directory}/{name}.so.{number}", Symlink(real)
        if name in _DEVELOPMENT_LINKS:
            yield f"{directory}/{name}.so", Symlink(soname)
    for name, its_version in _OTHER_LIBRARIES.items():
        yield f"{directory}/{name}.so.{its_version}", File(fake_elf.shared_library(f"{name}.so.1", machine))
        yield f"{directory}/{name}.so.1", Symlink(f"{name}.so.{its_version}")
    yield f"{directory}/gbm/nvidia-drm_gbm.so", Symlink(f"../libnvidia-allocator.so.{version}")


def _programs(gpus: Iterable[Gpu]) -> Iterator[tuple[str, Entry]]:
    """Those that the plugin runs behave like the real ones; the others say what they are."""
    known = [
        f"{gpu.minor}|{gpu.uuid}|GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})"
        for gpu in gpus
        if gpu.minor is not None
    ]
    smi = (_FAKES / "nvidia-smi").read_text().replace("@GPUS@", "\n".join(known).replace("'", "'\\''"))
    yield "usr/bin/nvidia-smi", File(smi.encode(), 0o755)
    control = (_FAKES / "nvidia-cuda-mps-control").read_bytes()
    yield "usr/bin/nvidia-cuda-mps-control", File(control, 0o755)
    for name in _PROGRAMS:
        yield f"usr/bin/{name}", _program(f"echo '{name}: this node simulates its GPUs' >&2", "exit 1")


def _program(*lines: str) -> File:
    return File("\n".join(["#!/bin/sh", *lines, ""]).encode(), 0o755)

"""Files that make other software find the driver: Vulkan, EGL, GBM, OpenCL and the X server.

They name libraries by soname, so they are right in any container that has these; each keeps its path.
"""

import fnmatch
from collections.abc import Iterator

from dra_driver.cdi.look import Look
from dra_driver.cdi.mounts import HostFile

_BASES = ("/etc", "/usr/share", "/usr/local/share")
_FILES = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/*nvidia*.json",
    "vulkan/icd.d/nvidia_icd*.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
    "vulkansc/icd.d/nvidia_icd_vksc.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
    "OpenCL/vendors/nvidia.icd",
)
_X_MODULES = ("/usr/lib/xorg/modules", "/usr/lib64/xorg/modules", "/usr/lib/x86_64-linux-gnu/nvidia/xorg")


def find_configuration(look: Look, version: str) -> Iterator[HostFile]:
    """The configuration under the root, and the X server's modules of this driver version."""
    for base in _BASES:
        if look.directory(base) is None:
            continue
        for pattern in _FILES:
            directory, _, name = f"{base}/{pattern}".rpartition("/")
            names = sorted(fnmatch.filter(look.names(directory), name)) if "*" in name else [name]
            for found in names:
                yield from _file(look, f"{directory}/{found}", f"{directory}/{found}")
    for modules in _X_MODULES:
        if look.directory(modules) is None:
            continue
        yield from _file(look, f"{modules}/drivers/nvidia_drv.so", f"{modules}/drivers/nvidia_drv.so")
        server = f"{modules}/extensions/libglxserver_nvidia.so"
        for name in (f"{server}.{version}", server):
            yield from _file(look, f"{server}.{version}", name)


def _file(look: Look, path: str, container_path: str) -> Iterator[HostFile]:
    real = look.file(path)
    if real is not None:
        yield HostFile(look.host_path(real), container_path)

"""Files that make other software find the driver: Vulkan, EGL, GBM, OpenCL and the X server.

They name libraries by soname, so they are right in any container that has these; each keeps its path.
"""

import fnmatch
from collections.abc import Iterator

from dra_driver.cdi.look import Look
from dra_driver.cdi.mounts import HostFile

_VULKAN = (
    "vulkan/icd.d/nvidia_icd*.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
    "vulkansc/icd.d/nvidia_icd_vksc.json",
)
_FILES = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/*nvidia*.json",
    *_VULKAN,
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
    "OpenCL/vendors/nvidia.icd",
)
# Directory below the root, the same in containers, and what is looked for there.
_PLACES = (
    *((directory, directory, _FILES) for directory in ("/etc", "/usr/share", "/usr/local/share")),
    ("", "/etc", _VULKAN),  # GKE has it beside lib64 and bin, where no program of a container looks
)
_X_MODULES = (
    *(
        f"/usr/{lib}/xorg/modules{updates}/{kind}"
        for lib in ("lib", "lib64")
        for updates in ("", "/updates")
        for kind in ("drivers", "extensions")
    ),
    "/usr/lib/x86_64-linux-gnu/nvidia/xorg",
    "/usr/lib/aarch64-linux-gnu/nvidia/xorg",
)


def find_configuration(look: Look, version: str) -> Iterator[HostFile]:
    """The configuration under the root, and the X server's modules of this driver version."""
    for base, container_base, patterns in _PLACES:
        for pattern in patterns:
            directory, _, name = f"/{pattern}".rpartition("/")
            for found in sorted(fnmatch.filter(look.names(f"{base}{directory}"), name)):
                yield from _file(look, f"{base}{directory}/{found}", f"{container_base}{directory}/{found}")
    for modules in _X_MODULES:
        yield from _file(look, f"{modules}/nvidia_drv.so", f"{modules}/nvidia_drv.so")
        server = f"{modules}/libglxserver_nvidia.so"
        for name in (f"{server}.{version}", server):
            yield from _file(look, f"{server}.{version}", name)


def _file(look: Look, path: str, container_path: str) -> Iterator[HostFile]:
    real = look.file(path)
    if real is not None:
        yield HostFile(look.host_path(real), container_path)

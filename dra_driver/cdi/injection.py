"""How a container gets the driver's libraries: with NVIDIA's hook program, or by mounts alone.

With hooks, a library is mounted at its path in the driver root, and the hooks make the links and the loader's cache
in the container: right in any image, whatever its loader's directories.

Without, nothing can run in the container before its own program does, so each library is mounted under every name
that programs ask for, in both places where a loader looks without a cache: /usr/lib64 (RHEL, SUSE) and
/usr/lib/<triplet> (Debian, Ubuntu). LD_LIBRARY_PATH stays the image's: CDI could only replace it, and the image's
own libraries would be lost. What this cannot do: images with another loader (musl), links in /dev/dri/by-path,
CUDA's forward compatibility.
"""

from collections.abc import Iterable

from dra_driver.cdi.hook import HookProgram
from dra_driver.cdi.libraries import Library
from dra_driver.cdi.mounts import HostFile
from dra_driver.cdi.spec import ContainerEdits, Hook

_FLAT = "/usr/lib64"  # for a root that has its libraries in no directory


def with_hooks(libraries: Iterable[Library], version: str, hook: HookProgram) -> ContainerEdits:
    """The libraries at their own paths, and the hooks that make them known."""
    libraries = tuple(libraries)
    links: list[str] = []
    folders: dict[str, None] = {}
    mounts = []
    for library in libraries:
        base = library.directory or _FLAT
        file, *others = library.names
        mounts.append(HostFile(library.host_path, f"{base}/{file}").mount())
        folders[f"{base}/{file}".rpartition("/")[0]] = None
        for name in others:
            links += ["--link", f"{_target(name, library)}::{base}/{name}"]
    hooks = [hook.hook("create-symlinks", *links)] if links else []
    if "enable-cuda-compat" in hook.commands:
        hooks.append(hook.hook("enable-cuda-compat", f"--host-driver-version={version}"))
    folder_arguments = [argument for folder in folders for argument in ("--folder", folder)]
    hooks.append(hook.hook("update-ldcache", *folder_arguments))
    last = ("disable-device-node-modification", "update-application-profile")
    hooks += [hook.hook(command) for command in last if command in hook.commands]
    cuda = dict.fromkeys(library.directory or _FLAT for library in libraries if library.stem == "libcuda")
    env = (f"NVIDIA_CTK_LIBCUDA_DIR={':'.join(cuda)}",)
    return ContainerEdits(env=env, mounts=tuple(mounts), hooks=tuple(hooks))


def _target(name: str, library: Library) -> str:
    """What a link of the library leads to, seen from the link: `libcuda.so` to `libcuda.so.1`, that to the file."""
    file, *others = library.names
    soname = others[0] if others else file
    target = (soname if name != soname and name.endswith(".so") else file).rpartition("/")[2]
    return f"../{target}" if name.startswith("gbm/") else target


def without_hooks(libraries: Iterable[Library]) -> ContainerEdits:
    """The libraries under all their names, in both directories."""
    mounts = (
        HostFile(library.host_path, f"{directory}/{name}").mount()
        for library in libraries
        for directory in ("/usr/lib64", f"/usr/lib/{library.machine.triplet}")
        for name in library.names
    )
    return ContainerEdits(mounts=tuple(mounts))


def render_links(hook: HookProgram, pci_address: str, drm_nodes: Iterable[str]) -> Hook:
    """The links that name a GPU's DRM nodes by its place, which some renderers open."""
    arguments = []
    for node in drm_nodes:
        kind = "render" if node.startswith("render") else "card"
        arguments += ["--link", f"../{node}::/dev/dri/by-path/pci-{pci_address}-{kind}"]
    return hook.hook("create-symlinks", *arguments)

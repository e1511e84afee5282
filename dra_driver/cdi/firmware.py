"""The GSP's firmware, which newer libraries look for inside the container too."""

import fnmatch
import os

from dra_driver.cdi.look import Look
from dra_driver.cdi.mounts import HostFile


def find_firmware(look: Look, version: str, first: str | None) -> tuple[HostFile, ...]:
    """The firmware of this driver version in the first directory that has it, in the kernel's order.

    `first` is the host directory that the kernel was told to look at before all others.
    """
    release = os.uname().release
    directories = [f"/lib/firmware/{name}" for name in (f"updates/{release}", "updates", release)]
    if first is not None:
        directories.insert(0, _below_root(look, first))
    for base in (*directories, "/lib/firmware"):
        directory = f"{base}/nvidia/{version}"
        found = [
            HostFile(look.host_path(real), f"/lib/firmware/nvidia/{version}/{name}")
            for name in sorted(fnmatch.filter(look.names(directory), "gsp*.bin"))
            if (real := look.file(f"{directory}/{name}"))
        ]
        if found:
            return tuple(found)
    return ()


def _below_root(look: Look, host_directory: str) -> str:
    """The kernel's own path is the host's; a driver container sets it to a directory of its root."""
    root = str(look.root.host)
    if root != "/" and host_directory.startswith(f"{root}/"):
        return host_directory.removeprefix(root).rstrip("/")
    return host_directory.rstrip("/")

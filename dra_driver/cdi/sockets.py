"""Sockets of the driver's daemons, for containers that talk to them.

An MPS daemon has its pipes below /tmp, where everybody may make what they like, and containers write to what is mounted.
A link there to /etc would give a container /etc, and another user's directory may become one before the container
starts. So only a directory of that very name is taken, which belongs to root or to who the plugin runs as.
"""

import os
from collections.abc import Iterator

from dra_driver.cdi.look import Look
from dra_driver.cdi.mounts import HostFile

_SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
# The pipes of an MPS daemon that somebody started on the host.
_TMP, _MPS = "/tmp", "nvidia-mps"


def find_sockets(looks: tuple[Look, ...]) -> Iterator[HostFile]:
    """Sockets under the first root that has them: daemons run in the driver's container, or on the host."""
    for path in _SOCKETS:
        for look in looks:
            real = look.socket(path)
            if real is not None:
                yield HostFile(look.host_path(real), path)
                break
    for look in looks:
        real = _pipes(look)
        if real is not None:
            yield HostFile(look.host_path(real), f"{_TMP}/{_MPS}")
            break


def _pipes(look: Look) -> str | None:
    real = look.directory(f"{_TMP}/{_MPS}")
    if real is None or real != f"{look.real(_TMP)}/{_MPS}":
        return None
    try:
        owner = os.lstat(look.local_path(real)).st_uid
    except OSError:  # it went meanwhile
        return None
    return real if owner in {0, os.geteuid()} else None

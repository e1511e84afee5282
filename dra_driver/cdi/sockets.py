"""Sockets of the driver's daemons, for containers that talk to them."""

from collections.abc import Iterator

from dra_driver.cdi.look import Look
from dra_driver.cdi.mounts import HostFile

_SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
# The pipes of an MPS daemon that somebody started on the host.
_MPS = "/tmp/nvidia-mps"


def find_sockets(looks: tuple[Look, ...]) -> Iterator[HostFile]:
    """Sockets under the first root that has them: daemons run in the driver's container, or on the host."""
    for path in _SOCKETS:
        for look in looks:
            real = look.socket(path)
            if real is not None:
                yield HostFile(look.host_path(real), path)
                break
    for look in looks:
        real = look.directory(_MPS)
        if real is not None:
            yield HostFile(look.host_path(real), _MPS)
            break

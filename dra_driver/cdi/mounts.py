"""Bind mounts of the driver's files, with the options that NVIDIA's toolkit gives them."""

from dataclasses import dataclass

from dra_driver.cdi.spec import Mount

_FILE_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
# A socket on a read-only mount takes no connections on some kernels.
_SOCKET_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file of the host, and what containers shall call it."""

    host_path: str
    container_path: str

    def mount(self) -> Mount:
        return Mount(self.host_path, self.container_path, _FILE_OPTIONS)

    def socket_mount(self) -> Mount:
        return Mount(self.host_path, self.container_path, _SOCKET_OPTIONS)

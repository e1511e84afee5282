"""The driver's programs: nvidia-smi, the MPS control, and what belongs to them."""

from collections.abc import Iterator

from dra_driver.cdi.look import Look
from dra_driver.cdi.mounts import HostFile

PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
    "nvidia-xconfig",
)
_DIRECTORIES = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/run/current-system/sw/bin")


def find_programs(look: Look) -> Iterator[HostFile]:
    """The programs under the root, for /usr/bin: images have that on their PATH, whatever the root's own layout."""
    directories = {
        real: directory for directory in reversed(_DIRECTORIES) if (real := look.directory(directory))
    }
    for name in PROGRAMS:
        for directory in reversed(directories):
            real = look.file(f"{directory}/{name}")
            if real is not None:
                yield HostFile(look.host_path(real), f"/usr/bin/{name}")
                break

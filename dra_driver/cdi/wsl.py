"""GPUs under WSL2: one node for all of them, and the driver of the Windows host below /usr/lib/wsl.

The node `/dev/dxg` opens every GPU of the machine, so a claim there gets all of them: claims share, and nothing
keeps them apart. The libraries are Windows' own; `lib/` has those that programs load, which find the rest below
`drivers/` by its path. So the whole directory is mounted where it is, and the libraries of `lib/` under their names
into both places where loaders look (see `injection`; NVIDIA's hooks are not used).
"""

from dra_driver.cdi.elf import Machine, read_elf
from dra_driver.cdi.injection import without_hooks
from dra_driver.cdi.libraries import Library
from dra_driver.cdi.look import Look
from dra_driver.cdi.mounts import HostFile
from dra_driver.cdi.root import Root
from dra_driver.cdi.spec import ContainerEdits
from dra_driver.devices.model import Target
from dra_driver.errors import HardwareError
from dra_driver.inventory.model import Gpu

NODE = "/dev/dxg"
_DIRECTORY = "/usr/lib/wsl"
_LIBRARIES = f"{_DIRECTORY}/lib"
_REQUIRED = ("libcuda.so.1", "libdxcore.so", "libnvidia-ml.so.1")


def is_wsl(host: Root) -> bool:
    """Whether the GPUs of a host without an NVIDIA kernel module are those of a Windows host."""
    return host.has(NODE)


class WslEdits:
    """`NodeEdits` under WSL2; HardwareError where the node is none."""

    whole = True

    def __init__(self, host: Root, common: ContainerEdits) -> None:
        self._host = host
        self.common = common

    def device(self, target: Target, gpu: Gpu, *, admin_access: bool = False) -> ContainerEdits:  # noqa: ARG002 - the protocol's
        found = self._host.find_node(NODE)
        if found is None:
            raise HardwareError(
                f"GPU {gpu.uuid} cannot be given to a container: {NODE} is no device node on the node"
            )
        return ContainerEdits(device_nodes=(self._host.node(NODE, found),))


def common_edits(host: Root) -> ContainerEdits:
    """Windows' driver; HardwareError where it is not whole."""
    look = Look(host)
    libraries = [
        Library(look.host_path(real), _LIBRARIES, (name,), machine)
        for name in sorted(look.names(_LIBRARIES))
        if ".so" in name and (real := look.file(f"{_LIBRARIES}/{name}")) and (machine := _machine(look, real))
    ]
    found = {library.names[0] for library in libraries}
    missing = [name for name in _REQUIRED if name not in found]
    if missing:
        raise HardwareError(
            f"no {' and no '.join(missing)} can be read in {_LIBRARIES} on the node; "
            "install the NVIDIA driver on its Windows host"
        )
    directory = look.real(_DIRECTORY)
    assert directory is not None  # it has a file
    mounts = [HostFile(look.host_path(directory), _DIRECTORY).mount()]
    program = look.file(f"{_LIBRARIES}/nvidia-smi")
    if program is not None:
        mounts.append(HostFile(look.host_path(program), "/usr/bin/nvidia-smi").mount())
    return ContainerEdits(mounts=tuple(mounts)) + without_hooks(libraries)


def _machine(look: Look, real: str) -> Machine | None:
    try:
        return read_elf(look.local_path(real)).machine
    except (OSError, ValueError):
        return None  # a text beside the libraries

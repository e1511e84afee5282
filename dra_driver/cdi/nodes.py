"""The device nodes of containers: those of any CUDA program, those of a GPU, those of a MIG device.

Nodes are looked up anew with each look at the node, of which Prepares at the same moment share one (see `edits`). A spec
made from an old look is how Pods started without a GPU on nodes whose driver came up late, and a handful of stats cost
less than a cache that must know when it is wrong.

A GPU is handed out only if the nodes that any CUDA program opens are there, and are those of the driver that is loaded
now. A node outlives its kernel module: after a reload the numbers are others, and what was left behind leads nowhere, or
to another driver. Of the nodes that not every program needs, such ones are left out.
"""

import os
from collections.abc import Mapping
from enum import Enum

from dra_driver.cdi.kernel import Kernel
from dra_driver.cdi.root import Root, is_restricted_to_group
from dra_driver.cdi.spec import ContainerEdits, DeviceNode
from dra_driver.devices.model import Target
from dra_driver.errors import HardwareError
from dra_driver.inventory.model import Gpu, MigDevice, RemoteType

# Opened by every CUDA program, whatever GPU it uses.
_REQUIRED = ("/dev/nvidiactl", "/dev/nvidia-uvm")
# Profilers and graphics; absent where their kernel module is not loaded.
_OPTIONAL = ("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_SWITCH = "nvidia-nvswitch"
# What /proc/devices calls their drivers, by how a path begins; older releases had one name for all of the last.
_DRIVERS = {
    "/dev/nvidia-uvm": ("nvidia-uvm",),
    "/dev/nvidia-nvswitch": ("nvidia-nvswitch",),
    "/dev/nvidia": ("nvidia", "nvidia-frontend"),
}


class _Problem(Enum):
    """What is wrong with a node, said of one and of several."""

    MISSING = ("does not exist", "do not exist")
    NO_NODE = ("is no device node", "are no device nodes")
    STALE = ("has not the numbers of the loaded driver", "have not the numbers of the loaded driver")
    UNLOADED = ("is of a kernel module that is not loaded", "are of kernel modules that are not loaded")


class DeviceNodes:
    """The nodes below `dev_root`, numbered as `kernel` says; those that do not depend on the GPU as they are now."""

    def __init__(self, dev_root: Root, kernel: Kernel) -> None:
        self.root = dev_root
        self._kernel = kernel
        self._control = {path: dev_root.find_node(path) for path in _REQUIRED + _OPTIONAL}
        self.any = any(found is not None for found in self._control.values())
        self._majors = kernel.majors() if dev_root.nodes.proves else {}
        self._control_problems = [
            (path, problem) for path in _REQUIRED if (problem := self._problem(path, self._control[path]))
        ]
        self.whole = not self._control_problems
        self.control = self._edits(self._current(self._control))

    def gpu(self, gpu: Gpu, minor: int) -> ContainerEdits:
        """The node of a physical GPU; HardwareError where it, or a control node, is missing or of an old driver.

        `minor` is its number when the hardware was last looked at: a reload of the driver may number GPUs anew, and
        would give the container another one.
        """
        now = self._kernel.minor(gpu.pci_address)
        if now is not None and now != minor:
            raise HardwareError(
                f"GPU {gpu.uuid} cannot be given to a container: it is /dev/nvidia{now} on the node now, and was "
                f"/dev/nvidia{minor} when its hardware was last looked at; wait until that is looked at again"
            )
        path = f"/dev/nvidia{minor}"
        found = self.root.find_node(path)
        problem = self._problem(path, found, minor)
        problems = [(path, problem)] if problem else []
        problems += self._control_problems
        if problems:
            raise HardwareError(self._sentence(gpu, problems))
        return self._edits({path: found})

    def drm(self, gpu: Gpu) -> tuple[tuple[str, ...], ContainerEdits]:
        """The nodes below /dev/dri of a GPU that exist, and their names there."""
        names = self._kernel.drm_nodes(gpu.pci_address)
        found = {f"/dev/dri/{name}": self.root.find_node(f"/dev/dri/{name}") for name in names}
        return tuple(name for name in names if found[f"/dev/dri/{name}"] is not None), self._edits(found)

    def capabilities(self, target: Target, gpu: Gpu, minor: int) -> ContainerEdits:
        """The two nodes that open a MIG device: its GPU instance's and its compute instance's.

        Their numbers are explicit, so that the runtime makes them: on the host they exist only where
        nvidia-modprobe was run for them.
        """
        mig = find_mig_device(target, gpu)
        instance = f"gpu{minor}/mig/gi{mig.gpu_instance}"
        nodes = []
        for access in (f"{instance}/access", f"{instance}/ci{mig.compute_instance}/access"):
            major, number, mode = self._kernel.capability(access)
            path = f"/dev/nvidia-caps/nvidia-cap{number}"
            nodes.append(DeviceNode(path, type="c", major=major, minor=number, file_mode=mode))
        return ContainerEdits(device_nodes=tuple(nodes))

    def switches(self, gpu: Gpu) -> ContainerEdits:
        """The NVSwitches of the node, if this GPU's links go to them: for monitoring, CUDA does not open them."""
        if not any(link.remote is RemoteType.SWITCH for link in gpu.nvlinks or ()):
            return ContainerEdits()
        try:
            names = os.listdir(self.root.local_path("/dev"))  # noqa: PTH208 - names are wanted
        except OSError:
            return ContainerEdits()
        paths = [f"/dev/{name}" for name in sorted(names) if name.startswith(_SWITCH)]
        return self._edits(self._current({path: self.root.find_node(path) for path in paths}))

    def _current(self, nodes: Mapping[str, os.stat_result | None]) -> dict[str, os.stat_result | None]:
        """Those that exist, and are the loaded driver's."""
        return {path: found for path, found in nodes.items() if self._problem(path, found) is None}

    def _edits(self, nodes: Mapping[str, os.stat_result | None]) -> ContainerEdits:
        """The nodes that exist, and the groups that a container must be in to open them."""
        found = [(path, status) for path, status in nodes.items() if status is not None]
        gids = dict.fromkeys(status.st_gid for _, status in found if is_restricted_to_group(status))
        return ContainerEdits(
            device_nodes=tuple(self.root.node(path, status) for path, status in found),
            additional_gids=tuple(gids),
        )

    def _problem(self, path: str, found: os.stat_result | None, minor: int | None = None) -> _Problem | None:
        """What is wrong with a node of the driver; numbers are wrong only where the kernel lists others."""
        if found is None:
            return _Problem.NO_NODE if self.root.has(path) else _Problem.MISSING
        majors = self._majors
        if not majors:
            return None
        drivers = next(names for begin, names in _DRIVERS.items() if path.startswith(begin))
        expected = [majors[driver] for driver in drivers if driver in majors]
        # That of nvidia was renamed once; loaded under a third name, it has a version.
        if not expected and ("nvidia-uvm" in drivers or self._kernel.driver_version() is None):
            return _Problem.UNLOADED
        is_current = not expected or os.major(found.st_rdev) in expected
        is_right = minor is None or os.minor(found.st_rdev) == minor
        return None if is_current and is_right else _Problem.STALE

    def _sentence(self, gpu: Gpu, problems: list[tuple[str, _Problem]]) -> str:
        texts = []
        for kind in _Problem:
            paths = [path for path, problem in problems if problem is kind]
            if paths:
                texts.append(f"{', '.join(paths)} {kind.value[len(paths) > 1]}")
        mend = "wait until the NVIDIA driver is up, or run nvidia-modprobe -c0 -u there"
        if any(problem in {_Problem.NO_NODE, _Problem.STALE} for _, problem in problems):
            mend = "remove what is wrong there, and run nvidia-modprobe -c0 -u"
        return (
            f"GPU {gpu.uuid} cannot be given to a container: {' and '.join(texts)} under {self.root.host} "
            f"on the node; {mend}"
        )


def find_mig_device(target: Target, gpu: Gpu) -> MigDevice:
    """The MIG device that a target means; HardwareError where it is gone."""
    for device in gpu.mig.devices if gpu.mig else ():
        if device.uuid == target.uuid:
            return device
    raise HardwareError(
        f"MIG device {target.uuid} does not exist on GPU {gpu.uuid} any more; "
        "delete the Pod so that its claim is allocated anew"
    )

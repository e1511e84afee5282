"""What a container gets of a GPU: device nodes, the driver's files, hooks, and environment.

Everything is proved in the view that the runtime will have before a claim is called prepared: nodes are there and
are the loaded driver's, libraries fit the kernel module. What is missing is a HardwareError that names it and the place
looked at, and the next call looks again.
"""

from pathlib import Path
from typing import Protocol

import structlog

from dra_driver.cdi import wsl
from dra_driver.cdi.driver_files import DriverFiles
from dra_driver.cdi.hook import HookProgram
from dra_driver.cdi.injection import render_links
from dra_driver.cdi.kernel import Kernel
from dra_driver.cdi.nodes import DeviceNodes, find_mig_device
from dra_driver.cdi.root import HOST, Root
from dra_driver.cdi.shared import Shared
from dra_driver.cdi.spec import ContainerEdits
from dra_driver.devices.model import Target
from dra_driver.errors import HardwareError
from dra_driver.inventory.model import Gpu

log = structlog.get_logger(__name__)

# The NVIDIA runtime's own hook would else add all GPUs for an image that sets this to "all".
_VOID = ContainerEdits(env=("NVIDIA_VISIBLE_DEVICES=void",))
_TEGRA_RELEASE = "/etc/nv_tegra_release"
_TEGRA = (
    "the GPU of this node is part of a Tegra module, whose driver consists of other files and nodes; "
    "this driver cannot prepare it, use the NVIDIA container runtime there"
)


_KEPT = 256  # more than a node has devices
_Key = tuple[Target, bool]  # a device, and whether it is for a claim with admin access


class NodeEdits(Protocol):
    """Container edits on the node as it was at one moment, for the devices of a claim."""

    @property
    def common(self) -> ContainerEdits:
        """What any device of this driver needs, once a container.

        The same object as long as it is the same, since it is large, and encoded once.
        """
        ...

    @property
    def whole(self) -> bool:
        """Whether all is there that every device needs; if not, `device` says what is missing."""
        ...

    def device(self, target: Target, gpu: Gpu, *, admin_access: bool = False) -> ContainerEdits:
        """What this device alone needs; `gpu` is its physical GPU as last scanned.

        The same object as long as it is the same, as for `common`.
        With `admin_access` the claim is for monitoring, and gets the NVSwitches too. HardwareError where something
        the container needs is missing on the node.
        """
        ...


class EditSource(Protocol):
    """Where the container edits of devices come from."""

    def now(self) -> NodeEdits:
        """Edits on the node as it is now; HardwareError where its driver is not whole."""
        ...


class DriverEdits:
    """Edits for the driver that is installed under `driver_root`.

    Its device nodes are under the same root if that has a `dev` directory (a driver container), else under
    `host` (a driver installed into /usr/local or the like). `proc` and `sysfs` are where the plugin sees the host's
    /proc and /sys, `hook_path` is where the host has nvidia-cdi-hook, if not in its usual places. A look at all this is
    taken for true for `fresh_seconds`, unless it missed something.
    """

    def __init__(
        self,
        driver_root: Root = HOST,
        *,
        host: Root = HOST,
        proc: Path = Path("/proc"),
        sysfs: Path = Path("/sys"),
        hook_path: str | None = None,
        fresh_seconds: float = 0.0,
    ) -> None:
        self._driver_root = driver_root
        self._host = host
        self._kernel = Kernel(proc, sysfs)
        self._files = DriverFiles(driver_root, host, self._kernel, hook_path=hook_path)
        self._look: Shared[NodeEdits] = Shared(
            self._look_now, fresh_seconds=fresh_seconds, lasts=lambda edits: edits.whole
        )
        self._common: tuple[ContainerEdits, ContainerEdits, ContainerEdits] | None = None
        self._devices: dict[_Key, ContainerEdits] = {}  # as last seen
        self._said_unproven = False

    def now(self) -> NodeEdits:
        return self._look.get()

    def _look_now(self) -> NodeEdits:
        nodes = DeviceNodes(self._driver_root, self._kernel)
        if not nodes.any and not self._driver_root.has("/dev/."):
            nodes = DeviceNodes(self._host, self._kernel)
        if not nodes.any and wsl.is_wsl(self._host):
            return wsl.WslEdits(self._host, _VOID + wsl.common_edits(self._host))
        root = nodes.root
        if not root.nodes.proves and not self._said_unproven:
            self._said_unproven = True
            log.warning("device nodes not proven: placeholders are accepted", dev_root=str(root.host))
        try:
            files = self._files.find()
        except HardwareError as error:
            if self._host.has(_TEGRA_RELEASE):
                raise HardwareError(_TEGRA) from error
            raise
        common = self._with_nodes(nodes.control, files.edits)
        return _InstalledDriver(nodes, common, files.hook, self._host, self._devices)

    def _with_nodes(self, nodes: ContainerEdits, files: ContainerEdits) -> ContainerEdits:
        known = self._common
        if known is None or known[0] != nodes or known[1] is not files:
            self._common = known = (nodes, files, _VOID + nodes + files)
        return known[2]


class _InstalledDriver:
    """`NodeEdits` of a driver with a node for each GPU."""

    def __init__(
        self,
        nodes: DeviceNodes,
        common: ContainerEdits,
        hook: HookProgram | None,
        host: Root,
        devices: dict[_Key, ContainerEdits],
    ) -> None:
        """`devices` outlives this look, so that equal edits stay one object."""
        self._nodes = nodes
        self._hook = hook
        self._host = host
        self._devices = devices
        self._looked: dict[_Key, tuple[Gpu, ContainerEdits]] = {}
        self.common = common
        self.whole = nodes.whole

    def device(self, target: Target, gpu: Gpu, *, admin_access: bool = False) -> ContainerEdits:
        key = target, admin_access
        looked = self._looked.get(key)
        if looked is not None and looked[0] is gpu:
            return looked[1]
        edits = self._device(target, gpu, admin_access=admin_access)
        known = self._devices.get(key)
        if known == edits:
            edits = known
        if len(self._devices) >= _KEPT:
            self._devices.clear()
        self._devices[key] = edits
        self._looked[key] = gpu, edits
        return edits

    def _device(self, target: Target, gpu: Gpu, *, admin_access: bool) -> ContainerEdits:
        if gpu.minor is None:
            raise HardwareError(self._without_minor(gpu))
        parts = [self._nodes.gpu(gpu, gpu.minor)]
        if target.kind == "mig":
            parts.append(self._nodes.capabilities(target, gpu, gpu.minor))
        if target.kind == "gpu" or "gfx" in find_mig_device(target, gpu).profile.name:
            names, nodes = self._nodes.drm(gpu)
            parts.append(nodes)
            if names and self._hook:
                parts.append(ContainerEdits(hooks=(render_links(self._hook, gpu.pci_address, names),)))
        if admin_access:
            parts.append(self._nodes.switches(gpu))
        return sum(parts, start=ContainerEdits())

    def _without_minor(self, gpu: Gpu) -> str:
        if self._host.has(_TEGRA_RELEASE):
            return _TEGRA
        return (
            f"GPU {gpu.uuid} has no minor number, so that its device node cannot be told; "
            "look at /proc/driver/nvidia/gpus on the node"
        )

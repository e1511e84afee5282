"""What a container gets of a GPU: device nodes and environment.

The plugin sees the host through mounts, so every path has two sides: `Root.local` is where the plugin looks,
`Root.host` is what goes into the spec, since the container runtime resolves it on the host.

Nodes are looked up each time. A spec made from an earlier look is how Pods started without a GPU on nodes
whose driver came up late, and a handful of stats cost less than a cache that must know when it is wrong.
A GPU is handed out only if the nodes that any CUDA program opens are there; otherwise the Pod would start,
and fail in its own words.
"""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from dra_driver.cdi.spec import ContainerEdits, DeviceNode
from dra_driver.devices.model import Target
from dra_driver.errors import HardwareError
from dra_driver.inventory.model import Gpu, MigDevice

# Opened by every CUDA program, whatever GPU it uses.
_REQUIRED = ("nvidiactl", "nvidia-uvm")
# Profilers and graphics; absent where their kernel module is not loaded.
_OPTIONAL = ("nvidia-uvm-tools", "nvidia-modeset")


class EditSource(Protocol):
    """Where the container edits of devices come from."""

    def device_edits(self, target: Target, gpu: Gpu) -> ContainerEdits:
        """What this device alone needs; `gpu` is its physical GPU as last scanned.

        HardwareError where something the container needs is missing on the node.
        """
        ...

    def common_edits(self) -> ContainerEdits:
        """What any device of this driver needs, once a container: the place for the driver's own files."""
        ...


@dataclass(frozen=True, slots=True)
class Root:
    """A directory of the host, `host`, which the plugin sees as `local`."""

    host: PurePosixPath
    local: Path

    def node(self, path: str) -> DeviceNode:
        """The device node that containers know as `path`, found under this root."""
        host = str(self.host)
        return DeviceNode(path, host_path=None if host == "/" else host + path)

    def has(self, path: str) -> bool:
        # Strings: pathlib's joins took a third of a whole Prepare.
        return os.path.exists(f"{self.local}{path}")  # noqa: PTH110 - for speed, see above


HOST = Root(PurePosixPath("/"), Path("/"))


class DriverEdits:
    """Edits for the driver that is installed under `driver_root`.

    Its device nodes are under the same root if that has a `dev` directory (a driver container), else under
    `host` (a driver installed into /usr/local or the like). `proc` is where the plugin sees the host's /proc.
    """

    def __init__(self, driver_root: Root = HOST, *, host: Root = HOST, proc: Path = Path("/proc")) -> None:
        self._driver_root = driver_root
        self._host = host
        self._proc = proc

    def common_edits(self) -> ContainerEdits:
        root = self._dev_root()
        paths = [f"/dev/{name}" for name in _REQUIRED + _OPTIONAL]
        return ContainerEdits(
            # The NVIDIA runtime's own hook would else add all GPUs for an image that sets this to "all".
            env=("NVIDIA_VISIBLE_DEVICES=void",),
            device_nodes=tuple(root.node(path) for path in paths if root.has(path)),
        )

    def device_edits(self, target: Target, gpu: Gpu) -> ContainerEdits:
        if gpu.minor is None:
            raise HardwareError(
                f"GPU {gpu.uuid} has no minor number, so that its device node cannot be told; "
                "GPUs without one (WSL2, some integrated GPUs) cannot be prepared"
            )
        root = self._dev_root()
        path = f"/dev/nvidia{gpu.minor}"
        needed = [path, *(f"/dev/{name}" for name in _REQUIRED)]
        missing = [needed_path for needed_path in needed if not root.has(needed_path)]
        if missing:
            raise HardwareError(
                f"GPU {gpu.uuid} cannot be given to a container: {', '.join(missing)} "
                f"{'does' if len(missing) == 1 else 'do'} not exist under {root.host} on the node; "
                "wait until the NVIDIA driver is up, or run nvidia-modprobe -c0 -u there"
            )
        capabilities = self._capability_nodes(target, gpu) if target.kind == "mig" else ()
        return ContainerEdits(device_nodes=(root.node(path), *capabilities))

    def _dev_root(self) -> Root:
        return self._driver_root if (self._driver_root.local / "dev").is_dir() else self._host

    def _capability_nodes(self, target: Target, gpu: Gpu) -> tuple[DeviceNode, ...]:
        """The two nodes that open a MIG device: its GPU instance's and its compute instance's.

        Their numbers are explicit, so that the runtime makes them: on the host they exist only where
        nvidia-modprobe was run for them.
        """
        mig = _mig_device(target, gpu)
        instance = (
            self._proc / "driver/nvidia/capabilities" / f"gpu{gpu.minor}" / "mig" / f"gi{mig.gpu_instance}"
        )
        major = self._capabilities_major()
        nodes = []
        for access in (instance / "access", instance / f"ci{mig.compute_instance}" / "access"):
            minor, mode = _read_access(access)
            nodes.append(
                DeviceNode(
                    f"/dev/nvidia-caps/nvidia-cap{minor}", type="c", major=major, minor=minor, file_mode=mode
                )
            )
        return tuple(nodes)

    def _capabilities_major(self) -> int:
        path = self._proc / "devices"
        characters, _, _ = _read(path).partition("Block devices:")
        for line in characters.splitlines():
            number, _, name = line.strip().partition(" ")
            if name == "nvidia-caps":
                return int(number)
        raise HardwareError(
            f"{path} lists no nvidia-caps, so that MIG devices cannot be opened; is the NVIDIA driver loaded?"
        )


def _mig_device(target: Target, gpu: Gpu) -> MigDevice:
    for device in gpu.mig.devices if gpu.mig else ():
        if device.uuid == target.uuid:
            return device
    raise HardwareError(
        f"MIG device {target.uuid} does not exist on GPU {gpu.uuid} any more; "
        "delete the Pod so that its claim is allocated anew"
    )


def _read_access(path: Path) -> tuple[int, int]:
    """Minor number and file mode (decimal) of a capability."""
    fields = dict(line.partition(":")[::2] for line in _read(path).splitlines())
    try:
        return int(fields["DeviceFileMinor"]), int(fields["DeviceFileMode"])
    except (KeyError, ValueError) as error:
        raise HardwareError(f"{path} does not tell a capability's minor and mode") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise HardwareError(
            f"{path} cannot be read ({error.strerror}); is the NVIDIA driver loaded?"
        ) from error

"""The files of a simulated driver root, as data: path -> what stands there.

Beside what an installer leaves (`installed_driver`) it is what the running driver shows: device nodes, and the parts
of /sys and /proc that tell of GPUs, as far as a kubelet plugin, CDI and a container look at them.
"""

from collections.abc import Iterable, Iterator

from dra_driver.inventory.installed_driver import installed_driver
from dra_driver.inventory.mig_control import ComputeInstance, GpuInstance
from dra_driver.inventory.model import Gpu, Mig
from dra_driver.inventory.profile import Profile
from dra_driver.inventory.root_entries import DEFAULT_LAYOUT, CharDevice, Entry, File, Layout, Symlink

# The order in which device numbers are given out; drm is not NVIDIA's, but its nodes must be no real ones either.
_DRIVERS = ("nvidia", "nvidia-uvm", "nvidia-nvswitch", "nvidia-caps", "drm")
_CAPABILITIES = "proc/driver/nvidia/capabilities"
_CAP_CONFIG, _CAP_MONITOR, _CAPS_FIRST = 1, 2, 3
_CAPS_PER_INSTANCE, _INSTANCES_PER_GPU = 9, 15


def driver_files(
    profile: Profile, gpus: Iterable[Gpu], majors: list[int], layout: Layout = DEFAULT_LAYOUT
) -> dict[str, Entry]:
    """All entries by path below the root; `majors` (at least one) are the numbers that device nodes may have."""
    gpus = tuple(gpus)
    numbers = {driver: majors[i % len(majors)] for i, driver in enumerate(_DRIVERS)}
    files: dict[str, Entry] = {}
    for part in (
        installed_driver(profile.driver_version, profile.machine, gpus, layout),
        _dev(profile, gpus, numbers, layout),
        _sys(profile, gpus),
        _proc(profile, gpus, numbers),
    ):
        files.update(part)
    return files


def _dev(
    profile: Profile, gpus: tuple[Gpu, ...], majors: dict[str, int], layout: Layout
) -> Iterator[tuple[str, Entry]]:
    # nvidia-uvm has no parameter for a group: its nodes are everybody's.
    access = (0o660, layout.device_gid) if layout.device_gid else (0o666, 0)
    yield "dev/nvidiactl", CharDevice(majors["nvidia"], 255, *access)
    yield "dev/nvidia-modeset", CharDevice(majors["nvidia"], 254, *access)
    yield "dev/nvidia-uvm", CharDevice(majors["nvidia-uvm"], 0)
    yield "dev/nvidia-uvm-tools", CharDevice(majors["nvidia-uvm"], 1)
    for gpu in gpus:
        if gpu.minor is None:
            continue
        yield f"dev/nvidia{gpu.minor}", CharDevice(majors["nvidia"], gpu.minor, *access)
        for node, number in _drm_nodes(gpu.minor):
            yield f"dev/dri/{node}", CharDevice(majors["drm"], number)
            kind = "render" if node.startswith("render") else "card"
            yield f"dev/dri/by-path/pci-{gpu.pci_address}-{kind}", Symlink(f"../{node}")
    for i, _ in enumerate(profile.switches):
        yield f"dev/nvidia-nvswitch{i}", CharDevice(majors["nvidia-nvswitch"], i)
    if profile.switches:
        yield "dev/nvidia-nvswitchctl", CharDevice(majors["nvidia-nvswitch"], 255)
    if any(gpu.mig for gpu in gpus):
        existing = (
            minor
            for gpu in gpus
            if gpu.mig is not None and gpu.minor is not None
            for instance in instances_of(gpu.mig)
            for _, minor in _minors(gpu.minor, instance)
        )
        for minor in (_CAP_CONFIG, _CAP_MONITOR, *existing):
            mode = 0o400 if minor == _CAP_CONFIG else 0o444
            yield f"dev/nvidia-caps/nvidia-cap{minor}", CharDevice(majors["nvidia-caps"], minor, mode)


def _drm_nodes(minor: int) -> tuple[tuple[str, int], tuple[str, int]]:
    return (f"card{minor}", minor), (f"renderD{128 + minor}", 128 + minor)


def _sys(profile: Profile, gpus: tuple[Gpu, ...]) -> Iterator[tuple[str, Entry]]:
    yield "sys/module/nvidia/version", _text(profile.driver_version)
    for gpu in gpus:
        address = gpu.pci_address
        # A profile without a root still needs a place for the device: directly in /sys/devices, as on
        # machines whose PCI tree is hidden, so that no root is found there either.
        root = gpu.pcie_root or "platform"
        folder = f"devices/{root}/{_bridge(root)}{address}"
        yield f"sys/bus/pci/devices/{address}", Symlink(f"../../../{folder}")
        yield f"sys/bus/pci/drivers/nvidia/{address}", Symlink(f"../../../../{folder}")
        up = "../" * (folder.count("/") + 1)
        yield f"sys/{folder}/driver", Symlink(f"{up}bus/pci/drivers/nvidia")
        yield f"sys/{folder}/vendor", _text("0x10de")
        yield f"sys/{folder}/class", _text("0x030200")
        yield f"sys/{folder}/numa_node", _text("-1" if gpu.numa_node is None else str(gpu.numa_node))
        uevent = ["DRIVER=nvidia", "PCI_CLASS=30200", f"PCI_SLOT_NAME={address}"]
        device_id = profile.device_ids.get(address)
        if device_id is not None:
            yield f"sys/{folder}/device", _text(f"0x{device_id}")
            uevent.insert(2, f"PCI_ID=10DE:{device_id.upper()}")
        yield f"sys/{folder}/uevent", _text(*uevent)
        if gpu.minor is not None:
            for node, _ in _drm_nodes(gpu.minor):
                yield f"sys/{folder}/drm/{node}/uevent", _text(f"DEVNAME=dri/{node}")


def _bridge(root: str) -> str:
    """The root port between a root complex and its GPUs, as a path component."""
    domain, _, bus = root.removeprefix("pci").partition(":")
    return f"{domain}:{bus}:01.0/" if bus else ""


def _proc(profile: Profile, gpus: tuple[Gpu, ...], majors: dict[str, int]) -> Iterator[tuple[str, Entry]]:
    version = profile.driver_version
    yield (
        "proc/driver/nvidia/version",
        _text(f"NVRM version: NVIDIA UNIX Open Kernel Module for {profile.machine}  {version}  simulated"),
    )
    yield (
        "proc/driver/nvidia/params",
        _text("ModifyDeviceFiles: 1", "DeviceFileUID: 0", "DeviceFileGID: 0", "DeviceFileMode: 438"),
    )
    for gpu in gpus:
        lines = [
            f"Model: \t\t {gpu.name}",
            f"GPU UUID: \t {gpu.uuid}",
            "Bus Type: \t PCIe",
            f"Bus Location: \t {gpu.pci_address}",
        ]
        lines += [] if gpu.minor is None else [f"Device Minor: \t {gpu.minor}"]
        yield f"proc/driver/nvidia/gpus/{gpu.pci_address}/information", _text(*lines, "GPU Excluded:\t No")
    names = {"nvidia": ("nvidia", "nvidia-modeset", "nvidiactl")}
    devices = [
        f"{majors[driver]:3} {name}"
        for driver in ("nvidia", "nvidia-uvm", "nvidia-nvswitch", "nvidia-caps")
        for name in names.get(driver, (driver,))
    ]
    yield "proc/devices", _text("Character devices:", *devices, "", "Block devices:")
    if not any(gpu.mig for gpu in gpus):
        return
    yield f"{_CAPABILITIES}/mig/config", _capability(_CAP_CONFIG, 0o400)
    yield f"{_CAPABILITIES}/mig/monitor", _capability(_CAP_MONITOR, 0o444)
    minors = [f"config {_CAP_CONFIG}", f"monitor {_CAP_MONITOR}"]
    for gpu in gpus:
        if gpu.mig is not None and gpu.minor is not None:
            yield from capabilities_of(gpu.minor, instances_of(gpu.mig)).items()
            minors += _all_minors(gpu.minor)
    yield "proc/driver/nvidia-caps/mig-minors", _text(*minors)


def capabilities_folder(gpu_minor: int) -> str:
    """Where the driver shows a GPU's existing instances."""
    return f"{_CAPABILITIES}/gpu{gpu_minor}"


def capabilities_of(gpu_minor: int, instances: Iterable[GpuInstance]) -> dict[str, Entry]:
    """The capabilities of a GPU's instances, by path below the root."""
    folder = f"{capabilities_folder(gpu_minor)}/mig"
    return {
        f"{folder}/{name}/access": _capability(minor, 0o444)
        for instance in instances
        for name, minor in _minors(gpu_minor, instance)
    }


def instances_of(mig: Mig) -> tuple[GpuInstance, ...]:
    """The instances that a GPU's MIG devices stand in."""
    return tuple(
        GpuInstance(
            device.gpu_instance,
            device.profile.id,
            device.placement,
            device.profile.size,
            (ComputeInstance(device.compute_instance, device.uuid),),
        )
        for device in mig.devices
    )


def _minors(gpu_minor: int, instance: GpuInstance) -> Iterator[tuple[str, int]]:
    """The name of a GPU instance and of its compute instances, each with its minor of nvidia-caps.

    The driver numbers all that could exist in sequence: GPUs, their 15 GPU instances, the 8 compute instances of each.
    """
    number = _CAPS_FIRST + (gpu_minor * _INSTANCES_PER_GPU + instance.id) * _CAPS_PER_INSTANCE
    yield f"gi{instance.id}", number
    for compute in instance.compute_instances:
        yield f"gi{instance.id}/ci{compute.id}", number + 1 + compute.id


def _all_minors(gpu_minor: int) -> Iterator[str]:
    """The lines of mig-minors for a GPU, which lists what could exist."""
    full = tuple(ComputeInstance(i, "") for i in range(_CAPS_PER_INSTANCE - 1))
    for number in range(_INSTANCES_PER_GPU):
        for name, minor in _minors(gpu_minor, GpuInstance(number, 0, 0, 0, full)):
            yield f"gpu{gpu_minor}/{name}/access {minor}"


def _capability(minor: int, mode: int) -> File:
    return _text(f"DeviceFileMinor: {minor}", f"DeviceFileMode: {mode}", "DeviceFileModify: 1")


def _text(*lines: str) -> File:
    return File("".join(f"{line}\n" for line in lines).encode())

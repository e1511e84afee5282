"""PCI facts that the kernel knows better than NVML: root complex, NUMA node, driver binding.

NVML's own NUMA call names the node that GPU *memory* is onlined as (Grace), which is no place for CPUs, and
it has no call for the root complex. All reads are under a given sysfs root, and an unreadable or missing
file is "unknown", never an error: VMs and containers hide parts of the tree.
"""

import re
from pathlib import Path

# VMD and some ARM machines have domains of more than four digits: "pci10000:00".
_ROOT = re.compile(r"^pci[0-9a-f]{4,}:[0-9a-f]{2}$")
_ADDRESS = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_DISPLAY_CLASS = "0x03"  # VGA 0x0300 and 3D 0x0302: the driver binds NVSwitches and audio functions elsewhere


def pcie_root(sysfs: Path, address: str) -> str | None:
    """The root complex that a PCI function hangs under, as `resource.kubernetes.io/pcieRoot` writes it."""
    try:
        target = _device(sysfs, address).readlink()
    except OSError:
        return None
    return next((part for part in target.parts if _ROOT.match(part)), None)


def numa_node(sysfs: Path, address: str) -> int | None:
    """The NUMA node of a PCI function; the kernel writes -1 where the firmware does not say."""
    try:
        node = int((_device(sysfs, address) / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def present(sysfs: Path, address: str) -> bool:
    """Whether the kernel sees a PCI function at `address`."""
    try:
        _device(sysfs, address).lstat()
    except OSError:
        return False
    return True


def bound_gpus(sysfs: Path) -> frozenset[str]:
    """PCI addresses of the GPUs that are bound to the nvidia kernel driver."""
    try:
        names = [entry.name for entry in (sysfs / "bus/pci/drivers/nvidia").iterdir()]
    except OSError:
        return frozenset()
    return frozenset(name for name in names if _ADDRESS.match(name) and _is_display(sysfs, name))


def _is_display(sysfs: Path, address: str) -> bool:
    try:
        return (_device(sysfs, address) / "class").read_text(encoding="ascii").startswith(_DISPLAY_CLASS)
    except (OSError, ValueError):
        return True  # bound to the GPU driver, and nothing says otherwise


def _device(sysfs: Path, address: str) -> Path:
    return sysfs / "bus/pci/devices" / address

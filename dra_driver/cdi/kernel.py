"""What the running kernel says of the NVIDIA driver: its version, its device numbers, its MIG capabilities.

All is read anew at each use, or its age is known: every one of these facts changes when the driver is loaded again.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from dra_driver.errors import HardwareError

_CHUNK, _HALF_A_PAGE = 1 << 16, 2048


class Kernel:
    """The kernel, through the directories where the plugin sees the host's /proc and /sys."""

    def __init__(self, proc: Path = Path("/proc"), sysfs: Path = Path("/sys")) -> None:
        self._proc = proc
        self._sysfs = sysfs
        self._version = f"{sysfs}/module/nvidia/version"
        self._devices = f"{proc}/devices"
        self._drm: dict[str, tuple[int, tuple[str, ...]]] = {}  # directory's inode and nodes, by PCI address

    def driver_version(self) -> str | None:
        """Of the kernel module that is loaded, "580.95.05"; None where there is none, or it does not say."""
        return _first_line(self._version)

    def firmware_path(self) -> str | None:
        """The host directory that firmware is loaded from before all others, where one is set."""
        return _first_line(f"{self._sysfs}/module/firmware_class/parameters/path")

    def minor(self, pci_address: str) -> int | None:
        """The number of a GPU's node as it is now; None where the driver does not tell."""
        text = _read(f"{self._proc}/driver/nvidia/gpus/{pci_address}/information")
        _, _, after = text.partition("Device Minor:")
        number = after.partition("\n")[0].strip()
        return int(number) if number.isdecimal() else None

    def drm_nodes(self, pci_address: str) -> tuple[str, ...]:
        """The nodes of a GPU below /dev/dri, "card1" and "renderD129"."""
        directory = f"{self._sysfs}/bus/pci/devices/{pci_address}/drm"
        try:
            # A new directory each time that its module is loaded, and the kernel gives no inode number twice.
            inode = os.stat(directory).st_ino  # noqa: PTH116 - a Prepare waits for it
            known = self._drm.get(pci_address)
            if known is not None and known[0] == inode:
                return known[1]
            names = os.listdir(directory)  # noqa: PTH208 - names are wanted
        except OSError:
            return ()  # its module is not loaded
        nodes = tuple(sorted(name for name in names if name.startswith(("card", "renderD"))))
        if len(nodes) > 1:  # one alone may be the first of two that the kernel is making
            self._drm[pci_address] = inode, nodes
        return nodes

    def majors(self) -> Mapping[str, int]:
        """The numbers of character device drivers, by name; empty where the kernel does not list them."""
        characters, _, _ = _read(self._devices).partition("Block devices:")
        pairs = (line.split() for line in characters.splitlines())
        return {pair[1]: int(pair[0]) for pair in pairs if len(pair) == 2 and pair[0].isdigit()}

    def capability(self, path: str) -> tuple[int, int, int]:
        """Major, minor and file mode (decimal) of a capability such as "gpu0/mig/gi1/access".

        HardwareError where the driver lists no such capability.
        """
        major = self.majors().get("nvidia-caps")
        if major is None:
            raise HardwareError(
                f"{self._devices} lists no nvidia-caps, so that MIG devices cannot be opened; "
                "is the NVIDIA driver loaded?"
            )
        access = self._proc / "driver/nvidia/capabilities" / path
        try:
            text = access.read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise HardwareError(
                f"{access} cannot be read ({error.strerror}); is the NVIDIA driver loaded?"
            ) from error
        fields = dict(line.partition(":")[::2] for line in text.splitlines())
        try:
            minor, mode = int(fields["DeviceFileMinor"]), int(fields["DeviceFileMode"])
        except (KeyError, ValueError) as error:
            raise HardwareError(f"{access} does not tell a capability's minor and mode") from error
        return major, minor, mode


def _first_line(path: str) -> str | None:
    return _read(path).partition("\n")[0].strip() or None


def _read(path: str) -> str:
    """A file that the kernel makes; empty where there is none. Bare system calls: a Prepare waits for each."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        text = part = os.read(fd, _CHUNK)
        while len(part) >= _HALF_A_PAGE:  # the kernel gives the lines that fit into a page
            part = os.read(fd, _CHUNK)
            text += part
        return text.decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)

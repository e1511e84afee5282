"""Directories of the host that the plugin sees under another name.

The plugin sees the host through mounts, so every path has two sides: `Root.local` is where the plugin looks,
`Root.host` is what goes into the spec, since the container runtime resolves it on the host.

What counts as a device node is a strategy of the root. On a real one it is a character device, looked at
without following links, as runtimes do. A simulated root that was made without the right to make nodes has empty
files in their place: these are let through, and `proves` is False, so that nobody takes it for a proof.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from dra_driver.cdi.spec import DeviceNode


class NodeCheck(Protocol):
    """What counts as a device node under a root."""

    proves: bool  # whether a runtime would take what `accepts` lets through

    def accepts(self, found: os.stat_result) -> bool: ...


class _CharacterDevices:
    proves = True

    def accepts(self, found: os.stat_result) -> bool:
        return stat.S_ISCHR(found.st_mode)


class _Placeholders:
    proves = False

    def accepts(self, found: os.stat_result) -> bool:
        empty_file = stat.S_ISREG(found.st_mode) and found.st_size == 0
        return empty_file or stat.S_ISCHR(found.st_mode)


CHARACTER_DEVICES: NodeCheck = _CharacterDevices()
PLACEHOLDERS: NodeCheck = _Placeholders()


@dataclass(frozen=True, slots=True)
class Root:
    """A directory of the host, `host`, which the plugin sees as `local`."""

    host: PurePosixPath
    local: Path
    nodes: NodeCheck = CHARACTER_DEVICES

    def host_path(self, path: str) -> str:
        """What the host calls `path`, which is absolute and below this root."""
        host = str(self.host)
        return path if host == "/" else host + path

    def local_path(self, path: str) -> str:
        """What the plugin calls it."""
        # Strings: pathlib's joins took a third of a whole Prepare.
        return f"{self.local}{path}"

    def find_node(self, path: str) -> os.stat_result | None:
        """The device node at `path`; None where there is none, or something else."""
        try:
            found = os.lstat(self.local_path(path))
        except OSError:
            return None
        return found if self.nodes.accepts(found) else None

    def has(self, path: str) -> bool:
        return os.path.lexists(self.local_path(path))

    def node(self, path: str, found: os.stat_result) -> DeviceNode:
        """The device node that containers know as `path`, found under this root.

        Type and numbers are left to the runtime, which reads them when it starts the container: after a reload
        of the driver they are others. A group is told where only it may open the node.
        """
        host = self.host_path(path)
        return DeviceNode(
            path,
            host_path=None if host == path else host,
            gid=found.st_gid if is_restricted_to_group(found) else None,
        )


def is_restricted_to_group(found: os.stat_result) -> bool:
    """Whether a group, and not everybody, may read and write a device node."""
    mode = found.st_mode
    return found.st_gid != 0 and mode & 0o006 != 0o006 and mode & 0o060 == 0o060


HOST = Root(PurePosixPath("/"), Path("/"))

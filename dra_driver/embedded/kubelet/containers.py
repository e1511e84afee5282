"""Containers in memory: what a container runtime would make of a container and the CDI devices it is given.

Nothing is run. The edits are applied in the order and by the rules of the CDI library (container-edits.go): the
edits of each spec file once, before those of its first device; an environment variable, a device node and a
mount replace what the container has under the same name or path; type and numbers of a device node that does not
give them are read from the host (lstat) now; mounts are sorted by depth. Modes, owners, groups, network devices and
Intel RDT are left out. What would keep the process from starting fails it here, too: a mount that is no bind mount or has no source,
a hook whose program is missing. Texts of failures are those of containerd 2.1 and runc 1.3, as seen.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_driver.cdi import registry
from dra_driver.embedded.kubelet.errors import CreateContainerError, RunContainerError

_CREATE = "failed to create containerd container:"
_START = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init:"
)
_HOST_HOOKS = frozenset({"prestart", "createRuntime", "createContainer"})
_TYPES = {stat.S_IFBLK: "b", stat.S_IFCHR: "c", stat.S_IFIFO: "p"}


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node in a container. Numbers are None only for a placeholder (see `Runtime`)."""

    path: str
    host_path: str
    type: str
    major: int | None
    minor: int | None


@dataclass(frozen=True, slots=True)
class Mount:
    host_path: str
    container_path: str
    type: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hook:
    name: str
    path: str
    args: tuple[str, ...]
    env: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container as its process would find it."""

    cdi_ids: tuple[str, ...]
    env: Mapping[str, str]
    device_nodes: tuple[DeviceNode, ...]
    mounts: tuple[Mount, ...]
    hooks: tuple[Hook, ...]


class Runtime:
    """Makes containers from the spec files in `cdi_dirs`, of which the last has priority.

    With `placeholders`, an empty regular file counts as a
    character device without numbers: simulated GPUs have these where their nodes cannot be made (not root). A
    real runtime refuses them.
    """

    def __init__(self, cdi_dirs: Sequence[Path], *, placeholders: bool = False) -> None:
        self._cdi_dirs = tuple(cdi_dirs)
        self._placeholders = placeholders

    def create(self, container: Mapping[str, Any], cdi_ids: Iterable[str]) -> ContainerView:
        """Make and start a container of a Pod's spec; CreateContainerError or RunContainerError."""
        names = tuple(dict.fromkeys(cdi_ids))  # kubelets pass ids twice after they were restarted
        devices = registry.load(self._cdi_dirs).devices if names else {}
        unresolved = [name for name in names if name not in devices]
        if unresolved:
            raise CreateContainerError(
                f"{_CREATE} CDI device injection failed: unresolvable CDI devices {', '.join(unresolved)}"
            )
        edits: list[Mapping[str, Any]] = []
        seen: set[Path] = set()
        for device in (devices[name] for name in names):
            if device.path not in seen:
                seen.add(device.path)
                edits.append(device.spec.get("containerEdits") or {})
            edits.append(device.edits)
        return self._apply(container, names, edits)

    def _apply(
        self, container: Mapping[str, Any], names: tuple[str, ...], all_edits: Iterable[Mapping[str, Any]]
    ) -> ContainerView:
        env = {
            entry["name"]: entry.get("value", "") for entry in container.get("env") or () if "value" in entry
        }
        nodes: dict[str, DeviceNode] = {}
        mounts: dict[str, Mount] = {}
        hooks: list[Hook] = []
        for edits in all_edits:
            env.update(entry.split("=", 1) for entry in edits.get("env") or ())
            for body in edits.get("deviceNodes") or ():
                nodes.pop(body["path"], None)
                nodes[body["path"]] = self._device_node(body)
            for body in edits.get("mounts") or ():
                mounts.pop(body["containerPath"], None)
                mounts[body["containerPath"]] = _mount(body)
            hooks += [_hook(body) for body in edits.get("hooks") or ()]
        _check_hooks(hooks)
        by_depth = sorted(
            mounts.values(), key=lambda mount: os.path.normpath(mount.container_path).count("/")
        )
        return ContainerView(names, env, tuple(nodes.values()), tuple(by_depth), tuple(hooks))

    def _device_node(self, body: Mapping[str, Any]) -> DeviceNode:
        path = body["path"]
        host_path = body.get("hostPath") or path
        kind, major, minor = body.get("type") or "", body.get("major") or 0, body.get("minor") or 0
        if kind and (major or kind == "p"):
            return DeviceNode(path, host_path, kind, major, minor)  # it need not exist on the host
        try:
            found = Path(host_path).lstat()
        except OSError as error:
            raise _injection(f'failed to stat CDI host device "{host_path}": {_reason(error)}') from error
        placeholder = self._placeholders and stat.S_ISREG(found.st_mode) and not found.st_size
        file_type = "c" if placeholder else _TYPES.get(stat.S_IFMT(found.st_mode))
        if file_type is None:
            raise _injection(f'failed to stat CDI host device "{host_path}": not a device node')
        if kind not in {"", file_type}:
            raise _injection(
                f'CDI device ("{path}", "{host_path}"), host type mismatch ({kind}, {file_type})'
            )
        if placeholder:
            return DeviceNode(path, host_path, file_type, None, None)
        if not major and file_type != "p":
            major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
        return DeviceNode(path, host_path, file_type, major, minor)


def _mount(body: Mapping[str, Any]) -> Mount:
    host_path, path = body["hostPath"], body["containerPath"]
    mount = Mount(host_path, path, body.get("type") or "", tuple(body.get("options") or ()))
    if mount.type == "bind" or {"bind", "rbind"}.intersection(mount.options):
        try:
            Path(host_path).stat()
        except OSError as error:
            raise _start_error(
                f"failed to fulfil mount request: open {host_path}: {_reason(error)}"
            ) from error
    elif mount.type in {"", "none"}:
        raise _start_error(
            f'error mounting "{host_path}" to rootfs at "{path}": mount src={host_path}, dst={path}: '
            "no such device"
        )
    return mount


def _check_hooks(hooks: Iterable[Hook]) -> None:
    """Programs of the hooks that run on the host before the process starts must be there."""
    numbers: Counter[str] = Counter()
    for hook in hooks:
        if hook.name in _HOST_HOOKS and not os.access(Path(hook.path), os.X_OK):
            there = Path(hook.path).exists()
            reason = "permission denied" if there else "no such file or directory"
            raise _start_error(
                f"error running {hook.name} hook #{numbers[hook.name]}: fork/exec {hook.path}: {reason}"
            )
        numbers[hook.name] += 1


def _hook(body: Mapping[str, Any]) -> Hook:
    return Hook(body["hookName"], body["path"], tuple(body.get("args") or ()), tuple(body.get("env") or ()))


def _injection(reason: str) -> CreateContainerError:
    return CreateContainerError(f"{_CREATE} CDI device injection failed: failed to inject devices: {reason}")


def _start_error(reason: str) -> RunContainerError:
    return RunContainerError(f"{_START} {reason}")


def _reason(error: OSError) -> str:
    """As Go spells errno."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]

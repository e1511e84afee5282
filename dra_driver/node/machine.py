"""The machine the plugin runs on: where its hardware facts come from, and where its driver's files are.

The plugin usually sees the host through a mount (`--host-root`), so every directory of the host has two
names: the one that goes into CDI specs, and the one that we can open. A real driver may be found only later
and in another place than last time, so its root is asked for at each use; a simulated driver is made here.
"""

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Protocol

import dra_driver.files
from dra_driver.cdi.edits import DriverEdits, EditSource, NodeEdits
from dra_driver.cdi.root import CHARACTER_DEVICES, PLACEHOLDERS, Root
from dra_driver.files import Files
from dra_driver.inventory.backend import Backend
from dra_driver.node.flags import Settings
from dra_driver.sharing.programs import DriverPrograms

# A container starts some hundred milliseconds after its Prepare; a driver that goes in between is seen by neither.
FRESH_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware facts, what containers get of them, and the driver's programs."""

    backend: Backend
    edits: EditSource
    programs: DriverPrograms


def open_machine(settings: Settings, files: Files = dra_driver.files) -> Machine:
    """The machine that `--backend` names; UsageError where a profile or a driver root is wrong.

    What simulated hardware keeps is written through `files`.
    """
    kind, _, profile = settings.backend.partition(":")
    return _simulated(settings, profile, files) if kind == "simulated" else _nvml(settings)


def _nvml(settings: Settings) -> Machine:
    from dra_driver.inventory.nvml import NvmlBackend

    host = Root(PurePosixPath("/"), settings.host_root)
    given = _driver_root(settings)
    backend = NvmlBackend(None if given is None else given.local, host=settings.host_root)
    found = _FoundDriver(backend, given, host, settings.nvidia_cdi_hook_path)
    return Machine(backend, found, DriverPrograms(lambda: found.root.local))


def _simulated(settings: Settings, profile_name: str, files: Files) -> Machine:
    from dra_driver.inventory.driver_root import make_driver_root
    from dra_driver.inventory.profile import load_profile
    from dra_driver.inventory.simulated import SimulatedBackend

    profile = load_profile(profile_name)
    own = settings.plugin_dir / "driver-root"
    root = _driver_root(settings) or Root(PurePosixPath(own), own)
    has_nodes = make_driver_root(profile, root.local, node_name=settings.node_name)
    root = replace(root, nodes=CHARACTER_DEVICES if has_nodes else PLACEHOLDERS)
    backend = SimulatedBackend(profile, settings.node_name, driver_root=root.local, files=files)
    programs = DriverPrograms(lambda: root.local, simulated=True)
    return Machine(backend, _edits(root, root, settings.nvidia_cdi_hook_path), programs)


def _driver_root(settings: Settings) -> Root | None:
    """The driver root that was given; None where it is to be looked for."""
    if settings.driver_root is None:
        return None
    seen_at = settings.container_driver_root or _below(settings.host_root, settings.driver_root)
    return Root(settings.driver_root, seen_at)


def _below(host_root: Path, path: PurePosixPath) -> Path:
    return host_root / path.relative_to("/")


class _HasDriverRoot(Protocol):
    @property
    def driver_root(self) -> Path | None: ...


class _FoundDriver:
    """`EditSource` for the driver whose library NVML was loaded from."""

    def __init__(
        self, backend: _HasDriverRoot, given: Root | None, host: Root, hook_path: str | None
    ) -> None:
        self._backend = backend
        self._given = given
        self._host = host
        self._hook_path = hook_path
        self._last: tuple[Root, DriverEdits] | None = None

    def now(self) -> NodeEdits:
        return self._edits().now()

    @property
    def root(self) -> Root:
        """The driver root that is in use now."""
        found = self._backend.driver_root
        if self._given is None and found is not None:
            host = PurePosixPath("/") / found.relative_to(self._host.local)
            return replace(self._host, host=host, local=found)
        return self._given or self._host

    def _edits(self) -> DriverEdits:
        """Those of the root that is in use now; kept, since they know the driver's files."""
        root, last = self.root, self._last
        if last is None or last[0] != root:
            self._last = last = root, _edits(root, self._host, self._hook_path)
        return last[1]


def _edits(driver_root: Root, host: Root, hook_path: str | None) -> DriverEdits:
    proc, sysfs = host.local / "proc", host.local / "sys"
    return DriverEdits(
        driver_root, host=host, proc=proc, sysfs=sysfs, hook_path=hook_path, fresh_seconds=FRESH_SECONDS
    )

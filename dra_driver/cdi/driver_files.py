"""What of an installed driver goes into every container: libraries, programs, configuration, firmware, sockets.

Found once and kept while nothing of what was looked at changes (see `look`). What a container cannot do without is
asked for at each call: the kernel module's version, the directories of libcuda and libnvidia-ml, the hook program.
The rest, such as a Vulkan file that is added, is asked for once in a second, since twenty more system calls a Prepare
are felt. All is kept in memory only, so no boot or restart outlives it.

A container without libcuda or libnvidia-ml would start and then find no GPU, so that is an error here, before anybody
is told that the claim is prepared; nothing is kept then, and the next call looks again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from dra_driver.cdi.configuration import find_configuration
from dra_driver.cdi.firmware import find_firmware
from dra_driver.cdi.hook import HookProgram, find_hook
from dra_driver.cdi.injection import with_hooks, without_hooks
from dra_driver.cdi.kernel import Kernel
from dra_driver.cdi.libraries import DIRECTORIES, LD_CACHE, REQUIRED, Libraries, find_libraries
from dra_driver.cdi.look import Look
from dra_driver.cdi.programs import find_programs
from dra_driver.cdi.root import Root
from dra_driver.cdi.sockets import find_sockets
from dra_driver.cdi.spec import ContainerEdits
from dra_driver.errors import HardwareError

log = structlog.get_logger(__name__)

_ALL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """The edits for the driver's files, and the hook program that they use, if any."""

    edits: ContainerEdits
    hook: HookProgram | None
    directories: frozenset[str]  # with what is required, under the driver root


class DriverFiles:
    """The files of the driver under `driver_root`; hooks and sockets are looked for on `host` too.

    For one thread at a time.
    """

    def __init__(
        self,
        driver_root: Root,
        host: Root,
        kernel: Kernel,
        *,
        hook_path: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._due = 0.0  # when all is asked for again
        self._roots = (driver_root,) if driver_root == host else (driver_root, host)
        self._kernel = kernel
        self._hook_path = hook_path
        self._looks: tuple[Look, ...] = ()
        self._kernel_version: str | None = None
        self._found: Found | None = None

    def find(self) -> Found:
        """The same object as last time while the driver is the same; HardwareError where it is not whole."""
        version = self._kernel.driver_version()
        if self._looks and version == self._kernel_version and self._is_same():
            assert self._found is not None
            return self._found
        self._looks, self._kernel_version = (), version
        looks = tuple(Look(root) for root in self._roots)
        found = self._find(looks, version)
        if found != self._found:
            self._found = found
            log.info(
                "driver files found",
                driver_root=str(self._roots[0].host),
                mounts=len(found.edits.mounts),
                hook=found.hook.path if found.hook else None,
            )
        self._looks, self._due = looks, self._clock() + _ALL_SECONDS
        return self._found

    def _is_same(self) -> bool:
        assert self._found is not None
        if self._clock() >= self._due:
            self._due = self._clock() + _ALL_SECONDS
            return all(look.same() for look in self._looks)
        driver, host = self._looks[0], self._looks[-1]
        hook = self._found.hook
        return all(driver.is_same(directory) for directory in self._found.directories) and (
            hook is None or all(host.is_same_file(file) for file in hook.files)
        )

    def _find(self, looks: tuple[Look, ...], kernel_version: str | None) -> Found:
        driver, host = looks[0], looks[-1]
        libraries = find_libraries(driver, kernel_version)
        _check_whole(libraries, driver, kernel_version)
        version = libraries.version
        assert version is not None
        hook = find_hook(host, self._hook_path)
        files = [
            *find_configuration(driver, version),
            *find_firmware(driver, version, self._kernel.firmware_path()),
            *find_programs(driver),
        ]
        edits = with_hooks(libraries.found, version, hook) if hook else without_hooks(libraries.found)
        edits += ContainerEdits(mounts=tuple(file.mount() for file in files))
        edits += ContainerEdits(mounts=tuple(socket.socket_mount() for socket in find_sockets(looks)))
        for path, problem in libraries.problems.items():
            log.warning("driver library left out", path=driver.host_path(path), err=problem)
        required = {library.directory for library in libraries.found if library.stem in REQUIRED}
        directories = {driver.directory(directory or "/") for directory in required}
        return Found(edits, hook, frozenset(directory for directory in directories if directory))


def _check_whole(libraries: Libraries, driver: Look, kernel_version: str | None) -> None:
    """HardwareError, one sentence with what is missing and where it was looked for, unless the driver is whole."""
    missing = libraries.missing()
    if not missing:
        return
    root = driver.root.host
    names = f"{' and '.join(missing)} {'does' if len(missing) == 1 else 'do'} not exist"
    broken = [
        f"{driver.host_path(path)}: {why}"
        for path, why in libraries.problems.items()
        if path.endswith(missing)
    ]
    others = [version for version in libraries.versions if version != libraries.version]
    if broken:
        raise HardwareError(
            f"the NVIDIA driver under {root} on the node cannot be used ({'; '.join(broken)}); install it anew"
        )
    if libraries.version is None and len(others) > 1:
        raise HardwareError(
            f"the NVIDIA driver under {root} on the node is there in versions {' and '.join(others)}, and neither the "
            "kernel module nor libcuda.so.1 tells which one counts; remove the one that is not in use"
        )
    if kernel_version is not None and others:
        raise HardwareError(
            f"{names} for the loaded kernel module under {root} on the node, where libraries of "
            f"{' and '.join(others)} are; finish the upgrade of the driver, or reboot the node"
        )
    raise HardwareError(
        f"{names} under {root} on the node (looked in "
        f"{', '.join(directory.lstrip('/') for directory in DIRECTORIES)} and what {LD_CACHE.lstrip('/')} names); "
        "wait until the NVIDIA driver is installed, or set --driver-root to where it is"
    )

"""The node's hardware as NVML tells of it. The only module that imports pynvml.

One session lives as long as the process: without persistence mode each init loads GPU state anew (seconds a
GPU), and lookups were seen to take ten seconds while other sessions came and went. It is opened again

* after NVML said that it is over: Uninitialized, driver unloaded, or a library that an upgrade of the
  driver left behind (then the new library is loaded, if there is one);
* while it lists no GPU, or fewer than the kernel has bound to the driver: a driver that is still binding
  GPUs at boot must not leave the node empty, or at seven of eight, for ever;
* now and then while a GPU is lost, for it may have been reset since.

A scan never raises for what hardware or driver do, and never hangs: it runs in a worker under a deadline.
Where NVML cannot be asked, or lists no GPU, the inventory is not available and says why in one sentence; the
next scan tries again, from the search for the library on.
"""

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import structlog

from dra_driver.errors import UnavailableError
from dra_driver.inventory.bounded import BoundedWorker, StillRunningError
from dra_driver.inventory.known import KnownGpus
from dra_driver.inventory.model import Inventory, Problem
from dra_driver.inventory.nvml_api import Code, NvmlCalls, NvmlError, NvmlModule
from dra_driver.inventory.nvml_library import Loader, known_roots
from dra_driver.inventory.nvml_mig_control import NvmlMigControl
from dra_driver.inventory.nvml_session import NvmlSession, Scan
from dra_driver.inventory.sysfs import bound_gpus

log = structlog.get_logger(__name__)

PYNVML: NvmlModule = pynvml

_PATIENCE_SECONDS, _MOST_PATIENCE_SECONDS = 60.0, 3600.0


class NvmlBackend:
    """`Backend` on NVML.

    `driver_root` is where the driver is installed, as the plugin sees it; None tries the known places. A
    scan gives up after `deadline_seconds`; a GPU that is lost or not listed is looked for in a new session
    after a minute, then twice as long, up to an hour. The other arguments are for tests: a module in
    place of pynvml, a loader of libraries, a clock.
    """

    name = "nvml"

    def __init__(
        self,
        driver_root: Path | None = None,
        sysfs: Path = Path("/sys"),
        *,
        host: Path = Path("/"),
        deadline_seconds: float = 10.0,
        nvml: NvmlModule = PYNVML,
        load_library: Callable[[str], Any] = ctypes.CDLL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        roots = known_roots(host) if driver_root is None else (driver_root,)
        self._sysfs = sysfs
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._known = KnownGpus()
        self._worker = BoundedWorker("nvml")
        # Below: touched by the worker's job only, of which there is one at a time.
        self._nvml = nvml
        self._calls = NvmlCalls(nvml)
        self._loader = Loader(nvml, roots, load_library)
        self._session: NvmlSession | None = None
        self.mig = NvmlMigControl(self._calls, lambda: self._session is not None)
        self._patience_seconds = _PATIENCE_SECONDS

    @property
    def driver_root(self) -> Path | None:
        """The driver root whose library is in use; None before the first one was loaded."""
        return None if self._loader.loaded is None else self._loader.loaded.root

    def scan(self) -> Inventory:
        """What is there now; see `Backend.scan`."""
        try:
            scan = self._worker.run(self._scan, self._deadline_seconds)
        except StillRunningError:
            return self._unavailable(
                f"NVML has not answered for {self._deadline_seconds:g} s: look for Xid errors of the nvidia driver "
                "in the kernel log, and reboot the node if it stays so"
            )
        except UnavailableError as error:
            return self._unavailable(str(error))
        gpus, problems = self._known.merge(scan.readings)
        addresses = {gpu.pci_address for gpu in gpus}
        return Inventory(
            available=bool(scan.readings),
            driver_version=scan.driver_version,
            cuda_driver_version=scan.cuda_driver_version,
            gpus=gpus,
            problems=(
                *problems,
                *(_unlisted(address) for address in sorted(scan.unlisted - addresses)),
                *(() if scan.readings else (_no_gpu(),)),
            ),
        )

    def close(self) -> None:
        """Shut NVML down; a call that hangs is left to the end of the process."""
        try:
            self._worker.run(self._end_session, self._deadline_seconds)
        except StillRunningError:
            log.warning("nvml hangs and is not shut down")

    def _unavailable(self, message: str) -> Inventory:
        return Inventory(False, gpus=self._known.all_faulty(message), problems=(Problem(message),))

    def _scan(self) -> Scan:
        session = self._session
        if session is not None and not self._is_outdated(session):
            try:
                return self._read(session)
            except NvmlError as error:
                log.info("nvml session is over", err=str(error))
        self._end_session()
        try:
            return self._read(self._open())
        except NvmlError as error:
            self._end_session()
            raise UnavailableError(self._reason(error)) from error

    def _read(self, session: NvmlSession) -> Scan:
        scan = session.scan()
        if scan.is_complete:
            self._patience_seconds = _PATIENCE_SECONDS
        return scan

    def _is_outdated(self, session: NvmlSession) -> bool:
        last = session.last
        if last is None or not last.readings:
            return True
        bound = bound_gpus(self._sysfs)
        listed = {reading.pci_address for reading in last.readings}
        if bound != session.bound_at_open and bound - listed:
            return True
        # A GPU may stay lost, or be excluded from NVML on purpose, so tries get rarer.
        if not last.is_complete and self._clock() - session.opened >= self._patience_seconds:
            self._patience_seconds = min(2 * self._patience_seconds, _MOST_PATIENCE_SECONDS)
            return True
        return False

    def _open(self) -> NvmlSession:
        # NVML 13.5 and newer would enumerate what MPS clients see in place of the hardware.
        os.environ.pop("NVML_MPS_DEVICE_ENUMERATION", None)
        self._loader.load()
        session = NvmlSession(self._calls, self._sysfs, self._clock())
        self._calls.call(self._nvml.nvmlInitWithFlags, self._nvml.NVML_INIT_FLAG_NO_GPUS)
        log.debug("nvml session opened")
        self._session = session
        return session

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _reason(self, error: NvmlError) -> str:
        library = "NVML" if self._loader.loaded is None else str(self._loader.loaded.path)
        match error.code:
            case Code.DRIVER_NOT_LOADED:
                return (
                    f"the nvidia kernel driver is not loaded (asked with {library}): load it with "
                    "'modprobe nvidia', or wait until the driver container has done so"
                )
            case Code.LIB_RM_VERSION_MISMATCH:
                return (
                    f"{library} is of another version than the loaded nvidia kernel driver: reload the driver or "
                    "reboot the node after an upgrade"
                )
            case Code.NO_PERMISSION:
                return f"{library} may not be used by the plugin: run it privileged, with the node's /dev"
            case _:
                return f"NVML cannot be asked ({error}, with {library}): look for the nvidia driver in the kernel log"


def _no_gpu() -> Problem:
    return Problem(
        "NVML lists no GPU on this node: if it has one, look in the kernel log whether the nvidia driver binds it; "
        "GPUs that appear later are published"
    )


def _unlisted(address: str) -> Problem:
    return Problem(
        f"the GPU at {address} is bound to the nvidia driver, but NVML does not list it: look for its Xid in the "
        "kernel log, and whether it is excluded from NVML",
        address,
    )

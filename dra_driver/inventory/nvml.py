"""The node's hardware as NVML tells of it. The only module that imports pynvml.

One session lives as long as the process: without persistence mode each init loads GPU state anew (seconds a
GPU), and lookups were seen to take ten seconds while other sessions came and went. It is opened again

* after NVML said that it is over: Uninitialized, driver unloaded, or a library that an upgrade of the
  driver left behind (then the new library is loaded, if there is one);
* while it lists no GPU, or fewer than the kernel has bound to the driver: a driver that is still binding
  GPUs at boot must not leave the node empty, or at seven of eight, for ever;
* now and then while a GPU is lost, for it may have been reset since.

A scan never raises and never hangs: it runs in a worker under a deadline. Where NVML cannot be asked, the
inventory is not available, says why in one sentence, and the next scan tries from the library search on.
"""

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml
import structlog

from dra_driver.errors import UnavailableError
from dra_driver.inventory import sysfs as pci
from dra_driver.inventory.bounded import BoundedWorker, StillRunningError
from dra_driver.inventory.known import KnownGpus
from dra_driver.inventory.model import Inventory, Problem
from dra_driver.inventory.nvml_api import (
    Code,
    Handle,
    NvmlCalls,
    NvmlError,
    NvmlModule,
    text,
)
from dra_driver.inventory.nvml_library import Loader, known_roots
from dra_driver.inventory.nvml_reader import Reading, failed, read_gpu

log = structlog.get_logger(__name__)

PYNVML: NvmlModule = pynvml

_NO_GPU = (
    "NVML lists no GPU on this node: if it has one, look with 'dmesg' whether the nvidia driver binds it; "
    "GPUs that appear later are published"
)

_MOST_PATIENCE_SECONDS = 3600.0


@dataclass(slots=True)
class _Session:
    """An initialised NVML, and what it gave so far."""

    opened: float  # by the backend's clock
    bound: frozenset[str]  # PCI addresses that the kernel had bound when it was opened
    count: int = 0
    uuids: dict[int, str] = field(default_factory=dict)  # by NVML index, of GPUs that could be identified
    handles: dict[str, Handle] = field(default_factory=dict)  # by UUID
    addresses: frozenset[str] = frozenset()  # of the GPUs that the last scan found
    unwell: bool = False  # whether the last scan found a GPU that does not answer


@dataclass(frozen=True, slots=True)
class _Scan:
    readings: tuple[Reading, ...]
    driver_version: str | None
    cuda_driver_version: int | None


class NvmlBackend:
    """`Backend` on NVML.

    `driver_root` is where the driver is installed, as the plugin sees it; None tries the known places. The
    other arguments are for tests: another module in place of pynvml, another loader, another clock.
    """

    name = "nvml"

    def __init__(
        self,
        driver_root: Path | None = None,
        sysfs: Path = Path("/sys"),
        *,
        deadline_seconds: float = 10.0,
        reopen_seconds: float = 60.0,
        nvml: NvmlModule = PYNVML,
        load_library: Callable[[str], Any] = ctypes.CDLL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sysfs = sysfs
        self._deadline_seconds = deadline_seconds
        self._reopen_seconds = reopen_seconds
        self._nvml = nvml
        self._calls = NvmlCalls(nvml)
        roots = known_roots() if driver_root is None else (driver_root,)
        self._loader = Loader(nvml, roots, load_library)
        self._clock = clock
        self._known = KnownGpus()
        self._worker = BoundedWorker("nvml")
        # Below: touched by the worker's job only, of which there is one at a time.
        self._session: _Session | None = None
        self._patience = reopen_seconds

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
        if not scan.readings:
            problems = (*problems, Problem(_NO_GPU))
        return Inventory(
            available=bool(scan.readings),
            driver_version=scan.driver_version,
            cuda_driver_version=scan.cuda_driver_version,
            gpus=gpus,
            problems=problems,
        )

    def close(self) -> None:
        """Shut NVML down; a call that hangs is left to the end of the process."""
        try:
            self._worker.run(self._end_session, self._deadline_seconds)
        except StillRunningError:
            log.warning("nvml hangs and is not shut down")

    def _unavailable(self, message: str) -> Inventory:
        return Inventory(False, gpus=self._known.all_faulty(message), problems=(Problem(message),))

    def _scan(self) -> _Scan:
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

    def _read(self, session: _Session) -> _Scan:
        nvml, calls = self._nvml, self._calls
        count = calls.call(nvml.nvmlDeviceGetCount)
        if count != session.count:  # indices have moved
            session.count = count
            session.uuids.clear()
            session.handles.clear()
        readings = tuple(self._read_index(session, index) for index in range(count))
        session.addresses = frozenset(r.pci_address for r in readings if r.pci_address is not None)
        session.unwell = any(reading.gpu is None or reading.gpu.fault is not None for reading in readings)
        if not session.unwell and pci.bound_gpus(self._sysfs) <= session.addresses:
            self._patience = self._reopen_seconds
        version = calls.optional(nvml.nvmlSystemGetDriverVersion)
        return _Scan(
            readings,
            None if version is None else text(version),
            calls.optional(nvml.nvmlSystemGetCudaDriverVersion),
        )

    def _read_index(self, session: _Session, index: int) -> Reading:
        last_uuid = session.uuids.get(index)
        handle = None if last_uuid is None else session.handles.pop(last_uuid, None)
        try:
            if handle is None:
                handle = self._calls.call(self._nvml.nvmlDeviceGetHandleByIndex, index)
        except NvmlError as error:
            return failed(index, error, last_uuid)
        reading = read_gpu(self._calls, handle, index, self._sysfs, last_uuid)
        if reading.gpu is not None and reading.gpu.fault is None:
            session.uuids[index] = reading.gpu.uuid
            session.handles[reading.gpu.uuid] = handle
        return reading

    def _is_outdated(self, session: _Session) -> bool:
        if session.count == 0:
            return True
        bound = pci.bound_gpus(self._sysfs)
        unlisted = bool(bound - session.addresses)
        if unlisted and bound != session.bound:
            return True
        # A GPU may stay lost, or be excluded from NVML on purpose, so tries get rarer.
        if (unlisted or session.unwell) and self._clock() - session.opened >= self._patience:
            self._patience = min(2 * self._patience, _MOST_PATIENCE_SECONDS)
            return True
        return False

    def _open(self) -> _Session:
        # NVML 13.5 and newer would enumerate what MPS clients see in place of the hardware.
        os.environ.pop("NVML_MPS_DEVICE_ENUMERATION", None)
        self._loader.load()
        bound = pci.bound_gpus(self._sysfs)
        self._calls.call(self._nvml.nvmlInitWithFlags, self._nvml.NVML_INIT_FLAG_NO_GPUS)
        self._session = _Session(self._clock(), bound)
        log.debug("nvml session opened")
        return self._session

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            self._calls.call(self._nvml.nvmlShutdown)
        except NvmlError as error:
            log.debug("nvml was shut down already", err=str(error))

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

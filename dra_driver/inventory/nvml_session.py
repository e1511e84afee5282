"""One initialised NVML: the handles it gave, and what the last scan found through them.

Handles are kept by UUID while a GPU is well, since looking one up can take seconds; the handle of a GPU that
did not answer is dropped and asked for again, and all are when the number of GPUs changes, for then NVML's
indices have moved. A session is never reopened from here: it raises, and its owner opens another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import structlog

from dra_driver.errors import HardwareError
from dra_driver.inventory.known import Reading
from dra_driver.inventory.nvml_api import SESSION_CODES, Handle, NvmlCalls, NvmlError, text
from dra_driver.inventory.nvml_reader import failed, read_gpu
from dra_driver.inventory.sysfs import bound_gpus

log = structlog.get_logger(__name__)

T = TypeVar("T")

_MOST_GPUS = 256  # as many as the driver has minor numbers for


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over the GPUs of a session gave."""

    readings: tuple[Reading, ...]  # by NVML index
    unlisted: frozenset[str]  # PCI addresses of GPUs that are bound to the driver but not among the readings
    driver_version: str | None
    cuda_driver_version: int | None

    @property
    def is_complete(self) -> bool:
        """Whether every GPU that the kernel has bound was read in full."""
        return not self.unlisted and all(r.gpu is not None and r.gpu.fault is None for r in self.readings)


class NvmlSession:
    """A session that is open; `opened` is when, by its owner's clock."""

    def __init__(self, calls: NvmlCalls, sysfs: Path, opened: float) -> None:
        self.opened = opened
        self.last: Scan | None = None
        self.bound_at_open = bound_gpus(sysfs)
        self._calls = calls
        self._sysfs = sysfs
        self._count = 0
        self._uuids: dict[int, str] = {}  # by NVML index, of GPUs that could be identified
        self._handles: dict[str, Handle] = {}  # by UUID
        # Whether a GPU may say that the session is over without ending it: at first, since the session was
        # opened just now, and then if one did so at first.
        self._is_tolerant = True

    def scan(self) -> Scan:
        """Read every GPU; raises NvmlError where the session is over."""
        nvml = self._calls.module
        count = self._calls.count(_MOST_GPUS, nvml.nvmlDeviceGetCount)
        if count != self._count:
            self._count = count
            self._uuids.clear()
            self._handles.clear()
        readings = tuple(self._read(index) for index in range(count))
        self._is_tolerant = any(_is_over(reading.error) for reading in readings)
        version = self._ask_system(nvml.nvmlSystemGetDriverVersion)
        self.last = Scan(
            readings,
            bound_gpus(self._sysfs) - {reading.pci_address for reading in readings},
            None if version is None else text(version),
            self._ask_system(nvml.nvmlSystemGetCudaDriverVersion),
        )
        return self.last

    def _read(self, index: int) -> Reading:
        last_uuid = self._uuids.get(index)
        handle = None if last_uuid is None else self._handles.pop(last_uuid, None)
        try:
            if handle is None:
                handle = self._calls.call(self._calls.module.nvmlDeviceGetHandleByIndex, index)
        except NvmlError as error:
            reading = failed(index, error, last_uuid)
        else:
            reading = read_gpu(self._calls, handle, index, self._sysfs, last_uuid)
        if reading.error is not None and _is_over(reading.error) and not self._is_tolerant:
            raise reading.error
        gpu = reading.gpu
        if gpu is not None and gpu.fault is None:
            if gpu.uuid in self._handles:  # of another GPU that says it has this UUID too
                self._uuids.pop(index, None)
            else:
                self._uuids[index] = gpu.uuid
                self._handles[gpu.uuid] = handle
        return reading

    def _ask_system(self, function: Callable[[], T]) -> T | None:
        try:
            return self._calls.call(function)
        except NvmlError as error:  # LibraryNotFound is about libcuda here, not about the session
            log.debug("nvml does not tell", err=str(error))
            return None

    def close(self) -> None:
        """Give NVML back."""
        try:
            self._calls.call(self._calls.module.nvmlShutdown)
        except NvmlError as error:
            log.debug("nvml was shut down already", err=str(error))


def _is_over(error: HardwareError | None) -> bool:
    return isinstance(error, NvmlError) and error.code in SESSION_CODES

"""Sessions of the fake NVML: init and shutdown, handles, and how every call begins.

The habits of the real one that bite:

* handles are new objects on every call and die with their session, which lasts from the first init to the last
  shutdown; its GPUs are those that were there when it was opened (`live` for drivers that tell of later ones);
* every call before init or after the last shutdown is Uninitialized;
* a feature that a GPU does not have (None) is NotSupported, a struct version or function that the
  driver is too old for is what `errors` says;
* `lost` GPUs answer GPU_IS_LOST to everything, the others go on;
* a call listed in `hangs` does not return until its event is set.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from dra_driver.inventory.nvml import PYNVML
from dra_driver.inventory.nvml_api import Code
from tests.unit.inventory.nvml.fake_gpu import FakeGpu

T = TypeVar("T")


class Handle:
    """An opaque pointer into one session."""

    def __init__(self, session: int, target: Any, parent: FakeGpu) -> None:
        self.session, self.target, self.parent = session, target, parent


class FakeSession:
    """Sessions over a list of GPUs that a test may change between two scans."""

    NVMLError = PYNVML.NVMLError
    NVML_INIT_FLAG_NO_GPUS = PYNVML.NVML_INIT_FLAG_NO_GPUS

    def __init__(
        self,
        gpus: list[FakeGpu],
        *,
        driver_version: str | bytes = "580.95.05",
        cuda_driver_version: int = 13000,
        live: bool = False,
    ) -> None:
        self.gpus = gpus
        self.driver_version = driver_version
        self.cuda_driver_version = cuda_driver_version
        self.live = live
        self.errors: dict[str, int] = {}  # of calls that are about no GPU
        self.hangs: dict[str, threading.Event] = {}
        self.refused: set[str] = set()  # library files
        self.calls: list[str] = []
        self.sessions = 0
        self.nvmlLib: Any = None
        self._nvmlGetFunctionPointer_cache: dict[str, Any] = {}
        self._mutex = threading.Lock()
        self._references = 0
        self._listed: list[FakeGpu] = []

    def load_library(self, path: str) -> object:
        """In place of ctypes.CDLL: any path is a library, but for those that are `refused`."""
        if path in self.refused:
            msg = f"{path}: wrong ELF class: ELFCLASS32"
            raise OSError(msg)
        return path

    # Session

    def nvmlInitWithFlags(self, flags: int, /) -> None:
        self._enter("nvmlInitWithFlags")
        if self.nvmlLib is None:
            raise self.error(Code.LIBRARY_NOT_FOUND)
        if not self.gpus and not flags & self.NVML_INIT_FLAG_NO_GPUS:
            raise self.error(Code.NOT_FOUND)
        with self._mutex:
            if self._references == 0:
                self.sessions += 1
                self._listed = list(self.gpus)
            self._references += 1

    def nvmlShutdown(self) -> None:
        self.enter_session("nvmlShutdown")
        with self._mutex:
            self._references -= 1

    def end_session(self) -> None:
        """As a driver reload does: what was opened is Uninitialized from now on."""
        self._references = 0

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        self.enter_session("nvmlSystemGetDriverVersion")
        return self.driver_version

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        self.enter_session("nvmlSystemGetCudaDriverVersion")
        return self.cuda_driver_version

    # How every call begins

    def error(self, code: int) -> Exception:
        return self.NVMLError(code)

    def _enter(self, function: str) -> None:
        self.calls.append(function)
        if function in self.hangs:
            self.hangs[function].wait()
        if function in self.errors:
            raise self.error(self.errors[function])

    def enter_session(self, function: str) -> None:
        self._enter(function)
        if self._references <= 0:
            raise self.error(Code.UNINITIALIZED)

    def devices(self) -> list[FakeGpu]:
        return self.gpus if self.live else self._listed

    def check(self, gpu: FakeGpu, function: str) -> None:
        if gpu.lost:
            raise self.error(Code.GPU_IS_LOST)
        if function in gpu.errors:
            raise self.error(gpu.errors[function])

    def gpu(self, handle: Any, function: str) -> FakeGpu:
        self.enter_session(function)
        if handle.session != self.sessions:
            raise self.error(Code.INVALID_ARGUMENT)
        gpu: FakeGpu = handle.parent
        self.check(gpu, function)
        if function in getattr(handle.target, "errors", ()):
            raise self.error(handle.target.errors[function])
        return gpu

    def had(self, value: T | None) -> T:
        if value is None:
            raise self.error(Code.NOT_SUPPORTED)
        return value


def struct(name: str, **fields: int) -> Any:
    """An instance of pynvml's struct `name`."""
    kind: Callable[[], Any] = getattr(PYNVML, name)
    struct = kind()
    for key, value in fields.items():
        setattr(struct, key, value)
    return struct

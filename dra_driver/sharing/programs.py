"""Programs of the installed driver, run from where it is: nvidia-smi, and the control program of MPS.

They come with the driver, and need its libraries, which the plugin's own image has not. nvidia-smi opens NVML by name,
so the library is preloaded by path (LD_PRELOAD). A search path would not do on a host's own root: that has a libc
too, which does not fit our dynamic loader. The environment is made anew, so that no LD_PRELOAD, CUDA_VISIBLE_DEVICES or
the like of the plugin's reaches them. Every run has a deadline, at which it is killed: nvidia-smi hangs with a sick
GPU.
"""

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dra_driver.cdi.look import Look
from dra_driver.cdi.programs import find_programs
from dra_driver.cdi.root import Root
from dra_driver.errors import HardwareError, UnavailableError
from dra_driver.inventory.nvml_library import find_libraries

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class MissingProgramError(HardwareError):
    """The driver, or this part of it, is not installed now."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    code: int
    output: str  # both streams, as one line

    @property
    def ok(self) -> bool:
        return self.code == 0


class DriverPrograms:
    """The programs under the driver root, which is asked for at each use, since it may come late or move."""

    def __init__(self, root: Callable[[], Path], *, simulated: bool = False) -> None:
        """`simulated`: the root's libraries are none, and cannot be preloaded."""
        self._root = root
        self.simulated = simulated

    @property
    def root(self) -> Path:
        """Where the driver root is now, for us."""
        return self._root()

    def find(self, name: str) -> Path:
        """Where the program is for us; MissingProgramError where the driver has none."""
        root = self.root
        look = Look(Root(PurePosixPath("/"), root))
        for program in find_programs(look):
            if program.container_path.rpartition("/")[2] == name:
                return Path(look.local_path(program.host_path))
        raise MissingProgramError(
            f"{name} was not found under the driver root {root}; install the whole NVIDIA driver on the node"
        )

    def environment(self) -> dict[str, str]:
        """What a program needs that only opens NVML."""
        environment = {"PATH": PATH, "LANG": "C"}
        root = self.root
        if root != Path("/") and not self.simulated:
            library = next(find_libraries([root]), None)
            if library is not None:
                environment["LD_PRELOAD"] = str(library.path)
        return environment

    def run(self, name: str, *arguments: str, seconds: float) -> Finished:
        """Run a program to its end; UnavailableError where it takes longer than `seconds`."""
        return run(
            [str(self.find(name)), *arguments], environment=self.environment(), given="", seconds=seconds
        )


def run(command: list[str], *, environment: dict[str, str], given: str, seconds: float) -> Finished:
    """Run `command` with `given` as its input; UnavailableError where it takes too long, and is killed."""
    name = PurePosixPath(command[0]).name
    try:
        process = subprocess.Popen(  # noqa: S603 - a program of the driver, with arguments that we made
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise HardwareError(f"{name} cannot be run on the node: {error.strerror}") from error
    with process:
        try:
            output, _ = process.communicate(given, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and whatever it has started, which holds the pipe open
            raise UnavailableError(
                f"{name} did not end within {seconds:g} s on the node; look whether one of its GPUs hangs"
            ) from None
    return Finished(process.returncode, " ".join(output.split()))

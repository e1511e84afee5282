"""One MPS daemon, kept running: its directory, its process, and the conversation that makes it ready.

A thread for each starts the control program in the foreground, tells it the limits, and waits for it to end, which
it should not: then it is started again, a little later each time. Clients of a daemon that ended get CUDA errors, and
find the new one when their container is restarted. The thread has to live as long as the process, for that is killed
with the thread that started it.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from dra_driver.errors import DriverError, HardwareError, UnavailableError, one_line
from dra_driver.inventory.nvml_library import find_libraries
from dra_driver.sharing import kernel, programs
from dra_driver.sharing.daemon import DaemonSpec
from dra_driver.sharing.programs import DriverPrograms
from dra_driver.sharing.supervision import DaemonDirectory

log = structlog.get_logger(__name__)

_PROGRAM = "nvidia-cuda-mps-control"
_COMMAND_SECONDS = 10.0
_QUIT_SECONDS = 5.0
_LOOK_SECONDS = 0.2  # between two looks whether a daemon answers that was just started
_DELAYS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before the next start
_LAST_LINES = 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where daemons run."""

    root: Path  # the driver's, as we see it
    simulated: bool
    shm_bytes: int


class Keeper:
    """Runs the daemon of `spec` in `directory`, from `start` until `stop`."""

    def __init__(self, spec: DaemonSpec, directory: DaemonDirectory, around: Surroundings) -> None:
        self.spec = spec
        self._directory = directory
        self._around = around
        self._programs = DriverPrograms(lambda: around.root, simulated=around.simulated)
        self._state = threading.Condition()  # guards the three below
        self._ready = False
        self._trouble = ""  # why it is not ready
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"mps-{spec.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Until the daemon answers; HardwareError with what it said last where it does not in time."""
        with self._state:
            if not self._state.wait_for(lambda: self._ready, seconds):
                text = f"the MPS daemon for {', '.join(self.spec.devices)} does not get ready"
                raise HardwareError(f"{text}: {self._trouble or self._last_lines() or 'it says nothing'}")

    def stop(self) -> None:
        """End the daemon; returns when its process is gone."""
        self._stopping.set()
        with self._state:
            process = self._process
        if process is not None:
            try:
                self._tell("quit")
                process.wait(_QUIT_SECONDS)
            except (DriverError, subprocess.TimeoutExpired) as error:
                log.warning("MPS daemon killed", daemon=self.spec.name, err=one_line(error))
                _kill(process)
        self._thread.join()

    def _keep(self) -> None:
        tries = 0
        while not self._stopping.is_set():
            try:
                tries = 0 if self._run_once() else tries + 1
            except (DriverError, OSError) as error:
                tries += 1
                self._note(ready=False, trouble=one_line(error))
                log.error("MPS daemon does not run", daemon=self.spec.name, err=one_line(error))  # noqa: TRY400 - its text is all there is to say
            except Exception as error:
                # The claims of its devices wait for it, and nobody else starts it again.
                tries += 1
                self._note(ready=False, trouble=f"internal error: {one_line(error)}")
                log.exception(
                    "MPS daemon does not run, for a reason that is a fault of this driver",
                    daemon=self.spec.name,
                )
            self._stopping.wait(_DELAYS[min(tries, len(_DELAYS) - 1)])

    def _run_once(self) -> bool:
        """Run the daemon to its end; whether it was ready."""
        for path in (self._directory.pipe, self._directory.log):
            path.mkdir(mode=0o755, exist_ok=True)
        for left in self._directory.pipe.iterdir():  # by the daemon before; containers have the directory
            left.unlink()
        with (self._directory.log / "output.log").open("wb") as output:
            options = ["-f", *(["-M"] if self.spec.multi_user else [])]
            process = subprocess.Popen(  # noqa: S603 - a program of the driver, with arguments that we made
                self._command(*options),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        with self._state:
            self._process = process
        try:
            ready = self._get_ready(process)
            if not ready:
                _kill(process)
            code = process.wait()
        finally:
            _kill(process)
            process.wait()
            with self._state:
                self._process = None
        if not self._stopping.is_set():
            self._note(ready=False, trouble=f"it ended with code {code}; {self._last_lines()}".rstrip("; "))
            log.error("MPS daemon ended", daemon=self.spec.name, code=code, last=self._last_lines())
        return ready

    def _get_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Set the limits as soon as the daemon answers; False where it ended before."""
        trouble = ""
        while process.poll() is None and not self._stopping.is_set():
            try:
                self._tell("get_default_active_thread_percentage")
            except (HardwareError, UnavailableError) as error:
                if one_line(error) != trouble:
                    trouble = one_line(error)
                    self._note(ready=False, trouble=f"{trouble}; {self._last_lines()}".rstrip("; "))
                self._stopping.wait(_LOOK_SECONDS)
                continue
            for command in self.spec.commands():
                self._tell(command)
            self._note(ready=True, trouble="")
            log.info("MPS daemon is ready", daemon=self.spec.name, devices=list(self.spec.devices))
            return True
        return False

    def _tell(self, command: str) -> None:
        """Give the control daemon a command; HardwareError where it refuses."""
        done = programs.run(
            self._command(), environment=self._environment(), given=f"{command}\n", seconds=_COMMAND_SECONDS
        )
        if not done.ok or "error" in done.output.lower() or "invalid" in done.output.lower():
            raise HardwareError(
                f"{_PROGRAM} answered {command.split(maxsplit=1)[0]} with {done.output[:200]!r} and code {done.code}"
            )

    def _command(self, *options: str) -> list[str]:
        program = self._programs.find(_PROGRAM)
        root, around = "-", self._around
        if around.simulated and not self._directory.shm.is_mount():
            root = "--plain"
        elif self._is_entered():
            root, program = str(around.root), Path("/") / program.relative_to(around.root)
        launcher = [sys.executable, "-m", "dra_driver.sharing.launch", str(os.getpid())]
        return [*launcher, str(self._directory.path), root, str(program), *options]

    def _environment(self) -> dict[str, str]:
        around = self._around
        environment = {
            "PATH": f"{self._programs.find(_PROGRAM).parent}:{programs.PATH}",  # where it finds the server
            "LANG": "C",
            "CUDA_VISIBLE_DEVICES": ",".join(self.spec.devices),
        }
        if around.root != Path("/") and not around.simulated and not self._is_entered():
            library = next(find_libraries([around.root]), None)
            if library is not None:
                environment["LD_LIBRARY_PATH"] = str(library.path.parent)
        return environment

    def _is_entered(self) -> bool:
        """Whether the driver root is a system of its own."""
        root = self._around.root
        return root != Path("/") and any((root / shell).exists() for shell in ("bin/sh", "usr/bin/sh"))

    def _note(self, *, ready: bool, trouble: str) -> None:
        with self._state:
            self._ready, self._trouble = ready, trouble
            self._state.notify_all()

    def _last_lines(self) -> str:
        """The end of the daemon's logs, as one line."""
        lines: list[str] = []
        for name in ("control.log", "output.log"):
            try:
                lines += (self._directory.log / name).read_text(errors="replace").splitlines()
            except OSError:
                continue
        return " | ".join(line.strip()[:200] for line in lines[-_LAST_LINES:])


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a daemon, and the servers that it has started: a GPU in use by one of them has no place for the next."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def make_directory(directory: DaemonDirectory, around: Surroundings) -> None:
    """Make what a daemon needs; OSError where that is not allowed."""
    directory.shm.mkdir(mode=0o755, parents=True, exist_ok=True)
    if directory.shm.is_mount():
        return
    try:
        kernel.mount_tmpfs(directory.shm, around.shm_bytes)
    except PermissionError:
        if not around.simulated:
            raise


def clear_directory(directory: DaemonDirectory) -> None:
    """Remove all of it, the tmpfs first; no error where there is nothing."""
    if directory.path.is_dir():
        kernel.unmount(directory.shm)
        shutil.rmtree(directory.path)

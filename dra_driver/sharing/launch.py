"""What becomes the MPS control program: a process that first gives itself the surroundings of its daemon.

    python -m dra_driver.sharing.launch SUPERVISOR DIRECTORY ROOT PROGRAM [ARGUMENT...]

In mounts of its own, the daemon's tmpfs is /dev/shm. ROOT is a driver root with a libc of its own, such as a driver
container's, which is entered (there the program runs as at home, and the daemon's directories are bound below /tmp); or "-":
the program runs here, as on systems whose driver root has the driver alone. "--plain" in place of ROOT is for
simulated drivers where nothing may be mounted.

It is killed together with the supervisor (a process id), which starts a daemon that it does not find anyway. Only the standard library
is loaded.
"""

import os
import sys
from pathlib import Path

from dra_driver.sharing import kernel

_ENTERED = Path("/tmp/nvidia-mps")


def main(arguments: list[str]) -> None:
    supervisor, directory, root, *command = int(arguments[0]), Path(arguments[1]), *arguments[2:]
    kernel.die_with(supervisor)
    pipe, log = directory / "pipe", directory / "log"
    if root != "--plain":
        kernel.own_mounts()
        top = Path("/") if root == "-" else Path(root)
        kernel.bind(directory / "shm", top / "dev/shm")
        if root != "-":
            kernel.mount_tmpfs(top / "tmp", 1 << 20)
            for source in (pipe, log):
                inside = top / _ENTERED.relative_to("/") / source.name
                inside.mkdir(parents=True)
                kernel.bind(source, inside)
            os.chroot(top)
            os.chdir("/")
            pipe, log = _ENTERED / "pipe", _ENTERED / "log"
    os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"] = str(pipe), str(log)
    os.execv(command[0], command)  # noqa: S606 - a program of the driver


if __name__ == "__main__":
    main(sys.argv[1:])

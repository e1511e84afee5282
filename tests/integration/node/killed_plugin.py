"""A node plugin that kills itself at its n-th write or removal of state; run as a process by the tests.

Usage: killed_plugin.py SURVIVE PHASE FLAGS...: it lets SURVIVE writes through and dies at the next one, "before"
it, "halfway" (with the temporary file written) or "after" it. SIGKILL, so nothing is cleaned up.
"""

import os
import signal
import sys
from pathlib import Path

import dra_driver.files
from dra_driver.files import AnyPath
from dra_driver.node import flags
from dra_driver.node.main import serve


class KillingFiles:
    """`dra_driver.files`, up to a point."""

    def __init__(self, survive: int, phase: str) -> None:
        self._survive = survive
        self._phase = phase

    def write_atomic(self, path: AnyPath, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
        dying = self._dying(path)
        if dying and self._phase == "halfway":
            (Path(path).parent / f".dra-{Path(path).name}-half.tmp").write_bytes(data[: len(data) // 2])
        if dying and self._phase != "after":
            _die()
        dra_driver.files.write_atomic(path, data, mode=mode, sync=sync)
        if dying:
            _die()

    def write_new(self, path: AnyPath, data: bytes, *, mode: int = 0o600) -> bool:
        if Path(path).exists():
            return False  # writes nothing
        dying = self._dying(path)
        if dying and self._phase == "halfway":
            dra_driver.files.write_new(path, data[: len(data) // 2], mode=mode)
        if dying and self._phase != "after":
            _die()
        written = dra_driver.files.write_new(path, data, mode=mode)
        if dying:
            _die()
        return written

    def remove(self, path: AnyPath, *, sync: bool = True) -> bool:
        dying = self._dying(path)
        if dying and self._phase != "after":
            _die()
        removed = dra_driver.files.remove(path, sync=sync)
        if dying:
            _die()
        return removed

    def _dying(self, path: AnyPath) -> bool:
        if not Path(path).parent.exists():
            return False  # a write that fails, and is made again once there is the directory
        self._survive -= 1
        return self._survive == -1


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    survive, phase, *arguments = sys.argv[1:]
    return serve(flags.parse(arguments), files=KillingFiles(int(survive), phase))


if __name__ == "__main__":
    sys.exit(main())

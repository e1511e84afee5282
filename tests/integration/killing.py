"""Files that end the plugin's process between any two changes to them, without a process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dra_driver.files
from dra_driver.files import AnyPath


class Killed(BaseException):
    """Stands for SIGKILL: no `except Exception` sees it, so no clean-up runs."""


class KillingFiles:
    """Lets `survive` writes and removals through, those of the simulated hardware among them, and dies at the next."""

    def __init__(self, survive: int, *, after: bool) -> None:
        self.survive = survive
        self._after = after
        self.done: list[str] = []  # names of what was written, "-" before what was removed

    def write_atomic(self, path: AnyPath, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
        self._do(Path(path).name, lambda: dra_driver.files.write_atomic(path, data, mode=mode, sync=sync))

    def write_new(self, path: AnyPath, data: bytes, *, mode: int = 0o600) -> bool:
        if Path(path).exists():
            return False
        written: bool = self._do(Path(path).name, lambda: dra_driver.files.write_new(path, data, mode=mode))
        return written

    def remove(self, path: AnyPath, *, sync: bool = True) -> bool:
        removed: bool = self._do(f"-{Path(path).name}", lambda: dra_driver.files.remove(path, sync=sync))
        return removed

    def _do(self, name: str, action: Callable[[], Any]) -> Any:
        self.survive -= 1
        if self.survive == -1 and not self._after:
            raise Killed
        answer = action()
        self.done.append(name)
        if self.survive == -1:
            raise Killed
        return answer

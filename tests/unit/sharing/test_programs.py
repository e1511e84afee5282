"""Programs of the driver: where they are found, what environment they get, and that none is waited for for ever."""

import time
from pathlib import Path
from typing import Any

import pytest

from dra_driver.errors import HardwareError, UnavailableError
from dra_driver.sharing.programs import DriverPrograms, MissingProgramError, run


def test_a_program_is_found_under_the_driver_root(root: Any) -> None:
    assert root.path / "usr/bin/nvidia-smi" == root.programs.find("nvidia-smi")


def test_a_driver_root_without_the_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        MissingProgramError, match=f"nvidia-smi was not found under the driver root {tmp_path}"
    ):
        DriverPrograms(lambda: tmp_path).find("nvidia-smi")


def test_the_drivers_nvml_is_preloaded_by_its_path(root: Any) -> None:
    (library,) = root.path.glob("usr/lib/*/libnvidia-ml.so.1")

    environment = DriverPrograms(lambda: root.path).environment()

    assert str(library.resolve()) == environment["LD_PRELOAD"]
    assert "LD_LIBRARY_PATH" not in environment


def test_nothing_is_preloaded_where_the_driver_is_in_our_own_root_or_simulated(root: Any) -> None:
    assert {"PATH", "LANG"} == set(DriverPrograms(lambda: Path("/")).environment())
    assert {"PATH", "LANG"} == set(root.programs.environment())


def test_the_plugins_own_environment_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")

    done = run(["/usr/bin/env"], environment={"A": "1"}, given="", seconds=60)

    assert (0, "A=1") == (done.code, done.output)


def test_a_program_that_hangs_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 600 & echo $! >{pid}; wait"

    with pytest.raises(UnavailableError, match=r"sh did not end within 2 s on the node"):
        run(["/bin/sh", "-c", script], environment={"PATH": "/usr/bin:/bin"}, given="", seconds=2)

    deadline = time.monotonic() + 60
    while runs(int(pid.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"  # whoever reaps it
    except OSError:
        return False


def test_what_is_no_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("text")

    with pytest.raises(HardwareError, match="nvidia-smi cannot be run on the node: Permission denied"):
        run([str(tmp_path / "nvidia-smi")], environment={}, given="", seconds=1)

"""What scripts/runtimes.py makes of packages of older and newer releases of Debian."""

import subprocess
from pathlib import Path

import pytest

from scripts.runtimes import unpack

pytestmark = pytest.mark.runtime


@pytest.mark.parametrize("place", ["bin", "usr/bin"])
def test_a_program_has_one_name_wherever_its_package_puts_it(place: str, tmp_path: Path) -> None:
    deb = _package(tmp_path / "made", f"{place}/busybox")

    unpack(deb, tmp_path / "tools")

    assert "the program" == (tmp_path / "tools/bin/busybox").read_text()


def test_a_second_package_leaves_the_programs_of_the_first(tmp_path: Path) -> None:
    unpack(_package(tmp_path / "first", "usr/bin/busybox"), tmp_path / "tools")
    unpack(_package(tmp_path / "second", "usr/bin/runc"), tmp_path / "tools")

    assert ["busybox", "runc"] == sorted(path.name for path in (tmp_path / "tools/bin").iterdir())


def _package(root: Path, program: str) -> Path:
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: some\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.com>\nDescription: some\n"
    )
    (root / program).parent.mkdir(parents=True)
    (root / program).write_text("the program")
    deb = root.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "--build", root, deb], check=True, capture_output=True)
    return deb

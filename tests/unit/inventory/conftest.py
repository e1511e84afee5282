"""Tests marked `root` run where device nodes can be made, which root in a container may not be allowed to."""

import os
import stat
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _skip_without_device_nodes(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("root") is None:
        return
    path: Path = request.getfixturevalue("tmp_path") / "probe"
    try:
        os.mknod(path, stat.S_IFCHR, os.makedev(240, 0))
    except PermissionError:
        pytest.skip("needs the right to make device nodes")
    path.unlink()

"""What all tests share: which of them may be skipped, and a Python that is told so."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from scripts import runtimes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-programs",
        action="store_true",
        help="fail, rather than skip, tests whose program is missing",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = {}
    if os.geteuid() != 0:
        missing["root"] = "needs root"
    if not (Path(sys.executable).parent / "kubectl").exists() and shutil.which("kubectl") is None:
        missing["kubectl"] = "there is no kubectl"
    if not runtimes.installed():
        missing["runtime"] = "there are no container runtimes (scripts/runtimes.py fetches them)"
    if config.getoption("--strict-programs"):
        if missing:
            raise pytest.UsageError(f"--strict-programs: {', '.join(missing.values())}")
        return
    for item in items:
        for marker, reason in missing.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))

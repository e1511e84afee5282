"""What all tests share: which of them may be skipped, a Python that is told so, and examples that are the same each time."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts import runtimes

# On a machine that does something else as well an example may take any time, and a change is judged by its own merits,
# not by examples that nobody had before it: `--hypothesis-profile=default` looks for new ones.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# Processes that tests start take warnings for errors too, as pyproject.toml says of this one.
os.environ["PYTHONWARNINGS"] = "error"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-programs",
        action="store_true",
        help="fail, rather than skip, tests whose program is missing",
    )


@pytest.fixture(scope="session", autouse=True)
def first_example() -> None:
    """A controller in this process freezes what the garbage collector knows; on Python 3.14 Hypothesis, at its first
    example after that, takes its own random generator for one that nobody holds, and warns."""
    given(st.none())(lambda _: None)()


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

"""SIGKILL between any two writes of a prepare or an unprepare: nothing is lost, nothing leaks."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.cluster import PluginProcess
from dra_driver.kube.resources import PODS

_KILLED = Path(__file__).parent / "killed_plugin.py"
_WRITES = 3  # of a prepare: metadata, spec, record
_REMOVALS = 3  # of an unprepare: spec, metadata, record


def _dying_plugin(node: Any, survive: int, phase: str) -> PluginProcess:
    """The node's plugin, replaced by one that will kill itself."""
    node.published(4)
    node.plugin.stop()
    dying: PluginProcess = node.spawn(
        sys.executable, str(_KILLED), str(survive), phase, *node.plugin.command[4:]
    )
    return dying


@pytest.mark.parametrize(
    ("survive", "phase"),
    [
        *((number, phase) for number in range(_WRITES) for phase in ("before", "halfway")),
        (_WRITES - 1, "after"),
    ],
)
def test_a_prepare_killed_anywhere_is_completed_by_the_next_process(
    node: Any, survive: int, phase: str
) -> None:
    dying = _dying_plugin(node, survive, phase)
    node.run_pod("a", count=2)
    assert -signal.SIGKILL == dying.wait(node.seconds)

    node.restart()

    node.running("a")
    assert node.state_of("a") == node.state()
    assert 4 == len(node.devices())
    node.delete_pod("a")
    assert node.state_of() == node.state()


@pytest.mark.parametrize(
    ("survive", "phase"), [*((number, "before") for number in range(_REMOVALS)), (_REMOVALS - 1, "after")]
)
def test_an_unprepare_killed_anywhere_is_completed_by_the_next_process(
    node: Any, survive: int, phase: str
) -> None:
    dying = _dying_plugin(node, _WRITES + survive, phase)
    node.run_pod("a", count=2)
    node.running("a")
    node.cluster.client.delete(PODS, "a", namespace="default")
    assert -signal.SIGKILL == dying.wait(node.seconds)

    node.restart()

    node.delete_claim("a")
    assert node.state_of() == node.state()
    node.run_pod("b", count=4)
    node.running("b")


def test_after_the_last_write_nothing_is_left_to_kill(node: Any) -> None:
    """The counts above are those of the engine: a plugin that survives them all prepares and unprepares."""
    surviving = _dying_plugin(node, _WRITES + _REMOVALS, "before")
    node.run_pod("a", count=2)
    node.running("a")

    node.delete_pod("a")

    assert node.state_of() == node.state()
    assert surviving.running()
    assert 0 == len([line for line in node.log().splitlines() if "level=error" in line])
    assert 0 == surviving.stop()

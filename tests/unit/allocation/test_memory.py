"""Answers leave nothing behind that only the garbage collector frees: it would stop all threads of the controller."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dra_driver.allocation import Snapshot
from dra_driver.allocation.explanation import Scene, explain

NODE = {"metadata": {"name": "n1"}}


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def allocated(world: Any, claim: Any) -> "weakref.ref[Any]":
    snapshot = Snapshot(world.slices, world.classes, ())
    snapshot.allocate([claim], node=NODE)
    return weakref.ref(snapshot.matcher)


def explained(world: Any, claim: Any) -> "weakref.ref[Any]":
    scene = Scene.of(world.slices, world.classes, ())
    explain(scene, [claim], [NODE])
    return weakref.ref(scene.snapshot.matcher)


@pytest.mark.parametrize("ask", [allocated, explained])
@pytest.mark.parametrize("count", [1, 2], ids=["fits", "does not fit"])
def test_nothing_refers_to_itself(world: Any, ask: Callable[[Any, Any], Any], count: int) -> None:
    world.slice(world.device("gpu-0", model="A"))
    claim = world.claim(
        world.request(
            "r", f"device.attributes['{world.slices[0]['spec']['driver']}'].model == 'A'", count=count
        )
    )

    assert ask(world, claim)() is None

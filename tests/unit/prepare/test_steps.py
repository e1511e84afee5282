"""Steps of claims: recorded before they go on, under their locks, shown to each other, and undone in reverse."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dra_driver.cdi.spec import ContainerEdits
from dra_driver.devices.model import Device, Target
from dra_driver.errors import HardwareError, UnavailableError
from dra_driver.prepare import ClaimRef, Record, RecordStore
from dra_driver.prepare.record import RecordedDevice, RecordedStep, State
from dra_driver.prepare.steps import StepRunner
from dra_driver.steps import OtherStep, Partition, Save, StepResult


@dataclass
class Lamp:
    """Something on the node that several claims may switch on; it goes off with the last of them."""

    log: list[Any] = field(default_factory=list)
    error: Exception | None = None
    broken: bool = False

    def undo(self, state: Any, others: Sequence[OtherStep]) -> None:
        if self.error is not None:
            raise self.error
        self.log.append(("off" if not others else "still on", dict(state)))

    def result(self, state: Any) -> StepResult:
        made = Partition(f"MIG-{state['lamp']}", 1, 0)
        return StepResult({state["lamp"]: made}, {"dev": ContainerEdits(env=(f"LAMP={state['lamp']}",))})

    def is_intact(self, state: Any) -> bool:
        if self.error is not None:
            raise self.error
        return not self.broken

    def restore(self, recorded: Sequence[OtherStep]) -> None:
        self.log.append(("restore", [(other.claim, dict(other.state)) for other in recorded]))


@dataclass(frozen=True)
class Light:
    """The step that switches a lamp on."""

    name: str
    kind: str = "lamp"
    locks: tuple[str, ...] = ("socket",)
    action: Callable[..., None] = lambda **_: None

    def do(self, save: Save, others: Sequence[OtherStep], done: StepResult) -> None:
        save({"lamp": self.name, "lit": False})
        self.action(others=others, done=done)
        save({"lamp": self.name, "lit": True})


@dataclass(frozen=True)
class Wait:
    """A step that changes nothing."""

    action: Callable[[], None]
    kind: str = "lamp"
    locks: tuple[str, ...] = ()

    def do(self, save: Save, others: Sequence[OtherStep], done: StepResult) -> None:
        self.action()


class Node:
    def __init__(self, path: Path) -> None:
        self.records = RecordStore(path, boot_id="boot")
        self.lamp = Lamp()
        self.runner = StepRunner({"lamp": self.lamp}, self.records)

    def record(self, name: str) -> Record:
        device = Device("dev", Target("gpu", "GPU-1", "GPU-1", "0000:01:00.0"))
        record = Record(
            ClaimRef("ns", name, f"uid-{name}"), "boot", State.STARTED, (RecordedDevice(device, "p", ("r",)),)
        )
        self.records.write(record)
        return record

    def states(self, name: str) -> list[Any]:
        record = self.records.get(f"uid-{name}")
        return [step.state for step in record.steps] if record else []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_what_a_step_saves_is_stored_before_it_goes_on(node: Node) -> None:
    seen: list[Any] = []
    record = node.runner.run(node.record("a"), [Light("x", action=lambda **_: seen.append(node.states("a")))])
    assert seen == [[{"lamp": "x", "lit": False}]]
    assert node.states("a") == [{"lamp": "x", "lit": True}]
    assert record == node.records.get("uid-a")


def test_a_step_sees_what_the_earlier_ones_came_to(node: Node) -> None:
    seen: list[Any] = []
    steps = [Light("x"), Light("y", action=lambda done, **_: seen.append(dict(done.partitions)))]
    record = node.runner.run(node.record("a"), steps)
    assert seen == [{"x": Partition("MIG-x", 1, 0)}]
    assert node.runner.result(record).edits == {"dev": ContainerEdits(env=("LAMP=x", "LAMP=y"))}


def test_a_step_that_saves_nothing_leaves_no_trace(node: Node) -> None:
    assert node.runner.run(node.record("a"), [Wait(lambda: None), Light("x")]).steps == (
        RecordedStep("lamp", ("socket",), {"lamp": "x", "lit": True}),
    )


def test_a_step_that_fails_is_recorded_as_far_as_it_got(node: Node) -> None:
    def fail(**_: Any) -> None:
        raise HardwareError("no current")

    with pytest.raises(HardwareError):
        node.runner.run(node.record("a"), [Light("x"), Light("y", action=fail)])
    assert node.states("a") == [{"lamp": "x", "lit": True}, {"lamp": "y", "lit": False}]


def test_steps_are_undone_in_reverse_and_leave_the_record_one_by_one(node: Node) -> None:
    record = node.runner.run(node.record("a"), [Light("x"), Light("y")])
    assert node.runner.undo(record).steps == ()
    assert [state["lamp"] for _, state in node.lamp.log] == ["y", "x"]
    assert node.states("a") == []


def test_what_cannot_be_undone_stays_recorded(node: Node) -> None:
    record = node.runner.run(node.record("a"), [Light("x")])
    node.lamp.error = UnavailableError("the switch is stuck")
    with pytest.raises(UnavailableError):
        node.runner.undo(record)
    assert node.states("a") == [{"lamp": "x", "lit": True}]


def test_claims_see_each_other_and_the_last_one_restores(node: Node) -> None:
    seen: list[Any] = []
    first = node.runner.run(node.record("a"), [Light("x")])
    second = node.runner.run(node.record("b"), [Light("x", action=lambda others, **_: seen.extend(others))])
    assert seen == [OtherStep("ns/a", {"lamp": "x", "lit": True})]
    node.runner.undo(first)
    node.runner.undo(second)
    assert [word for word, _ in node.lamp.log] == ["still on", "off"]


def test_a_kind_is_shown_nothing_of_other_kinds(node: Node) -> None:
    seen: list[Any] = []
    heater = Lamp()
    node.runner = StepRunner({"lamp": node.lamp, "heater": heater}, node.records)
    node.runner.run(node.record("a"), [Light("x")])
    step = Light("h", kind="heater", action=lambda others, **_: seen.append(others))
    node.runner.undo(node.runner.run(node.record("b"), [step]))
    node.runner.restore()
    assert ([[]], "off") == (seen, heater.log[0][0])
    assert (("restore", []), "restore") == (heater.log[1], node.lamp.log[0][0])


def test_of_many_that_end_at_once_exactly_one_is_the_last(node: Node) -> None:
    records = [node.runner.run(node.record(f"c{i}"), [Light("x")]) for i in range(16)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(node.runner.undo, records))
    assert [word for word, _ in node.lamp.log].count("off") == 1


def test_steps_with_different_locks_run_at_the_same_time(node: Node) -> None:
    both = threading.Barrier(2, timeout=60)

    def meet(**_: Any) -> None:
        both.wait()

    def prepare(name: str) -> Record:
        return node.runner.run(node.record(name), [Light(name, locks=(name,), action=meet)])

    with ThreadPoolExecutor(2) as pool:
        assert [len(record.steps) for record in pool.map(prepare, "ab")] == [1, 1]


def test_steps_with_a_lock_in_common_run_one_after_the_other(node: Node) -> None:
    waiting, go_on, begun = threading.Event(), threading.Event(), threading.Event()

    def wait(**_: Any) -> None:
        waiting.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(2) as pool:
        try:
            first = pool.submit(
                node.runner.run, node.record("a"), [Light("x", locks=("1", "2"), action=wait)]
            )
            assert waiting.wait(60)
            step = Light("x", locks=("2", "3"), action=lambda **_: begun.set())
            second = pool.submit(node.runner.run, node.record("b"), [step])
            assert not begun.wait(0.1)
        finally:
            go_on.set()
    assert [1, 1] == [len(each.result().steps) for each in (first, second)]


def test_a_step_without_locks_holds_nobody_up(node: Node) -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(node.runner.run, node.record("a"), [Light("x"), Wait(wait)])
        assert waiting.wait(60)
        node.runner.run(node.record("b"), [Light("x")])
        go_on.set()
        assert len(first.result().steps) == 1


def test_locks_are_taken_in_one_order(node: Node) -> None:
    def prepare(i: int) -> Record:
        locks = ("a", "b") if i % 2 else ("b", "a", "b")
        return node.runner.run(node.record(f"c{i}"), [Light("x", locks=locks)])

    with ThreadPoolExecutor(8) as pool:
        assert sum(len(record.steps) for record in pool.map(prepare, range(40))) == 40


def test_whether_all_is_there_is_asked_and_taken_for_granted_where_it_cannot_be_told(node: Node) -> None:
    record = node.runner.run(node.record("a"), [Light("x")])
    assert node.runner.are_intact(record)
    node.lamp.broken = True
    assert not node.runner.are_intact(record)
    node.lamp.error = UnavailableError("it is dark")
    assert node.runner.are_intact(record)


def test_all_is_there_only_where_each_is(node: Node) -> None:
    heater = Lamp(broken=True)
    node.runner = StepRunner({"lamp": node.lamp, "heater": heater}, node.records)
    record = node.runner.run(node.record("a"), [Light("x"), Light("h", kind="heater")])
    assert not node.runner.are_intact(record)
    heater.broken = False
    assert node.runner.are_intact(record)


def test_a_step_of_another_release_is_left_for_it(node: Node) -> None:
    record = node.record("a")
    foreign = RecordedStep("laser", (), {"on": True})
    record = Record(record.ref, "boot", State.STARTED, record.devices, steps=(foreign,))
    with pytest.raises(
        UnavailableError, match=r"claim ns/a was .* does not know \(laser\); install that release again"
    ):
        node.runner.undo(record)


def test_a_start_shows_each_kind_all_that_is_recorded(node: Node) -> None:
    node.runner.run(node.record("a"), [Light("x")])
    node.runner.restore()
    assert node.lamp.log == [("restore", [("ns/a", {"lamp": "x", "lit": True})])]

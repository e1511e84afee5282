"""Calls for one claim that overlap come one after the other, and so does what a repair does for it."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.errors import HardwareError
from dra_driver.prepare.record import State, decode, encode

GPU0, GPU1 = "gpu-0000-65-00-0", "gpu-0000-ca-00-0"


class Gate:
    """What an outside thing stops at once, from `close` on, until `open`."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._closed = False
        self._opened = threading.Event()

    def close(self) -> None:
        self._closed = True

    def open(self) -> None:
        self._opened.set()

    def __call__(self) -> None:
        if self._closed:
            self._closed = False
            self.reached.set()
            assert self._opened.wait(60)


class SlowEdits:
    """A driver whose files are looked at through a gate."""

    def __init__(self, edits: Any, gate: Gate) -> None:
        self._edits = edits
        self._gate = gate

    def now(self) -> Any:
        self._gate()
        return self._edits.now()


@pytest.fixture
def gate() -> Gate:
    return Gate()


def overlapping(
    gate: Gate, first: Callable[[], Any], second: Callable[[], Any]
) -> tuple[Future[Any], Future[Any]]:
    """Have `second` called while `first` waits at the gate; both are over, in this order."""
    gate.close()
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(first)
        try:
            assert gate.reached.wait(60)
            other = threads.submit(second)
            other_over = threading.Event()
            other.add_done_callback(lambda _: other_over.set())
            assert not other_over.wait(0.2)
        finally:
            gate.open()
    return one, other


def done_while(gate: Gate, first: Callable[[], Any], second: Callable[[], object]) -> Any:
    """The answer of `first`, which waits at the gate while `second` is made from begin to end."""
    gate.close()
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(first)
        try:
            assert gate.reached.wait(60)
            second()
        finally:
            gate.open()
    return answer.result()


def repaired_while(gate: Gate, engine: Any, call: Callable[[], object]) -> Any:
    """What a repair reports that waits at the gate, at its first claim, while `call` is made for another."""
    return done_while(gate, engine.repair, call)


def assert_nothing_is_left(node: Any, engine: Any) -> None:
    assert ([], [], []) == (node.spec_files(), node.record_files(), node.metadata_files())
    assert () == engine.held()


def devices_of(answer: Future[Any]) -> list[str]:
    return [device.device for device in answer.result()]


def test_an_unprepare_undoes_the_prepare_that_still_waits_for_the_api_server(node: Any, gate: Gate) -> None:
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})
    node.claims.hang = gate

    prepared, ended = overlapping(gate, lambda: engine.prepare(ref), lambda: engine.unprepare(ref))

    assert ([GPU0], None) == (devices_of(prepared), ended.result())
    assert_nothing_is_left(node, engine)


def test_the_last_prepare_of_a_claim_that_was_allocated_anew_is_the_one_that_counts(
    node: Any, gate: Gate
) -> None:
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})
    get_claim = node.claims.get_claim

    def answer_late(namespace: str, name: str) -> Any:
        answer = get_claim(namespace, name)
        gate()
        return answer

    node.claims.get_claim = answer_late

    def prepare_anew() -> Any:
        node.allocate("a", {"device": GPU1})
        return engine.prepare(ref)

    first, second = overlapping(gate, lambda: engine.prepare(ref), prepare_anew)

    assert ([GPU0], [GPU1]) == (devices_of(first), devices_of(second))
    assert [GPU1] == [held.device.name for held in engine.held()]


def test_a_repair_writes_no_files_of_a_claim_that_ends_meanwhile(node: Any, gate: Gate) -> None:
    node.edits = SlowEdits(node.edits, gate)
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})
    engine.prepare(ref)

    repaired, ended = overlapping(gate, engine.repair, lambda: engine.unprepare(ref))

    repaired.result()
    ended.result()
    assert_nothing_is_left(node, engine)


def test_a_repair_writes_no_old_spec_of_a_claim_that_is_prepared_anew_meanwhile(
    node: Any, gate: Gate
) -> None:
    node.edits = SlowEdits(node.edits, gate)
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})
    engine.prepare(ref)
    node.allocate("a", {"device": GPU1})

    repaired, again = overlapping(gate, engine.repair, lambda: engine.prepare(ref))

    repaired.result()
    assert [GPU1] == devices_of(again)
    spec = node.spec_file(ref).read_bytes()
    assert (False, True) == (b'"/dev/nvidia0"' in spec, b'"/dev/nvidia1"' in spec)


def test_a_repair_sees_what_the_hardware_is_after_a_prepare_that_looked_before(node: Any, gate: Gate) -> None:
    node.edits = SlowEdits(node.edits, gate)
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})
    engine.prepare(ref)

    def follow() -> Any:
        node.change_gpu(0, minor=1)
        return engine.repair()

    again, repaired = overlapping(gate, lambda: engine.prepare(ref), follow)

    assert [GPU0] == devices_of(again)
    assert () == repaired.result().unresolved
    assert b'"/dev/nvidia1"' in node.spec_file(ref).read_bytes()


def test_a_first_prepare_follows_hardware_whose_repair_came_before_its_record(node: Any, gate: Gate) -> None:
    node.edits = SlowEdits(node.edits, gate)
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})

    def follow() -> None:
        node.change_gpu(0, minor=1)
        assert 0 == engine.repair().held

    prepared = done_while(gate, lambda: engine.prepare(ref), follow)

    assert [GPU0] == [device.device for device in prepared]
    spec = node.spec_file(ref).read_bytes()
    assert (False, True) == (b'"/dev/nvidia0"' in spec, b'"/dev/nvidia1"' in spec)


def test_a_first_prepare_whose_gpu_goes_meanwhile_fails_and_its_claim_stays_until_it_ends(
    node: Any, gate: Gate
) -> None:
    node.edits = SlowEdits(node.edits, gate)
    engine, ref = node.engine(), node.allocate("a", {"device": GPU0})

    def lose() -> None:
        node.inventory = replace(node.inventory, gpus=node.inventory.gpus[1:])
        engine.repair()

    with pytest.raises(HardwareError, match=f"device {GPU0} .* is gone from the node"):
        done_while(gate, lambda: engine.prepare(ref), lose)
    assert [GPU0] == [held.device.name for held in engine.held()]

    engine.unprepare(ref)
    assert_nothing_is_left(node, engine)


def test_a_repair_passes_over_a_claim_that_has_ended_since_it_began(node: Any, gate: Gate) -> None:
    node.edits = SlowEdits(node.edits, gate)
    engine, first = node.engine(), node.allocate("a", {"device": GPU0})
    second = node.allocate("b", {"device": GPU1})
    for ref in (first, second):
        engine.prepare(ref)

    report = repaired_while(gate, engine, lambda: engine.unprepare(second))

    assert ((), 1) == (report.unresolved, report.held)
    assert [f"{first.uid}.json"] == node.record_files()
    assert [node.spec_file(first).name] == node.spec_files()


def test_a_repair_leaves_a_claim_alone_that_was_half_done_and_is_prepared_since_it_began(
    node: Any, gate: Gate
) -> None:
    first = node.allocate("a", {"device": GPU0}, uid=str(uuid.UUID(int=1)))  # a start goes by UIDs
    second = node.allocate("b", {"device": GPU1}, uid=str(uuid.UUID(int=2)))
    for ref in (first, second):
        node.engine().prepare(ref)
    record = node.record_file(second)
    record.write_bytes(encode(replace(decode(record.read_bytes()), state=State.STARTED)))
    node.edits = SlowEdits(node.edits, gate)
    engine = node.engine(restored=False)
    engine.load()

    report = repaired_while(gate, engine, lambda: engine.prepare(second))

    assert ((), (), 2) == (report.undone, report.unresolved, report.held)
    assert State.COMPLETED == decode(record.read_bytes()).state
    assert node.spec_file(second).exists()

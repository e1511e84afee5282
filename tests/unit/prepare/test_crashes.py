"""A process that dies between any two writes loses nothing and leaks nothing."""

import contextlib
import json
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dra_driver.files
from dra_driver.errors import ConflictError
from dra_driver.prepare import ClaimRef
from dra_driver.prepare.record import decode

GPU0, GPU1 = "gpu-0000-65-00-0", "gpu-0000-ca-00-0"
PHASES = ("before", "halfway", "after")
WRITES = ("at the metadata", "at the spec", "at the record")
REMOVALS = ("at the spec", "at the metadata", "at the record")


def assert_consistent(node: Any, held: set[str]) -> None:
    """Exactly these claims have a record, a spec and metadata, and there is no other file."""
    assert node.record_files() == sorted(f"{uid}.json" for uid in held)
    assert node.spec_files() == sorted(f"k8s.gpu.nvidia.com-claim_{uid}.json" for uid in held)
    assert node.metadata_files() == sorted(f"{uid}_gpu.json" for uid in held)
    for name in node.record_files():
        decode((node.claims_dir / name).read_bytes())


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("survive", range(3), ids=WRITES)
def test_killed_in_prepare(
    node: Any, killing: Callable[[int, str], Any], killed: type[BaseException], survive: int, phase: str
) -> None:
    bystander = node.allocate("b", {"device": GPU1})
    node.engine().prepare(bystander)
    ref = node.allocate("a", {"device": GPU0})
    with pytest.raises(killed):
        node.engine(files=killing(survive, phase)).prepare(ref)

    engine = node.engine()
    committed = (survive, phase) == (2, "after")
    assert_consistent(node, {bystander.uid, ref.uid} if committed else {bystander.uid})

    answer = engine.prepare(ref)
    assert_consistent(node, {bystander.uid, ref.uid})
    assert answer == node.engine().prepare(ref)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("survive", range(3), ids=WRITES)
def test_killed_in_prepare_and_never_asked_again(
    node: Any, killing: Callable[[int, str], Any], killed: type[BaseException], survive: int, phase: str
) -> None:
    ref = node.allocate("a", {"device": GPU0})
    with pytest.raises(killed):
        node.engine(files=killing(survive, phase)).prepare(ref)

    node.engine().unprepare(ref)

    assert_consistent(node, set())
    assert node.engine().prepare(node.allocate("b", {"device": GPU0}))


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("survive", range(3), ids=REMOVALS)
def test_killed_in_unprepare(
    node: Any, killing: Callable[[int, str], Any], killed: type[BaseException], survive: int, phase: str
) -> None:
    ref = node.allocate("a", {"device": GPU0})
    node.engine().prepare(ref)
    with pytest.raises(killed):
        node.engine(files=killing(survive, phase)).unprepare(ref)

    engine = node.engine()
    done = (survive, phase) == (2, "after")
    assert_consistent(node, set() if done else {ref.uid})

    engine.unprepare(ref)
    assert_consistent(node, set())


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_the_start_itself(
    node: Any, killing: Callable[[int, str], Any], killed: type[BaseException], phase: str
) -> None:
    ref = node.allocate("a", {"device": GPU0})
    node.engine().prepare(ref)
    node.spec_file(ref).unlink()
    with pytest.raises(killed):
        node.engine(files=killing(0, phase))

    node.engine()

    assert_consistent(node, {ref.uid})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["prepare", "unprepare"]), st.integers(0, 3), st.integers(0, 3)),
        max_size=12,
    ),
    phase=st.sampled_from(PHASES),
)
def test_any_sequence_of_calls_and_kills_ends_where_a_retry_would(
    node: Any,
    killing: Callable[[int, str], Any],
    killed: type[BaseException],
    steps: list[tuple[str, int, int]],
    phase: str,
) -> None:
    refs = [node.allocate(f"c{i}", {"device": (GPU0, GPU1)[i % 2]}) for i in range(4)]
    for call, number, survive in steps:
        with contextlib.suppress(killed, ConflictError):
            getattr(node.engine(files=killing(survive, phase)), call)(refs[number])

    engine = node.engine()
    held = {claim.claim_uid for claim in engine.held()}
    assert_consistent(node, held)
    assert len({claim.device.name for claim in engine.held()}) == len(held)
    for ref in refs:
        engine.unprepare(ref)
    assert_consistent(node, set())


def race(node: Any, refs: list[ClaimRef], calls: int, seed: int) -> Any:
    """Threads that prepare and unprepare these claims in any order, all at once; the engine they used."""
    engine = node.engine()
    together = threading.Barrier(4)

    def work(number: int) -> None:
        choice = random.Random(seed + number)
        together.wait()
        for _ in range(calls // 4):
            ref = choice.choice(refs)
            try:
                if choice.random() < 0.5:
                    engine.prepare(ref)
                else:
                    engine.unprepare(ref)
            except ConflictError:
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    return engine


@pytest.mark.parametrize("seed", range(3))
def test_two_hundred_interleaved_calls_end_consistent(node: Any, seed: int) -> None:
    refs = [node.allocate(f"c{i}", {"device": (GPU0, GPU1)[i % 2]}) for i in range(6)]

    engine = race(node, refs, 200, seed)

    held = engine.held()
    assert_consistent(node, {claim.claim_uid for claim in held})
    assert len({claim.device.name for claim in held}) == len(held)
    assert len(engine._locks) == 0  # a lock that stays is a leak that shows in months


def test_preparing_and_unpreparing_one_claim_at_once_a_thousand_times_ends_consistent(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0})

    engine = race(node, [ref], 1000, 7)

    assert_consistent(node, {claim.claim_uid for claim in engine.held()})
    engine.unprepare(ref)
    assert_consistent(node, set())
    assert engine.prepare(node.allocate("b", {"device": GPU0}))


def test_records_parse_at_any_moment_of_other_calls(node: Any) -> None:
    refs = [node.allocate(f"c{i}", {"device": GPU0, "adminAccess": True}) for i in range(6)]
    stop, seen = threading.Event(), []

    def watch() -> None:
        while not stop.is_set():
            for path in node.claims_dir.glob("*.json"):
                try:
                    seen.append(json.loads(path.read_bytes())["record"]["state"])
                except FileNotFoundError:
                    continue  # unprepared meanwhile

    node.engine()
    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        race(node, refs, 200, 1)
        stop.set()
        watcher.result()

    assert set(seen) <= {"completed"}


def assert_delays_no_other(
    engine: Any, waiting: ClaimRef, quick: ClaimRef, asked: threading.Event, answer: threading.Event
) -> None:
    """While the Prepare of one claim has `asked` and waits for `answer`, another is prepared and unprepared."""
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(engine.prepare, waiting)
        asked.wait()
        try:
            assert engine.prepare(quick)
            engine.unprepare(quick)
        finally:
            answer.set()
        assert pending.result()


def test_a_slow_api_server_delays_its_own_claim_only(node: Any) -> None:
    asked, answer = threading.Event(), threading.Event()
    slow = node.allocate("slow", {"device": GPU0})
    quick = node.allocate("quick", {"device": GPU1})
    get_claim = node.claims.get_claim

    class Slow:
        @staticmethod
        def get_claim(namespace: str, name: str) -> Any:
            if name == "slow":
                asked.set()
                answer.wait()
            return get_claim(namespace, name)

    node.claims = Slow()
    assert_delays_no_other(node.engine(), slow, quick, asked, answer)


def test_a_file_system_that_hangs_for_one_claim_delays_no_other_for_long(node: Any) -> None:
    asked, answer = threading.Event(), threading.Event()
    stuck = node.allocate("stuck", {"device": GPU0})
    quick = node.allocate("quick", {"device": GPU1})

    class Stuck:
        remove = staticmethod(dra_driver.files.remove)
        write_new = staticmethod(dra_driver.files.write_new)

        @staticmethod
        def write_atomic(path: str, data: bytes, **options: Any) -> None:
            if stuck.uid in path:
                asked.set()
                answer.wait()
            dra_driver.files.write_atomic(path, data, **options)

    assert_delays_no_other(node.engine(files=Stuck()), stuck, quick, asked, answer)

"""No hardware is given to two claims, and what is exempt from that."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.config.settings import Setting
from dra_driver.devices.model import CounterConsumption, Device, Target
from dra_driver.errors import ConflictError
from dra_driver.prepare import ClaimRef
from dra_driver.prepare.conflicts import Conflicts
from dra_driver.prepare.record import RecordedDevice
from dra_driver.quantity import Quantity

GPU0, GPU1 = "gpu-0000-65-00-0", "gpu-0000-ca-00-0"
SHARE_A, SHARE_B = "0a000000-0000-4000-8000-000000000000", "0b000000-0000-4000-8000-000000000000"
A, B = ClaimRef("ns", "a", "uid-a"), ClaimRef("ns", "b", "uid-b")


def recorded(
    name: str, kind: Any = "gpu", uuid: str = "GPU-0", slices: tuple[int, ...] = (), **fields: Any
) -> RecordedDevice:
    capacity = {f"memorySlice{i}": Quantity.of(1) for i in slices}
    device = Device(name, Target(kind, uuid, "GPU-0", "0000:65:00.0"), capacity=capacity)
    return RecordedDevice(device, "p", ("r",), **fields)


def test_both_claims_are_named(node: Any) -> None:
    engine = node.engine()
    engine.prepare(node.allocate("a", {"device": GPU0}))

    with pytest.raises(
        ConflictError,
        match=f"^device {GPU0} is held by claim default/a, whose Pods .* before claim default/b can have it$",
    ):
        engine.prepare(node.allocate("b", {"device": GPU0}))


def test_a_conflict_leaves_nothing_of_the_second_claim(node: Any) -> None:
    engine = node.engine()
    first = node.allocate("a", {"device": GPU0})
    engine.prepare(first)
    second = node.allocate("b", {"device": GPU1}, {"device": GPU0})

    with pytest.raises(ConflictError):
        engine.prepare(second)

    assert node.record_files() == [f"{first.uid}.json"]
    assert engine.prepare(node.allocate("c", {"device": GPU1}))


def test_the_device_is_free_after_unprepare(node: Any) -> None:
    engine = node.engine()
    first = node.allocate("a", {"device": GPU0})
    engine.prepare(first)
    engine.unprepare(first)

    assert engine.prepare(node.allocate("b", {"device": GPU0}))


def partition(name: str, start: int, size: int, **fields: Any) -> RecordedDevice:
    """A MIG device that is made when it is prepared: a profile at a place, without a UUID."""
    counters = {f"memory-slice-{i}": Quantity.of(1) for i in range(start, start + size)}
    target = Target("partition", "", "GPU-0", "0000:65:00.0", size, start)
    taken = CounterConsumption("gpu-0-counters", counters)
    return RecordedDevice(Device(name, target, consumes=(taken,)), "p", ("r",), **fields)


def test_partitions_stand_beside_each_other() -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [partition("a", 0, 4), partition("c", 6, 1)])
    conflicts.reserve(B, [partition("b", 4, 2)])


@pytest.mark.parametrize(
    "held", [recorded("whole"), recorded("static", "mig", "MIG-1", slices=(3,)), partition("large", 0, 4)]
)
def test_a_partition_clashes_with_all_that_has_its_slices(held: RecordedDevice) -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [held])
    with pytest.raises(
        ConflictError,
        match=f"^device small cannot be prepared: {held.name} of the same GPU is held by claim ns/a, whose Pods .* ns/b",
    ):
        conflicts.reserve(B, [partition("small", 3, 1)])
    conflicts.release(A.uid)
    conflicts.reserve(B, [partition("small", 3, 1)])


def test_a_mig_device_whose_slices_are_not_told_clashes_with_every_other_of_its_gpu() -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [recorded("too-large-to-list-them", "mig", "MIG-7")])
    with pytest.raises(
        ConflictError, match=r"^device small cannot be prepared: too-large-to-list-them of the same GPU is"
    ):
        conflicts.reserve(B, [recorded("small", "mig", "MIG-1", slices=(3,))])


def test_a_whole_gpu_clashes_with_a_partition_of_it() -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [partition("small", 3, 1)])
    with pytest.raises(
        ConflictError, match=r"^device whole cannot be prepared: small of the same GPU is held by"
    ):
        conflicts.reserve(B, [recorded("whole")])


def test_shares_of_a_partition_go_together() -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [partition("small", 3, 1, share_id=SHARE_A)])
    conflicts.reserve(B, [partition("small", 3, 1, share_id=SHARE_B)])
    with pytest.raises(ConflictError):
        conflicts.reserve(ClaimRef("ns", "c", "uid-c"), [partition("small", 3, 1)])


def test_a_claim_of_the_same_name_waits_for_its_predecessor(node: Any) -> None:
    engine = node.engine()
    old = node.allocate("a", {"device": GPU0}, uid="old")
    engine.prepare(old)
    new = node.allocate("a", {"device": GPU0}, uid="new")

    with pytest.raises(ConflictError, match=r"is held by an earlier claim default/a \(UID old\)"):
        engine.prepare(new)

    engine.unprepare(old)
    assert engine.prepare(new)


def test_conflicts_outlive_a_restart(node: Any) -> None:
    node.engine().prepare(node.allocate("a", {"device": GPU0}))

    with pytest.raises(ConflictError):
        node.engine().prepare(node.allocate("b", {"device": GPU0}))


def test_admin_access_is_not_blocked_and_blocks_nobody(node: Any) -> None:
    engine = node.engine()
    admin = {"device": GPU0, "adminAccess": True}

    assert engine.prepare(node.allocate("admin-1", admin))
    assert engine.prepare(node.allocate("user", {"device": GPU0}))
    assert engine.prepare(node.allocate("admin-2", admin))


def test_admin_access_blocks_nobody_after_a_restart_either(node: Any) -> None:
    node.engine().prepare(node.allocate("admin", {"device": GPU0, "adminAccess": True}))

    assert node.engine().prepare(node.allocate("user", {"device": GPU0}))


@pytest.mark.parametrize("last", ["with", "without"])
def test_a_claim_with_and_without_admin_access_to_a_device_holds_it(node: Any, last: str) -> None:
    engine = node.engine()
    results = [{"request": "x", "device": GPU0, "adminAccess": True}, {"request": "y", "device": GPU0}]
    engine.prepare(node.allocate("a", *(results if last == "without" else results[::-1])))

    with pytest.raises(ConflictError):
        engine.prepare(node.allocate("b", {"device": GPU0}))


def test_two_claims_with_shares_of_one_device_are_independent(node: Any) -> None:
    engine = node.engine()
    first = node.allocate("a", {"device": GPU0, "shareID": SHARE_A})
    second = node.allocate("b", {"device": GPU0, "shareID": SHARE_B})
    engine.prepare(first)
    engine.prepare(second)
    before = node.spec_file(second).read_bytes()

    engine.unprepare(first)

    assert node.spec_file(second).read_bytes() == before
    assert [held.claim for held in engine.held()] == ["default/b"]
    with pytest.raises(ConflictError, match="is held by claim default/b"):
        engine.prepare(node.allocate("c", {"device": GPU0}))


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (recorded("gpu", share_id="s"), recorded("gpu", share_id="s")),
        (recorded("gpu", share_id="s"), recorded("gpu")),
        (recorded("gpu"), recorded("gpu", share_id="s")),
        (recorded("gpu"), recorded("mig", "mig", "MIG-1")),
        (recorded("mig", "mig", "MIG-1"), recorded("gpu")),
        (recorded("mig", "mig", "MIG-1"), recorded("mig", "mig", "MIG-2")),
        (recorded("gpu"), recorded("gpu-renamed")),
        (recorded("mig", "mig", "MIG-1"), recorded("mig-renamed", "mig", "MIG-1")),
    ],
    ids=[
        "same share",
        "after share",
        "share after",
        "part of",
        "whole of part",
        "same place",
        "other name",
        "other name of a part",
    ],
)
def test_what_clashes(held: RecordedDevice, wanted: RecordedDevice) -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [held])

    with pytest.raises(ConflictError, match="ns/a"):
        conflicts.reserve(B, [wanted])


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (recorded("gpu", share_id="s"), recorded("gpu", share_id="t")),
        (recorded("mig-1", "mig", "MIG-1", slices=(0,)), recorded("mig-2", "mig", "MIG-2", slices=(1,))),
        (recorded("gpu", admin_access=True), recorded("gpu")),
        (recorded("gpu"), recorded("gpu", admin_access=True)),
    ],
    ids=["two shares", "two parts", "admin first", "admin second"],
)
def test_what_does_not_clash(held: RecordedDevice, wanted: RecordedDevice) -> None:
    conflicts = Conflicts()

    conflicts.reserve(A, [held])
    conflicts.reserve(B, [wanted])


MPS, SLICES = Setting("MPS", exclusive=True), Setting("time-slicing", exclusive=False)


@pytest.mark.parametrize(
    ("held", "wanted"),
    [(MPS, None), (None, MPS), (MPS, SLICES), (SLICES, MPS), (SLICES, replace(SLICES, text="short"))],
)
def test_shares_of_a_device_have_to_agree_on_its_setting(
    held: Setting | None, wanted: Setting | None
) -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [recorded("gpu", share_id="s", setting=held)])
    theirs, ours = (setting.text if setting else "no sharing settings" for setting in (held, wanted))
    with pytest.raises(
        ConflictError,
        match=f"^device gpu is shared with claim ns/a, which has it with {theirs}, and claim ns/b asks for {ours};",
    ):
        conflicts.reserve(B, [recorded("gpu", share_id="t", setting=wanted)])

    conflicts.release(A.uid)
    conflicts.reserve(B, [recorded("gpu", share_id="t", setting=wanted)])


@pytest.mark.parametrize(
    ("held", "wanted"), [(MPS, MPS), (SLICES, SLICES), (SLICES, None), (None, SLICES), (None, None)]
)
def test_shares_that_agree_are_given_out(held: Setting | None, wanted: Setting | None) -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [recorded("gpu", share_id="s", setting=held)])
    conflicts.reserve(B, [recorded("gpu", share_id="t", setting=wanted)])


def test_parts_of_a_gpu_have_settings_of_their_own() -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [partition("a", 0, 4, setting=MPS)])
    conflicts.reserve(B, [partition("b", 4, 2)])


def test_a_part_of_a_held_gpu_is_told_as_such() -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [recorded("gpu-1")])

    with pytest.raises(
        ConflictError, match="device mig-1 cannot be prepared: gpu-1 of the same GPU is held by"
    ):
        conflicts.reserve(B, [recorded("mig-1", "mig", "MIG-1")])


def test_a_refused_reservation_takes_nothing() -> None:
    conflicts = Conflicts()
    conflicts.reserve(A, [recorded("gpu-1")])
    free = RecordedDevice(Device("gpu-2", Target("gpu", "GPU-2", "GPU-2", "0000:02:00.0")), "p", ("r",))
    with pytest.raises(ConflictError):
        conflicts.reserve(B, [free, recorded("gpu-1")])

    conflicts.reserve(ClaimRef("ns", "c", "uid-c"), [free])


def test_a_claim_is_given_again_what_it_has_and_goes_on_with_just_that() -> None:
    conflicts = Conflicts()
    other = RecordedDevice(Device("gpu-2", Target("gpu", "GPU-2", "GPU-2", "0000:02:00.0")), "p", ("r",))
    conflicts.reserve(A, [recorded("gpu-1"), other])

    conflicts.reserve(A, [recorded("gpu-1")])

    conflicts.reserve(B, [other])
    with pytest.raises(ConflictError):
        conflicts.reserve(B, [recorded("gpu-1")])


def test_of_many_prepares_of_one_device_at_the_same_time_one_wins(node: Any) -> None:
    engine = node.engine()
    refs = [node.allocate(f"c{i}", {"device": GPU0}) for i in range(8)]
    together = threading.Barrier(len(refs))

    def attempt(ref: ClaimRef) -> bool:
        together.wait()
        try:
            return bool(engine.prepare(ref))
        except ConflictError:
            return False

    with ThreadPoolExecutor(len(refs)) as pool:
        won = list(pool.map(attempt, refs))

    assert won.count(True) == 1
    assert node.spec_files() == [node.spec_file(refs[won.index(True)]).name]


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried")
def test_of_reservations_at_the_same_time_just_one_is_made_and_none_is_lost() -> None:
    refs = [ClaimRef("ns", name, f"uid-{name}") for name in "abcd"]
    together = threading.Barrier(len(refs), timeout=60)

    def reserve(conflicts: Conflicts, ref: ClaimRef, **fields: Any) -> bool:
        try:
            conflicts.reserve(ref, [recorded("gpu", **fields)])
        except ConflictError:
            return False
        return True

    def reserve_at_once(conflicts: Conflicts, ref: ClaimRef) -> bool:
        together.wait()
        return reserve(conflicts, ref)

    def share_at_once(conflicts: Conflicts, ref: ClaimRef) -> None:
        """Of four claims with shares two end, while the other two begin."""
        together.wait()
        if ref in refs[:2]:
            conflicts.release(ref.uid)
        else:
            assert reserve(conflicts, ref, share_id=ref.uid)

    with ThreadPoolExecutor(len(refs)) as pool:
        for _ in range(200):
            conflicts = Conflicts()
            assert [False] * 3 + [True] == sorted(pool.map(reserve_at_once, [conflicts] * 4, refs))

            conflicts = Conflicts()
            for ref in refs[:2]:
                assert reserve(conflicts, ref, share_id=ref.uid)
            list(pool.map(share_at_once, [conflicts] * 4, refs))
            for ref in refs[2:]:
                assert not reserve(conflicts, ClaimRef("ns", "e", "uid-e"))
                conflicts.release(ref.uid)
            assert reserve(conflicts, ClaimRef("ns", "e", "uid-e"))

"""MIG devices of claims: made, taken back however far they got, and told apart from those of others."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from dra_driver.errors import HardwareError, UnavailableError
from dra_driver.inventory.faults import Faults, FaultsOf, MigFault
from dra_driver.inventory.mig_control import GpuGoneError
from dra_driver.partitions.mig_device import LeaveMigMode
from dra_driver.steps import OtherStep, Partition, StepResult

STEPS = ["save", "mode True", "create gi", "save", "create ci", "save"]


def test_each_thing_is_saved_before_the_next_is_done(node: Any) -> None:
    state = node.make("a")
    assert node.events.names == STEPS
    assert node.instances() == [(19, 0, 1)]
    assert set(state) == {
        "device",
        "gpu",
        "profile",
        "start",
        "switched",
        "gpuInstance",
        "computeInstance",
        "uuid",
    }


def test_the_result_is_read_from_the_state_alone(node: Any) -> None:
    state = node.make("a")
    (instance,) = node.backend.mig.instances(node.gpu.uuid)
    made = Partition(instance.compute_instances[0].uuid, instance.id, 0)
    assert node.devices.result(state) == StepResult(partitions={"dev-1g.10gb-0": made})


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("event", range(len(STEPS)), ids=lambda i: f"{i}-{STEPS[i]}")
def test_a_process_killed_anywhere_while_it_makes_one_leaves_nothing(
    node: Any, killed: Any, event: int, after: bool
) -> None:
    node.events.kill_at, node.events.after = event, after
    with pytest.raises(killed):
        node.make("a")
    node.restart()
    node.undo("a")
    node.devices.restore(node.recorded())
    assert (node.instances(), node.backend.mig.mode(node.gpu.uuid)) == ([], False)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("event", range(3), ids=["ci", "gi", "mode"])
def test_a_process_killed_anywhere_while_it_takes_one_back_goes_on(
    node: Any, killed: Any, event: int, after: bool
) -> None:
    node.make("a")
    node.events.kill_at, node.events.after = len(node.events.names) + event, after
    with pytest.raises(killed):
        node.undo("a")
    node.restart()
    node.undo("a")
    assert (node.instances(), node.backend.mig.mode(node.gpu.uuid)) == ([], False)


def test_taking_back_twice_is_harmless(node: Any) -> None:
    state = node.make("a")
    node.devices.undo(state, [])
    node.devices.undo(state, [])
    assert node.instances() == []


@pytest.mark.parametrize(
    ("fault", "left"), [(MigFault.CREATE_FAILS, []), (MigFault.COMPUTE_FAILS, [(19, 0, 0)])]
)
def test_what_fails_half_way_is_taken_back(node: Any, fault: MigFault, left: list[Any]) -> None:
    node.backend._faults = Faults(mig=FaultsOf(fault))
    with pytest.raises(HardwareError, match="look for its Xid"):
        node.make("a")
    assert node.instances() == left
    node.undo("a")
    assert (node.instances(), node.backend.mig.mode(node.gpu.uuid)) == ([], False)


def test_what_somebody_made_after_a_refusal_stays(node: Any) -> None:
    node.backend._faults = Faults(mig=FaultsOf(MigFault.CREATE_FAILS))
    with pytest.raises(HardwareError):
        node.make("a")
    node.backend._faults = Faults()
    node.cut(19, 0)
    node.undo("a")
    assert node.instances() == [(19, 0, 1)]


def test_a_device_that_is_in_use_is_kept_until_it_is_not(node: Any) -> None:
    node.make("a")
    node.backend._faults = Faults(mig=FaultsOf(MigFault.IN_USE))
    with pytest.raises(UnavailableError, match="cannot be destroyed while a process uses it"):
        node.undo("a")
    assert node.instances() == [(19, 0, 1)]
    node.backend._faults = Faults()
    node.undo("a")
    assert node.instances() == []


def test_a_device_is_gone_with_its_gpu(node: Any) -> None:
    state = node.make("a")
    state["gpu"] = "GPU-gone"
    assert not node.devices.is_intact(state)
    with capture_logs() as logs:
        node.undo("a")
    assert [entry["event"] for entry in logs] == ["MIG device is gone with its GPU"]
    with pytest.raises(GpuGoneError):
        node.backend.mig.instances("GPU-gone")


def test_a_device_that_somebody_put_in_its_place_is_left_alone(node: Any) -> None:
    state = node.make("a")
    number = state["gpuInstance"]
    node.backend.mig.destroy_compute_instance(node.gpu.uuid, number, 0)
    assert not node.devices.is_intact(state)
    node.backend.mig.destroy_gpu_instance(node.gpu.uuid, number)
    assert not node.devices.is_intact(state)
    node.cut(19, 0)
    assert not node.devices.is_intact(state)
    node.undo("a")
    assert node.instances() == [(19, 0, 1)]


def test_a_device_is_intact_as_long_as_it_is_the_one_that_was_made(node: Any) -> None:
    assert node.devices.is_intact(node.make("a"))


def test_a_place_that_somebody_has_taken_is_refused_before_anything_is_saved(node: Any) -> None:
    node.cut(9, 0)
    with pytest.raises(
        HardwareError, match=r"GPU instance 1 of GPU GPU-.* has its memory slices and is of no"
    ):
        node.make("a", start=3)
    assert (node.saved, node.events.names) == ({}, [])
    node.cut(19, 5)
    node.make("b", start=4)  # between the two
    assert node.instances() == [(9, 0, 1), (19, 4, 1), (19, 5, 1)]


def test_the_mode_goes_with_the_last_device_that_needed_it(node: Any) -> None:
    node.make("a")
    node.make("b", start=1)
    node.undo("a")
    assert node.backend.mig.mode(node.gpu.uuid)
    node.undo("b")
    assert not node.backend.mig.mode(node.gpu.uuid)


def test_a_mode_that_was_on_before_stays_on(node: Any) -> None:
    node.backend.mig.set_mode(node.gpu.uuid, enabled=True)
    node.make("a")
    node.undo("a")
    assert node.backend.mig.mode(node.gpu.uuid)


def test_a_mode_that_somebody_else_needs_stays_on(node: Any) -> None:
    node.make("a")
    node.cut(19, 6)
    node.undo("a")
    assert node.instances() == [(19, 6, 1)]


def test_a_mode_that_cannot_be_switched_off_holds_no_claim(node: Any) -> None:
    node.make("a")
    node.events.errors["mode False"] = UnavailableError("something uses the GPU")
    with capture_logs() as logs:
        node.undo("a")
    assert [(entry["event"], entry["err"]) for entry in logs] == [
        ("MIG mode stays on", "something uses the GPU")
    ]
    assert (node.saved, node.instances()) == ({}, [])
    assert node.looks == [True, True]


def test_the_inventory_is_read_anew_after_the_mode_was_switched(node: Any) -> None:
    node.make("a")
    node.make("b", start=1)
    assert node.looks == [True]


def test_shares_of_one_device_are_one_mig_device_until_the_last_is_gone(node: Any) -> None:
    first = node.make("a")
    assert node.make("b") == first
    node.undo("a")
    assert (node.instances(), node.backend.mig.mode(node.gpu.uuid)) == ([(19, 0, 1)], True)
    node.undo("b")
    assert (node.instances(), node.backend.mig.mode(node.gpu.uuid)) == ([], False)


def test_a_share_waits_until_what_another_claim_left_is_gone(node: Any) -> None:
    node.backend._faults = Faults(mig=FaultsOf(MigFault.COMPUTE_FAILS))
    with pytest.raises(HardwareError):
        node.make("a")
    node.backend._faults = Faults()
    with pytest.raises(UnavailableError, match="what claim a left of it has to be taken back first"):
        node.make("b")
    node.undo("a")
    node.make("b")
    assert node.instances() == [(19, 0, 1)]


def test_a_share_waits_where_the_device_is_gone_that_another_claim_has_recorded(node: Any) -> None:
    node.make("a")
    (instance,) = node.backend.mig.instances(node.gpu.uuid)
    node.devices.destroy(node.gpu.uuid, instance)
    with pytest.raises(UnavailableError, match="what claim a left of it has to be taken back first"):
        node.make("b")
    assert "b" not in node.saved


def test_the_same_place_on_another_gpu_is_another_device(node: Any) -> None:
    elsewhere = {"device": "dev-elsewhere", "gpu": "GPU-elsewhere", "profile": 19, "start": 0}
    node.saved["b"] = elsewhere | {"gpuInstance": 7, "computeInstance": 0, "uuid": "MIG-elsewhere"}
    node.make("a")
    assert node.instances() == [(19, 0, 1)]
    node.undo("a")
    assert (node.instances(), node.backend.mig.mode(node.gpu.uuid)) == ([], False)


def leave(node: Any) -> None:
    step = LeaveMigMode(node.devices, "gpu-0", node.gpu.uuid)
    assert (step.kind, step.locks) == ("mig-device", (node.gpu.uuid,))
    step.do(lambda state: pytest.fail(f"saved {state}"), node.recorded(), StepResult())


def test_a_gpu_that_is_given_whole_leaves_mig_mode(node: Any) -> None:
    node.backend.mig.set_mode(node.gpu.uuid, enabled=True)
    leave(node)
    assert (node.backend.mig.mode(node.gpu.uuid), node.looks) == (False, [False])
    leave(node)
    assert node.looks == [False]


def test_a_gpu_with_somebody_s_instance_is_not_given_whole(node: Any) -> None:
    node.cut(19, 0)
    with pytest.raises(
        HardwareError, match=r"device gpu-0 cannot be given whole: GPU .* has GPU instance 7, which"
    ):
        leave(node)
    assert node.instances() == [(19, 0, 1)]


def test_what_was_cut_short_does_not_keep_a_gpu_from_being_given_whole(node: Any) -> None:
    node.cut(19, 0, fill=False)
    leave(node)
    assert (node.instances(), node.backend.mig.mode(node.gpu.uuid)) == ([], False)


class TestUnowned:
    """GPU instances that no claim owns."""

    def test_they_are_static_devices_and_stay(self, node: Any) -> None:
        node.cut(9, 4)
        node.devices.restore([])
        assert node.instances() == [(9, 4, 1)]

    def test_an_option_destroys_them_on_gpus_that_are_cut_on_demand(self, node: Any) -> None:
        node.make("a")
        node.cut(9, 4)
        node.restart(destroy_unowned=True)
        node.devices.restore(node.recorded())
        assert node.instances() == [(19, 0, 1)]

    def test_without_a_compute_instance_they_are_found_and_removed(self, node: Any) -> None:
        node.make("a")
        node.cut(9, 4, fill=False)
        node.restart()
        with capture_logs() as logs:
            node.devices.restore(node.recorded())
        assert node.instances() == [(19, 0, 1)]
        assert [entry["event"] for entry in logs] == ["GPU instance without a claim destroyed"]

    def test_a_claim_at_the_same_place_of_another_gpu_does_not_own_them(self, node: Any) -> None:
        node.cut(9, 4, fill=False)
        elsewhere = {"device": "dev", "gpu": "GPU-elsewhere", "profile": 9, "start": 4}
        node.devices.restore([OtherStep("ns/a", elsewhere)])
        assert node.instances() == []

    def test_on_a_gpu_that_is_not_cut_on_demand_they_are_somebody_s(self, node: Any) -> None:
        node.cut(9, 4, fill=False)
        node.restart(managed=False)
        node.devices.restore([])
        with pytest.raises(HardwareError, match="has GPU instance 2, which is of no claim"):
            leave(node)
        assert node.instances() == [(9, 4, 0)]

    def test_they_are_looked_for_before_the_first_change_where_the_start_could_not(self, node: Any) -> None:
        node.cut(9, 0, fill=False)
        node.make("a", start=2)
        assert node.instances() == [(19, 2, 1)]

    def test_one_that_is_made_later_is_not_taken_from_whoever_makes_it(self, node: Any) -> None:
        node.make("a")
        node.cut(9, 4, fill=False)
        node.make("b", start=1)
        assert node.instances() == [(19, 0, 1), (19, 1, 1), (9, 4, 0)]

    def test_one_that_cannot_be_destroyed_stops_nothing(self, node: Any) -> None:
        node.cut(9, 4, fill=False)
        node.backend._faults = Faults(mig=FaultsOf(MigFault.IN_USE))
        with capture_logs() as logs:
            node.devices.restore([])
        assert [entry["event"] for entry in logs] == ["GPU instance without a claim stays"]

    def test_a_gpu_that_cannot_be_asked_stops_nothing(self, node: Any) -> None:
        node.backend._faults = Faults(nvml=True)
        with capture_logs() as logs:
            node.devices.restore([])
        assert [entry["log_level"] for entry in logs] == ["warning"]

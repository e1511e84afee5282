"""Intervals of GPUs: set when a claim asks, put back by the last claim that asked."""

from typing import Any

import pytest

from dra_driver.config.settings import Interval, TimeSlicing
from dra_driver.devices.model import Target
from dra_driver.errors import ClaimError, HardwareError, UnavailableError
from dra_driver.sharing import nvidia_smi
from dra_driver.sharing.group import Group, Member
from dra_driver.steps import StepResult


def steps(sharing: Any, interval: Interval, *members: Member) -> Any:
    return sharing.steps([Group("P", TimeSlicing(interval), members)])


def test_an_interval_is_set_and_put_back(sharing: Any, records: Any, root: Any) -> None:
    records.do("a", steps(sharing, Interval.LONG, root.member()))
    assert "Long" == root.state("timeslice")

    records.undo("a")

    assert ["timeslice Long", "timeslice Default"] == root.calls()


def test_each_gpu_has_its_own_interval(sharing: Any, records: Any, root: Any) -> None:
    records.do("a", steps(sharing, Interval.SHORT, root.member(0)))
    records.do("b", steps(sharing, Interval.LONG, root.member(1)))
    records.undo("a")

    assert ("Default", "Long", "") == tuple(root.state("timeslice", gpu) for gpu in range(3))


def test_the_last_claim_that_asked_puts_it_back(sharing: Any, records: Any, root: Any) -> None:
    for claim in ("a", "b"):
        records.do(claim, steps(sharing, Interval.LONG, root.member()))

    records.undo("a")
    assert "Long" == root.state("timeslice")
    records.undo("b")
    assert "Default" == root.state("timeslice")


def test_of_several_gpus_those_are_put_back_that_no_other_claim_has(
    sharing: Any, records: Any, root: Any
) -> None:
    records.do("a", steps(sharing, Interval.LONG, root.member(0), root.member(1)))
    records.do("b", steps(sharing, Interval.LONG, root.member(0)))

    records.undo("a")

    assert ("Long", "Default") == (root.state("timeslice", 0), root.state("timeslice", 1))


def test_the_compute_mode_lets_processes_share_and_is_put_back(sharing: Any, records: Any, root: Any) -> None:
    (root.path / "simulated" / f"compute-mode.{root.uuids[0]}").write_text("Exclusive_Process\n")

    for claim in ("a", "b"):
        records.do(claim, steps(sharing, Interval.SHORT, root.member()))
    assert "Default" == root.state("compute-mode")
    for claim in ("a", "b"):
        records.undo(claim)

    assert "Exclusive_Process" == root.state("compute-mode")


def test_mig_devices_need_no_step(sharing: Any) -> None:
    member = Member("mig", Target("mig", "MIG-1", "GPU-1", "0000:01:00.0"))

    assert [] == steps(sharing, Interval.DEFAULT, member)


def test_an_unsupported_gpu_fails_the_claim_that_asked(sharing: Any, records: Any, root: Any) -> None:
    root.fault("nvidia-smi", "unsupported")

    with pytest.raises(ClaimError, match=rf"the time-slice of GPU {root.uuids[0]} cannot be set: .*leave"):
        records.do("a", steps(sharing, Interval.LONG, root.member()))
    records.undo("a")

    assert {} == records.states


def test_the_default_interval_is_what_an_unsupported_gpu_does(sharing: Any, records: Any, root: Any) -> None:
    root.fault("nvidia-smi", "unsupported")

    records.do("a", steps(sharing, Interval.DEFAULT, root.member()))
    records.undo("a")


@pytest.mark.parametrize("mode", ["Default", "Exclusive_Process"])
def test_a_driver_that_is_gone_does_not_keep_a_claim(
    sharing: Any, records: Any, root: Any, mode: str
) -> None:
    (root.path / "simulated" / f"compute-mode.{root.uuids[0]}").write_text(f"{mode}\n")
    records.do("a", steps(sharing, Interval.LONG, root.member()))
    root.fault("nvidia-smi", "broken")

    records.undo("a")

    assert {} == records.states


def test_a_gpu_that_refuses_keeps_no_claim(sharing: Any, records: Any, root: Any) -> None:
    root.fault("nvidia-smi", "refuse")

    with pytest.raises(HardwareError, match="Insufficient Permissions' and ended with code 4"):
        records.do("a", steps(sharing, Interval.LONG, root.member()))
    records.undo("a")

    assert {} == records.states


def test_a_driver_that_was_removed_keeps_no_claim(sharing: Any, records: Any, root: Any) -> None:
    (root.path / "simulated" / f"compute-mode.{root.uuids[0]}").write_text("Exclusive_Process\n")
    records.do("a", steps(sharing, Interval.LONG, root.member()))
    smi = root.path / "usr/bin/nvidia-smi"
    smi.rename(smi.with_suffix(".away"))

    records.undo("a")

    smi.with_suffix(".away").rename(smi)
    assert {} == records.states


def test_nothing_is_recorded_where_the_driver_does_not_answer(sharing: Any, records: Any, root: Any) -> None:
    root.fault("nvidia-smi", "broken")

    with pytest.raises(HardwareError, match="couldn't communicate with the NVIDIA driver"):
        records.do("a", steps(sharing, Interval.LONG, root.member()))

    assert {"a": {}} == records.states


def test_nothing_is_set_that_cannot_be_recorded(sharing: Any, root: Any) -> None:
    (root.path / "simulated" / f"compute-mode.{root.uuids[0]}").write_text("Exclusive_Process\n")
    (step,) = steps(sharing, Interval.LONG, root.member())

    def disk_is_full(state: Any) -> None:
        raise UnavailableError(f"cannot be recorded: {state}")

    with pytest.raises(UnavailableError, match=r"cannot be recorded: .*Exclusive_Process"):
        step.do(disk_is_full, [], StepResult())

    assert [] == root.calls()


def test_a_hanging_nvidia_smi_is_killed(
    sharing: Any, records: Any, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "SECONDS", 0.2)
    root.fault("nvidia-smi", "hang")

    with pytest.raises(UnavailableError, match=r"nvidia-smi did not end within 0\.2 s"):
        records.do("a", steps(sharing, Interval.LONG, root.member()))


def test_a_step_that_did_not_get_far_is_undone(sharing: Any, records: Any, root: Any) -> None:
    records.states["a"] = {"time-slice": {"interval": "Long", "modes": {root.uuids[0]: "Default"}}}

    for _ in range(2):
        sharing.kinds["time-slice"].undo(records.states["a"]["time-slice"], [])

    assert "Default" == root.state("timeslice")


def test_its_locks_are_the_gpus(sharing: Any, root: Any) -> None:
    (step,) = steps(sharing, Interval.LONG, root.member(0), root.member(3))

    assert (root.uuids[0], root.uuids[3]) == step.locks

"""MPS for a claim: the daemon, the compute mode, what containers get, and what is left when it ends."""

from typing import Any

import pytest

from dra_driver.config.settings import Mps
from dra_driver.devices.model import Target
from dra_driver.errors import ClaimError, ConfigError, HardwareError, UnavailableError
from dra_driver.quantity import Quantity
from dra_driver.sharing.daemon import DaemonSpec
from dra_driver.sharing.group import Group, Member
from dra_driver.sharing.supervision import Supervisor
from dra_driver.steps import Partition, StepResult


def steps(sharing: Any, setting: Mps, *members: Member) -> Any:
    return sharing.steps([Group("P", setting, members)])


def daemon_state(records: Any, claim: str = "a") -> Any:
    return records.states[claim]["mps-daemon"]


def left(mps_directory: Any) -> list[str]:
    return sorted(path.name for path in mps_directory.iterdir() if path.is_dir())


def test_a_daemon_runs_with_its_limits(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    records.do("a", steps(sharing, Mps(50, Quantity.parse("1Gi")), root.member(0), root.member(1)))

    pipe = mps_directory / daemon_state(records)["name"] / "pipe"
    devices = sorted(root.uuids[:2])
    assert devices == (pipe / "devices").read_text().strip().split(",")
    assert "50.0" == (pipe / "threads").read_text().strip()
    assert [f"{device}=1024M" for device in devices] == (pipe / "limits").read_text().split()
    assert {"Exclusive_Process"} == {root.state("compute-mode", gpu) for gpu in (0, 1)}


def test_nothing_is_left_of_it(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    records.do("a", steps(sharing, Mps(), root.member()))

    records.undo("a")

    assert [] == left(mps_directory)
    assert "Default" == root.state("compute-mode")
    assert frozenset() == sharing.kinds["mps-daemon"]._supervisor.names()


def test_containers_are_clients(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    records.do("a", steps(sharing, Mps(), root.member()))

    edits = sharing.kinds["mps-daemon"].result(daemon_state(records)).edits["gpu-0"]

    directory = mps_directory / daemon_state(records)["name"]
    assert ("CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",) == edits.env
    assert {
        (str(directory / "pipe"), "/tmp/nvidia-mps"),
        (str(directory / "shm"), "/dev/shm"),
    } == {(mount.host_path, mount.container_path) for mount in edits.mounts}
    assert all((directory / name).is_dir() for name in ("pipe", "shm"))


def test_claims_with_shares_of_a_gpu_share_its_daemon_until_the_last_one_ends(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    for claim, memory in (("a", 10 << 30), ("b", 20 << 30)):
        records.do(claim, steps(sharing, Mps(), root.member(memory=memory)))

    kind = sharing.kinds["mps-daemon"]
    env = [kind.result(daemon_state(records, claim)).edits["gpu-0"].env[1] for claim in ("a", "b")]
    assert [f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={mib}M" for mib in (10240, 20480)] == env
    records.undo("a")
    assert kind.is_intact(daemon_state(records, "b"))
    records.undo("b")
    assert ([], "Default") == (left(mps_directory), root.state("compute-mode"))


def test_a_mig_device_that_was_just_made_has_a_daemon_and_its_gpu_keeps_its_mode(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    member = Member("mig", Target("mig", "", root.uuids[0], "0000:01:00.0"))
    done = StepResult(partitions={"mig": Partition("MIG-made", 1, 0)})

    records.do("a", steps(sharing, Mps(), member), done)

    pipe = mps_directory / daemon_state(records)["name"] / "pipe"
    assert ("MIG-made", "") == ((pipe / "devices").read_text().strip(), root.state("compute-mode"))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("exit", "Failed to start : initialization error"),
        ("silent", "Cannot find MPS control daemon process"),
        ("limits", r"set_default_device_pinned_mem_limit .*invalid memory limit 1024M"),
    ],
)
def test_a_daemon_that_does_not_get_ready_fails_the_claim_with_its_last_lines(
    root: Any, supervise: Any, mps_directory: Any, fault: str, message: str, sharing: Any, records: Any
) -> None:
    supervise()
    root.fault("mps", fault)
    daemon, ready = steps(sharing, Mps(memory=Quantity.parse("1Gi")), root.member())
    object.__setattr__(ready, "seconds", 1.0)

    with pytest.raises(HardwareError, match=rf"the MPS daemon for {root.uuids[0]} does not.*{message}"):
        records.do("a", [daemon, ready])
    records.undo("a")

    assert ([], "Default") == (left(mps_directory), root.state("compute-mode"))


def test_a_gpu_that_refuses_its_mode_keeps_no_claim(
    sharing: Any, records: Any, root: Any, supervise: Any
) -> None:
    supervise()
    root.fault("nvidia-smi", "refuse")

    with pytest.raises(HardwareError, match=r"the compute mode of GPU .* cannot be set"):
        records.do("a", steps(sharing, Mps(), root.member()))
    records.undo("a")

    assert {} == records.states


def test_a_mode_that_cannot_be_put_back_keeps_the_claim(
    sharing: Any, records: Any, root: Any, supervise: Any
) -> None:
    supervise()
    records.do("a", steps(sharing, Mps(), root.member()))
    root.fault("nvidia-smi", "refuse")

    with pytest.raises(HardwareError, match=r"the compute mode of GPU .* cannot be set"):
        records.undo("a")
    root.mend("nvidia-smi")
    records.undo("a")

    assert "Default" == root.state("compute-mode")


def test_a_daemon_that_gets_ready_late_is_waited_for(
    sharing: Any, records: Any, root: Any, supervise: Any
) -> None:
    supervise()
    root.fault("mps", "exit")
    daemon, ready = steps(sharing, Mps(), root.member())
    records.do("a", [daemon])
    root.mend("mps")

    records.do("a", [ready])

    assert sharing.kinds["mps-daemon"].is_intact(daemon_state(records))


def test_a_daemon_that_ends_before_it_is_ready_is_started_again(
    sharing: Any, records: Any, root: Any, supervise: Any
) -> None:
    supervise()
    root.fault("mps", "exit")
    daemon, _ = steps(sharing, Mps(), root.member())
    records.do("a", [daemon])
    supervisor, name = sharing.kinds["mps-daemon"]._supervisor, daemon_state(records)["name"]

    with pytest.raises(HardwareError, match=r"does not get ready: .*initialization error"):
        supervisor.wait(name, 5.0)
    root.mend("mps")

    supervisor.wait(name, 60.0)


def test_a_daemon_that_is_being_started_again_is_intact(
    sharing: Any, records: Any, root: Any, supervise: Any
) -> None:
    supervisor = supervise()
    records.do("a", steps(sharing, Mps(), root.member()))
    supervisor.stop()
    supervise()

    assert sharing.kinds["mps-daemon"].is_intact(daemon_state(records))


def test_without_a_supervisor_the_claim_waits_and_can_end(sharing: Any, records: Any, root: Any) -> None:
    with pytest.raises(
        UnavailableError, match=r"supervisor of MPS daemons does not answer at .* mps-supervisor"
    ):
        records.do("a", steps(sharing, Mps(), root.member()))

    records.undo("a")

    assert ("Default", {}) == (root.state("compute-mode"), records.states)


def test_a_claim_ends_while_the_supervisor_is_away_and_leaves_nothing(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    first = supervise()
    records.do("a", steps(sharing, Mps(), root.member()))
    first.stop()

    records.undo("a")
    supervise()

    assert [] == left(mps_directory)


def test_daemons_without_a_record_are_ended_after_a_start(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    for number, claim in enumerate("ab"):
        records.do(claim, steps(sharing, Mps(), root.member(number)))
    del records.states["a"]

    sharing.kinds["mps-daemon"].restore(records.others("", "mps-daemon"))

    assert [daemon_state(records, "b")["name"]] == left(mps_directory)
    assert ("Default", "Exclusive_Process") == (root.state("compute-mode", 0), root.state("compute-mode", 1))


def test_a_gpu_of_a_daemon_without_a_record_keeps_its_mode_while_another_claim_needs_it(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    records.do("a", steps(sharing, Mps(), root.member(0), root.member(1)))
    del records.states["a"]
    records.do("b", steps(sharing, Mps(), root.member(1)))

    sharing.kinds["mps-daemon"].restore(records.others("", "mps-daemon"))

    assert [daemon_state(records, "b")["name"]] == left(mps_directory)
    assert ("Default", "Exclusive_Process") == (root.state("compute-mode", 0), root.state("compute-mode", 1))


def test_a_daemon_that_is_not_there_any_more_is_not_intact(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    records.do("a", steps(sharing, Mps(), root.member()))
    state = daemon_state(records, "a")
    assert sharing.kinds["mps-daemon"].is_intact(state)

    Supervisor(mps_directory).stop(state["name"])

    assert not sharing.kinds["mps-daemon"].is_intact(state)


def test_a_daemon_without_a_record_is_known_until_its_gpu_has_its_mode_back(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    records.do("a", steps(sharing, Mps(), root.member()))
    del records.states["a"]
    root.fault("nvidia-smi", "refuse")

    sharing.kinds["mps-daemon"].restore([])
    assert 1 == len(left(mps_directory))
    root.mend("nvidia-smi")
    sharing.kinds["mps-daemon"].restore([])

    assert ([], "Default") == (left(mps_directory), root.state("compute-mode"))


@pytest.mark.parametrize(("setting", "runs_on"), [(Mps(), True), (Mps(threads=5), False)])
def test_a_claim_goes_on_with_the_daemon_of_one_whose_record_was_lost(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any, setting: Mps, runs_on: bool
) -> None:
    """The other claim's containers may still run, and what the mode was before both is not forgotten."""
    supervise()
    records.do("a", steps(sharing, Mps(), root.member()))
    (pid,) = mps_directory.glob("*/pipe/*.pid")
    before = pid.read_text()
    del records.states["a"]

    records.do("b", steps(sharing, setting, root.member()))

    assert runs_on == (pid.read_text() == before)
    records.undo("b")
    assert ([], "Default") == (left(mps_directory), root.state("compute-mode"))


def test_a_daemon_that_another_claim_uses_is_not_ended_for_one_that_wants_other_limits(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    records.do("a", steps(sharing, Mps(50), root.member()))

    with pytest.raises(HardwareError, match="an MPS daemon with other limits serves"):
        records.do("b", steps(sharing, Mps(20), root.member()))
    records.undo("b")

    pipe = mps_directory / daemon_state(records)["name"] / "pipe"
    assert "50.0" == (pipe / "threads").read_text().strip()
    assert "Exclusive_Process" == root.state("compute-mode")


def test_a_daemon_whose_file_was_damaged_is_started_anew(
    sharing: Any, records: Any, root: Any, supervise: Any, mps_directory: Any
) -> None:
    supervise()
    directory = mps_directory / DaemonSpec((root.uuids[0],)).name
    directory.mkdir()
    (directory / "daemon.json").write_text("[]")

    records.do("a", steps(sharing, Mps(), root.member()))

    assert sharing.kinds["mps-daemon"].is_intact(daemon_state(records))


@pytest.mark.parametrize("uuid", ["GPU-1", ""], ids=["there", "made for the claim"])
def test_a_limit_for_another_device_is_found_before_anything_is_done(sharing: Any, uuid: str) -> None:
    member = Member("mig", Target("mig", uuid, "GPU-1", "0000:01:00.0"))

    with pytest.raises(ConfigError, match=r"'MIG-2' is none of the claim's devices"):
        steps(sharing, Mps(memory_of={"MIG-2": Quantity.parse("1Gi")}), member)


def test_several_users_need_volta(sharing: Any, root: Any) -> None:
    with pytest.raises(ClaimError, match=r"multiUser: device gpu-0 has compute capability 6\.1"):
        steps(sharing, Mps(multi_user=True), root.member(compute_capability=(6, 1, 0)))

    assert 2 == len(steps(sharing, Mps(multi_user=True), root.member(compute_capability=(7, 0, 0))))


def test_waiting_holds_no_lock_and_comes_last(sharing: Any, root: Any) -> None:
    groups = [Group("P", Mps(), (root.member(gpu),)) for gpu in (0, 1)]

    found = sharing.steps(groups)

    assert [("mps-daemon", 1), ("mps-daemon", 1), ("mps-ready", 0), ("mps-ready", 0)] == [
        (step.kind, len(step.locks)) for step in found
    ]

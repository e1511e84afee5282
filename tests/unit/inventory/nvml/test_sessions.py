"""NVML that is missing, not ready, hung or restarted: the scan says so and the next one tries again."""

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from dra_driver.inventory.model import Inventory
from dra_driver.inventory.nvml_api import Code
from dra_driver.inventory.nvml_library import LIBRARY
from tests.unit.inventory.nvml.fake_gpu import FakeGpu

Node = Callable[..., Any]
Board = Callable[[int], list[FakeGpu]]


def nvml_threads() -> int:
    return sum(thread.name == "nvml" for thread in threading.enumerate())


def patient_scan(node: Any) -> Inventory:
    """A scan under a short deadline, on a machine that may be slower than that."""
    while not (inventory := node.scan()).available:
        pass
    return cast("Inventory", inventory)


def test_one_session_serves_all_scans(node: Node, board: Board) -> None:
    here = node(*board(2))
    scans = [here.scan() for _ in range(5)]
    assert scans == [scans[0]] * 5
    assert here.nvml.sessions == 1
    assert here.nvml.calls.count("nvmlDeviceGetHandleByIndex") == 2


def test_a_scan_tells_the_driver_s_versions(node: Node, board: Board) -> None:
    inventory = node(*board(1)).scan()
    assert (inventory.driver_version, inventory.cuda_driver_version) == ("580.95.05", 13000)


@pytest.mark.parametrize("function", ["nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion"])
def test_a_driver_that_does_not_tell_its_version_still_has_gpus(
    node: Node, board: Board, function: str
) -> None:
    here = node(*board(1))
    here.nvml.errors[function] = Code.FUNCTION_NOT_FOUND
    assert [gpu.uuid for gpu in here.scan().gpus] == ["GPU-0"]


def test_a_missing_library_names_the_places_and_is_found_when_it_comes(node: Node, board: Board) -> None:
    here = node(*board(1))
    here.library.unlink()
    inventory = here.scan()
    assert (inventory.available, inventory.gpus) == (False, ())
    (problem,) = inventory.problems
    assert str(here.root) in problem.message
    assert "usr/lib64, usr/lib/x86_64-linux-gnu" in problem.message
    here.library.touch()
    assert here.scan().available


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (Code.DRIVER_NOT_LOADED, "modprobe nvidia"),
        (Code.LIB_RM_VERSION_MISMATCH, "of another version than the loaded nvidia kernel driver"),
        (Code.NO_PERMISSION, "run it privileged"),
        (Code.FUNCTION_NOT_FOUND, "nvmlInitWithFlags answered FUNCTION_NOT_FOUND (13)"),
        (Code.UNKNOWN, "nvmlInitWithFlags answered UNKNOWN (999)"),
        (4711, "nvmlInitWithFlags answered code (4711)"),
    ],
)
def test_an_init_that_fails_is_told_in_one_sentence_and_tried_again(
    node: Node, board: Board, code: int, says: str
) -> None:
    here = node(*board(1))
    here.nvml.errors["nvmlInitWithFlags"] = code
    inventory = here.scan()
    assert (inventory.available, inventory.gpus) == (False, ())
    (problem,) = inventory.problems
    assert says in problem.message
    assert str(here.library) in problem.message
    del here.nvml.errors["nvmlInitWithFlags"]
    assert here.scan().available


def test_more_gpus_than_the_driver_has_numbers_for_are_no_answer(node: Node, board: Board) -> None:
    here = node(*board(257))
    inventory = here.scan()
    assert (inventory.available, inventory.gpus) == (False, ())
    assert (
        "NVML cannot be asked (nvmlDeviceGetCount: there cannot be 257 of them, with"
        in inventory.problems[0].message
    )
    del here.nvml.gpus[1:]
    assert [gpu.uuid for gpu in here.scan().gpus] == ["GPU-0"]


def test_a_node_without_gpus_is_not_available_but_knows_its_driver(node: Node) -> None:
    inventory = node().scan()
    assert (inventory.available, inventory.driver_version, inventory.gpus) == (False, "580.95.05", ())
    assert inventory.problems[0].message.startswith("NVML lists no GPU on this node")


@pytest.mark.parametrize("live", [True, False], ids=["told by the session", "told by new sessions only"])
def test_gpus_that_appear_after_three_empty_scans_are_found(node: Node, board: Board, live: bool) -> None:
    here = node(live=live)
    assert [len(here.scan().gpus) for _ in range(3)] == [0, 0, 0]
    here.nvml.gpus += board(8)
    assert len(here.scan().gpus) == 8


@pytest.mark.parametrize("live", [True, False], ids=["told by the session", "told by new sessions only"])
def test_the_eighth_gpu_that_binds_late_is_found(node: Node, board: Board, live: bool) -> None:
    gpus = board(8)
    here = node(*gpus[:7], live=live)
    here.bind(*(f"0000:1{i}:00.0" for i in range(7)))
    assert len(here.scan().gpus) == 7
    here.nvml.gpus.append(gpus[7])
    here.bind("0000:17:00.0")
    assert len(here.scan().gpus) == 8


def test_a_gpu_that_nvml_leaves_out_on_purpose_does_not_open_sessions_all_the_time(
    node: Node, board: Board
) -> None:
    here = node(*board(1))
    here.bind("0000:10:00.0", "0000:99:00.0")
    for here.now in range(0, 600, 10):
        inventory = here.scan()
        assert [problem.pci_address for problem in inventory.problems] == ["0000:99:00.0"]
    assert here.nvml.sessions == 4  # at the start, and after 60, 120 and 240 seconds more


def test_a_lost_gpu_is_looked_for_in_a_new_session_after_a_while(node: Node, board: Board) -> None:
    here = node(*board(2))
    here.scan()
    here.nvml.gpus[0].lost = True
    here.nvml.gpus[0] = replace(here.nvml.gpus[0], lost=False)  # well again, for new sessions
    assert here.scan().gpus[0].fault is not None
    here.now = 60.0
    assert here.scan().gpus[0].fault is None


def test_a_gpu_that_is_lost_again_after_it_was_well_is_not_waited_for_longer(
    node: Node, board: Board
) -> None:
    here = node(*board(1))
    here.scan()
    for here.now, lost in [(0.0, True), (60.0, True), (180.0, True), (200.0, False), (210.0, True)]:
        here.nvml.gpus[0].lost = lost
        here.scan()
    sessions = here.nvml.sessions
    here.now = 240.0  # 60 seconds after the session was opened
    here.scan()
    assert here.nvml.sessions == sessions + 1


@pytest.mark.parametrize("function", ["nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo"])
def test_a_session_that_the_driver_ended_is_opened_again(node: Node, board: Board, function: str) -> None:
    here = node(*board(2))
    before = here.scan()
    here.nvml.end_session()
    assert here.scan() == before
    assert here.nvml.sessions == 2


def test_a_driver_that_is_unloaded_in_use_leaves_its_gpus_with_a_fault(node: Node, board: Board) -> None:
    here = node(*board(2))
    before = here.scan()
    here.nvml.end_session()
    here.nvml.errors["nvmlInitWithFlags"] = Code.DRIVER_NOT_LOADED
    inventory = here.scan()
    assert [replace(gpu, fault=None) for gpu in inventory.gpus] == list(before.gpus)
    assert {gpu.fault for gpu in inventory.gpus} == {inventory.problems[0].message}
    del here.nvml.errors["nvmlInitWithFlags"]
    assert here.scan() == before


def test_the_library_of_an_upgraded_driver_is_loaded(node: Node, board: Board) -> None:
    here = node(*board(1))
    old, new = (
        here.library.with_name("libnvidia-ml.so.580.1"),
        here.library.with_name("libnvidia-ml.so.590.1"),
    )
    here.library.unlink()
    old.touch()
    here.library.symlink_to(old.name)
    here.scan()
    here.nvml._nvmlGetFunctionPointer_cache["nvmlDeviceGetUUID"] = "of the old library"
    old.rename(new)
    here.library.unlink()
    here.library.symlink_to(new.name)
    here.nvml.end_session()
    assert here.scan().available
    assert here.nvml.nvmlLib == str(new)
    assert here.nvml._nvmlGetFunctionPointer_cache == {}


def test_a_library_that_does_not_load_is_named_and_the_next_one_used(node: Node, board: Board) -> None:
    here = node(*board(1))
    other = here.root / "usr/lib" / LIBRARY
    other.parent.mkdir()
    other.touch()
    here.nvml.refused.add(str(here.library))
    assert here.scan().available
    assert here.nvml.nvmlLib == str(other)


def test_a_node_with_libraries_that_do_not_load_only_says_why(node: Node, board: Board) -> None:
    here = node(*board(1))
    here.nvml.refused.add(str(here.library))
    assert here.scan().problems[0].message == (
        f"no NVML library could be loaded, tried {here.library} ({here.library}: wrong ELF class: ELFCLASS32): "
        "install the driver for this machine"
    )


def test_mps_enumeration_is_switched_off(node: Node, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_MPS_DEVICE_ENUMERATION", "1")
    node(*board(1)).scan()
    assert "NVML_MPS_DEVICE_ENUMERATION" not in os.environ


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo"])
def test_a_call_that_hangs_ends_the_scan_and_holds_one_thread_only(
    node: Node, board: Board, function: str
) -> None:
    here = node(*board(2), deadline_seconds=0.05)
    here.nvml.hangs[function] = threading.Event()
    threads = nvml_threads()
    inventories = [here.scan() for _ in range(4)]
    assert {inventory.available for inventory in inventories} == {False}
    assert "NVML has not answered for 0.05 s" in inventories[-1].problems[0].message
    assert nvml_threads() == threads + 1
    assert here.nvml.calls.count(function) <= 1  # not even that where the machine is slower than the deadline


def test_nvml_that_answers_again_after_a_hang_is_used_again(node: Node, board: Board) -> None:
    here = node(*board(2), deadline_seconds=0.05)
    hang = here.nvml.hangs["nvmlInitWithFlags"] = threading.Event()
    assert not here.scan().available
    hang.set()
    assert len(patient_scan(here).gpus) == 2
    assert here.nvml.sessions == 1


def test_gpus_of_before_a_hang_stay_with_a_fault(node: Node, board: Board) -> None:
    here = node(*board(2), deadline_seconds=0.05)
    before = patient_scan(here)
    here.nvml.hangs["nvmlDeviceGetCount"] = threading.Event()
    inventory = here.scan()
    assert [replace(gpu, fault=None) for gpu in inventory.gpus] == list(before.gpus)
    assert all(gpu.fault is not None for gpu in inventory.gpus)


def test_closing_shuts_nvml_down_once(node: Node, board: Board) -> None:
    here = node(*board(1))
    here.scan()
    here.backend.close()
    here.backend.close()
    assert here.nvml.calls.count("nvmlShutdown") == 1


def test_closing_while_nvml_hangs_returns(node: Node, board: Board) -> None:
    here = node(*board(1), deadline_seconds=0.05)
    here.nvml.hangs["nvmlDeviceGetCount"] = threading.Event()
    here.scan()
    here.backend.close()
    assert "nvmlShutdown" not in here.nvml.calls


def test_the_root_of_the_library_in_use_is_known(node: Node, board: Board) -> None:
    here = node(*board(1))
    assert here.backend.driver_root is None
    here.scan()
    assert here.backend.driver_root == here.root

"""One GPU that is lost, broken or strange never takes the others of its node down."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.inventory.model import Problem
from dra_driver.inventory.nvml_api import GONE_CODES, SESSION_CODES, Code
from tests.unit.inventory.nvml.fake_gpu import FakeGpu

Node = Callable[..., Any]
Board = Callable[[int], list[FakeGpu]]

MANDATORY = ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo", "nvmlDeviceGetName"]
FAILURES = sorted(set(Code) - {Code.SUCCESS})


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: code.name)
@pytest.mark.parametrize("getter", MANDATORY)
def test_a_gpu_that_cannot_be_identified_is_a_problem_of_its_own(
    node: Node, board: Board, getter: str, code: Code
) -> None:
    gpus = board(3)
    gpus[1].errors[getter] = code
    inventory = node(*gpus).scan()
    assert [gpu.uuid for gpu in inventory.gpus if gpu.fault is None] == ["GPU-0", "GPU-2"]
    assert len(inventory.problems) == 1
    assert inventory.available


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: code.name)
@pytest.mark.parametrize("getter", MANDATORY)
def test_a_known_gpu_that_can_no_longer_be_identified_keeps_its_facts_and_gets_a_fault(
    node: Node, board: Board, getter: str, code: Code
) -> None:
    gpus = board(3)
    here = node(*gpus)
    before = here.scan().gpus
    gpus[1].errors[getter] = code
    here.nvml.end_session()  # so that the handle is asked for again
    inventory = here.scan()
    assert (inventory.gpus[0], inventory.gpus[2]) == (before[0], before[2])
    assert replace(inventory.gpus[1], fault=None) == before[1]
    assert inventory.gpus[1].fault is not None


@pytest.mark.parametrize("code", sorted(GONE_CODES), ids=lambda code: code.name)
@pytest.mark.parametrize(
    "getter", ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetMigMode"]
)
def test_a_gpu_is_lost_when_any_getter_says_so(node: Node, board: Board, getter: str, code: Code) -> None:
    gpus = board(2)
    here = node(*gpus)
    before = here.scan().gpus
    gpus[0].errors[getter] = code
    lost, well = here.scan().gpus
    assert (replace(lost, fault=None), well) == before
    assert lost.fault is not None


@pytest.mark.parametrize("code", sorted(SESSION_CODES), ids=lambda code: code.name)
@pytest.mark.parametrize("getter", [*MANDATORY, "nvmlDeviceGetBrand", "nvmlDeviceGetMigMode"])
def test_a_gpu_that_denies_a_session_which_serves_the_others_is_itself_at_fault(
    node: Node, board: Board, getter: str, code: Code
) -> None:
    gpus = board(3)
    here = node(*gpus)
    here.scan()
    gpus[1].errors[getter] = code
    here.nvml.end_session()
    for _ in range(4):
        inventory = here.scan()
        assert [gpu.fault is None for gpu in inventory.gpus] == [True, False, True]
        assert inventory.available
    assert here.nvml.sessions <= 3  # the first, the one after its end, and none for each scan


def test_a_lost_gpu_says_what_to_do_and_is_no_problem_beside(node: Node, board: Board) -> None:
    gpus = board(1)
    here = node(*gpus)
    here.scan()
    gpus[0].lost = True
    inventory = here.scan()
    assert inventory.gpus[0].fault == (
        "GPU GPU-0 is lost (fallen off the bus): look for its Xid in the kernel log, then reset it or reboot the node"
    )
    assert inventory.problems == ()


def test_a_gpu_that_was_lost_before_the_first_scan_is_there_with_its_identity(
    node: Node, board: Board
) -> None:
    gpus = board(1)
    gpus[0].errors["nvmlDeviceGetMemoryInfo"] = Code.GPU_IS_LOST
    (gpu,) = node(*gpus).scan().gpus
    assert (gpu.uuid, gpu.pci_address, gpu.memory_bytes) == ("GPU-0", "0000:10:00.0", None)
    assert gpu.fault is not None


def test_the_facts_kept_are_those_of_the_last_full_reading(node: Node, board: Board) -> None:
    gpus = board(1)
    here = node(*gpus)
    (before,) = here.scan().gpus
    gpus[0].errors["nvmlDeviceGetMemoryInfo"] = Code.GPU_IS_LOST
    for _ in range(3):
        here.scan()
    assert replace(here.scan().gpus[0], fault=None) == before


def test_a_gpu_that_comes_back_has_no_fault(node: Node, board: Board) -> None:
    gpus = board(2)
    here = node(*gpus)
    before = here.scan()
    gpus[0].lost = True
    here.scan()
    gpus[0].lost = False
    assert here.scan() == before


def test_a_gpu_that_nvml_lists_no_longer_stays_with_a_fault(node: Node, board: Board) -> None:
    here = node(*board(3), live=True)
    before = here.scan().gpus
    del here.nvml.gpus[0]
    gone, *rest = here.scan().gpus
    assert replace(gone, fault=None) == before[0]
    assert gone.fault == (
        "GPU GPU-0 at 0000:10:00.0 is no longer listed by NVML: it was unbound, removed or has fallen off the bus"
    )
    assert [gpu.fault for gpu in rest] == [None, None]


def test_a_gpu_that_was_replaced_in_its_slot_is_forgotten(node: Node, board: Board) -> None:
    here = node(*board(2), live=True)
    here.scan()
    here.nvml.gpus[0].lost = True
    here.nvml.gpus[0] = FakeGpu("GPU-new", "00000000:10:00.0")
    here.scan()  # the old handle is lost, and dropped
    assert [(gpu.uuid, gpu.fault) for gpu in here.scan().gpus] == [("GPU-new", None), ("GPU-1", None)]


@pytest.mark.parametrize(
    "twin",
    [FakeGpu("GPU-0", "00000000:20:00.0"), FakeGpu("GPU-9", "00000000:10:00.0")],
    ids=["same uuid", "same address"],
)
def test_of_two_gpus_with_one_identity_the_first_is_published(
    node: Node, board: Board, twin: FakeGpu
) -> None:
    here = node(*board(1), twin)
    for _ in range(3):
        inventory = here.scan()
        assert [gpu.pci_address for gpu in inventory.gpus] == ["0000:10:00.0"]
        assert [problem.uuid for problem in inventory.problems] == [twin.uuid]


def test_gpus_that_had_one_uuid_for_a_moment_are_told_apart_again(node: Node, board: Board) -> None:
    gpus = board(3)
    here = node(*gpus)
    before = here.scan()
    for gpu in gpus:
        gpu.uuid = "GPU-none"
    here.scan()
    for index, gpu in enumerate(gpus):
        gpu.uuid = f"GPU-{index}"
    assert [here.scan(), here.scan()] == [before, before]


@pytest.mark.parametrize(
    ("fact", "value"),
    [("uuid", " "), ("name", " "), ("bus_id", "0000:00:00.0"), ("bus_id", "0000:100:00.0")],
)
def test_a_gpu_with_an_identity_that_is_none_is_a_problem(
    node: Node, board: Board, fact: str, value: str
) -> None:
    odd = board(1)[0]
    setattr(odd, fact, value)
    inventory = node(FakeGpu("GPU-8", "00000000:80:00.0"), odd).scan()
    assert [gpu.uuid for gpu in inventory.gpus] == ["GPU-8"]
    assert len(inventory.problems) == 1


@pytest.mark.parametrize("known", [True, False])
def test_a_gpu_that_answers_in_an_unknown_shape_is_itself_at_fault(
    node: Node, board: Board, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    here = node(*board(3))
    before = here.scan().gpus if known else ()
    ask = here.nvml.nvmlDeviceGetMigMode
    here.nvml.end_session()
    with monkeypatch.context() as patch:
        patch.setattr(here.nvml, "nvmlDeviceGetMigMode", lambda gpu: 7 if gpu.parent.minor == 1 else ask(gpu))
        inventory = here.scan()
        again = here.scan()

    assert again == inventory
    assert ["GPU-0", "GPU-2"] == [gpu.uuid for gpu in inventory.gpus if gpu.fault is None]
    assert ["GPU-1"] == [gpu.uuid for gpu in inventory.gpus if gpu.fault is not None]
    assert inventory.gpus[1].fault == (
        "GPU GPU-1 at 0000:11:00.0 cannot be read (pynvml: an answer is not of its kind (cannot unpack non-iterable "
        "int object)): look for its Xid in the kernel log"
    )
    after = here.scan().gpus
    assert ["GPU-0", "GPU-1", "GPU-2"] == [gpu.uuid for gpu in after if gpu.fault is None]
    assert before in ((), after)


def test_minors_that_swap_leave_identities_as_they_were(node: Node, board: Board) -> None:
    gpus = board(2)
    here = node(*gpus)
    here.scan()
    gpus[0].minor, gpus[1].minor = 1, 0
    here.nvml.end_session()
    assert [(gpu.uuid, gpu.pci_address, gpu.minor) for gpu in here.scan().gpus] == [
        ("GPU-0", "0000:10:00.0", 1),
        ("GPU-1", "0000:11:00.0", 0),
    ]


def test_gpus_are_ordered_by_pci_address_whatever_nvml_s_order(node: Node) -> None:
    buses = ["00010000:01:00.0", "0000000F:01:00.0", "00000000:B7:00.0", "00000000:07:00.0"]
    inventory = node(*(FakeGpu(f"GPU-{i}", bus) for i, bus in enumerate(buses))).scan()
    assert [(gpu.pci_address, gpu.index) for gpu in inventory.gpus] == [
        ("0000:07:00.0", 3),
        ("0000:b7:00.0", 2),
        ("000f:01:00.0", 1),
        ("10000:01:00.0", 0),
    ]


def test_a_gpu_without_permission_says_what_the_plugin_lacks(node: Node, board: Board) -> None:
    gpus = board(1)
    gpus[0].errors["nvmlDeviceGetHandleByIndex"] = Code.NO_PERMISSION
    assert node(*gpus).scan().problems == (
        Problem(
            "the GPU with NVML index 0 may not be opened by the plugin: run it privileged, with the node's /dev"
        ),
    )

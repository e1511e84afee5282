"""MIG mode, profiles with their placements, and the devices that exist."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.inventory.model import Mig, MigDevice, MigProfile, Problem
from dra_driver.inventory.nvml_api import GONE_CODES, SESSION_CODES, Code
from dra_driver.inventory.nvml_mig import profile_name
from tests.unit.inventory.nvml.fake_gpu import FakeGpu, FakeMig, FakeMigDevice, FakeProfile

Node = Callable[..., Any]

ONE, THREE = 0, 2  # enum indices of 1_SLICE and 3_SLICE
ANY_FAILURE = sorted(set(Code) - SESSION_CODES - GONE_CODES - {Code.SUCCESS})


def a100(*devices: FakeMigDevice | None, current: int = 1, pending: int = 1) -> FakeGpu:
    profiles = {
        ONE: FakeProfile(
            19,
            "MIG 1g.5gb",
            slices=1,
            memory_mib=4864,
            multiprocessors=14,
            copy_engines=1,
            instances=7,
            placements=tuple((start, 1) for start in range(7)),
        ),
        THREE: FakeProfile(
            9,
            "MIG 3g.20gb",
            slices=3,
            memory_mib=19968,
            multiprocessors=42,
            copy_engines=3,
            decoders=2,
            instances=2,
            placements=((4, 4), (0, 4)),
        ),
    }
    return FakeGpu(
        "GPU-1",
        "00000000:07:00.0",
        memory_bytes=40960 * 2**20,
        mig=FakeMig(current, pending, profiles, list(devices)),
    )


SMALL = MigProfile(19, "1g.5gb", 4864 * 2**20, 1, 14, 1, 0, 0, 0, 0, 7, (0, 1, 2, 3, 4, 5, 6), 1)
BIG = MigProfile(9, "3g.20gb", 19968 * 2**20, 3, 42, 3, 2, 0, 0, 0, 2, (0, 4), 4)
FIRST = FakeMigDevice("MIG-a", gpu_instance=7, profile_id=19, placement=(0, 1))
SECOND = FakeMigDevice("MIG-b", 2, 9, (4, 4), compute_slices=3, gpu_slices=3)


def test_a_gpu_that_is_not_capable_has_no_mig(node: Node) -> None:
    assert node(replace(a100(), mig=None)).gpu().mig is None


@pytest.mark.parametrize(
    ("current", "pending", "expected"),
    [(0, 0, (False, False)), (0, 1, (False, True)), (1, 0, (True, False)), (1, 1, (True, True))],
)
def test_mode_is_current_and_pending(
    node: Node, current: int, pending: int, expected: tuple[bool, bool]
) -> None:
    mig = node(a100(current=current, pending=pending)).gpu().mig
    assert (mig.enabled, mig.pending) == expected


@pytest.mark.parametrize(("current", "pending"), [(0x41414141, 0), (1, 2)])
def test_a_mode_that_is_none_is_not_told(node: Node, current: int, pending: int) -> None:
    here = node(a100(FIRST, current=current, pending=pending))
    assert here.gpu().mig is None


def test_profiles_carry_the_driver_s_id_and_sorted_placements(node: Node) -> None:
    assert node(a100(current=0)).gpu().mig.profiles == (SMALL, BIG)


def test_existing_devices_are_told_with_profile_and_placement(node: Node) -> None:
    assert node(a100(SECOND, None, FIRST)).gpu().mig == Mig(
        enabled=True,
        pending=True,
        profiles=(SMALL, BIG),
        devices=(MigDevice("MIG-a", 7, 0, SMALL, 0), MigDevice("MIG-b", 2, 0, BIG, 4)),
        switchable=True,
    )


@pytest.mark.parametrize("code", ANY_FAILURE, ids=lambda code: code.name)
def test_a_gpu_whose_mode_is_not_told_for_a_moment_does_not_pass_for_one_without_mig(
    node: Node, code: Code
) -> None:
    gpu = a100(FIRST, SECOND)
    here = node(gpu)
    before = here.scan()
    gpu.errors["nvmlDeviceGetMigMode"] = code
    if code in {Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND}:  # which tells that there is none
        assert here.gpu().mig is None
    else:
        assert [here.scan(), here.scan()] == [before, before]
    del gpu.errors["nvmlDeviceGetMigMode"]
    assert gpu.mig is not None
    gpu.mig.current, gpu.mig.pending = 0, 0
    assert not here.gpu().mig.enabled


def test_devices_are_looked_for_in_mig_mode_only(node: Node) -> None:
    here = node(a100(FIRST, current=0))
    assert here.gpu().mig.devices == ()
    assert "nvmlDeviceGetMigDeviceHandleByIndex" not in here.nvml.calls


@pytest.mark.parametrize("code", ANY_FAILURE, ids=lambda code: code.name)
@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId",
        "nvmlGpuInstanceGetInfo",
    ],
)
def test_a_device_that_cannot_be_read_is_a_problem_of_its_own(node: Node, function: str, code: Code) -> None:
    inventory = node(a100(replace(FIRST, errors={function: code}), SECOND)).scan()
    (gpu,) = inventory.gpus
    assert [device.uuid for device in gpu.mig.devices] == ["MIG-b"]
    assert [problem.uuid for problem in inventory.problems] == ["GPU-1"]


@pytest.mark.parametrize("code", ANY_FAILURE, ids=lambda code: code.name)
def test_mig_devices_that_cannot_be_listed_are_hidden_and_not_none(node: Node, code: Code) -> None:
    gpu = a100(FIRST, SECOND)
    gpu.errors["nvmlDeviceGetMaxMigDeviceCount"] = code
    inventory = node(gpu).scan()
    mig = inventory.gpus[0].mig
    assert mig is not None
    assert (mig.devices, mig.hidden) == ((), 1)
    assert inventory.problems == (
        Problem(
            f"the MIG devices of GPU GPU-1 cannot be read (nvmlDeviceGetMaxMigDeviceCount answered {code.name} ({code})): "
            "not published",
            uuid="GPU-1",
        ),
    )


def test_a_place_that_no_gpu_has_is_not_counted_up_to(node: Node) -> None:
    gpu = a100(FIRST, replace(SECOND, placement=(2**32 - 1, 4)))
    assert gpu.mig is not None
    gpu.mig.profiles[THREE].placements = ((0, 2**32 - 1),)
    inventory = node(gpu).scan()
    mig = inventory.gpus[0].mig
    assert mig is not None
    assert mig.profiles[1] == replace(BIG, placements=(), size=0)
    assert ([device.uuid for device in mig.devices], mig.hidden) == (["MIG-a"], 1)
    assert [problem.message for problem in inventory.problems] == [
        "MIG device MIG-b has memory slices 4294967295 to 4294967298, which no GPU has: it is not published"
    ]


def test_so_many_places_that_no_gpu_has_them_are_none(node: Node) -> None:
    gpu = a100(current=0)
    assert gpu.mig is not None
    gpu.mig.profiles[THREE].placements = ((0, 1),) * 1000
    assert node(gpu).gpu().mig.profiles == (SMALL, replace(BIG, placements=(), size=0))


@pytest.mark.parametrize(
    ("architecture", "switchable"), [(8, False), (9, True), (10, True), (2**32 - 1, False)]
)
def test_whether_the_mode_can_be_switched_is_told_by_the_architecture_where_the_driver_does_not_say(
    node: Node, architecture: int, *, switchable: bool
) -> None:
    gpu = replace(a100(current=0), architecture=architecture)
    assert gpu.mig is not None
    gpu.mig.resetless = None
    assert node(gpu).gpu().mig.switchable is switchable


@pytest.mark.parametrize("code", [Code.NOT_FOUND, Code.INVALID_ARGUMENT])
def test_holes_between_devices_are_no_problem(node: Node, code: Code) -> None:
    gpu = a100(FIRST)
    gpu.errors["nvmlDeviceGetMigDeviceHandleByIndex"] = code
    assert node(gpu).gpu().mig.devices == ()


def test_a_device_of_a_lost_gpu_is_the_gpu_s_fault(node: Node) -> None:
    gpu = a100(FIRST)
    gpu.errors["nvmlDeviceGetMigDeviceHandleByIndex"] = Code.GPU_IS_LOST
    assert node(gpu).scan().gpus[0].fault is not None


def test_a_part_of_a_gpu_instance_is_not_published(node: Node) -> None:
    part = replace(SECOND, compute_slices=1)
    inventory = node(a100(FIRST, part)).scan()
    assert [device.uuid for device in inventory.gpus[0].mig.devices] == ["MIG-a"]
    assert inventory.problems[0].message.startswith("MIG device MIG-b is only a part of its GPU instance")
    mig = inventory.gpus[0].mig
    assert mig is not None
    assert 1 == mig.hidden


def test_two_compute_instances_of_one_gpu_instance_are_parts_even_where_slices_are_not_told(
    node: Node,
) -> None:
    gpu = a100(SECOND, replace(SECOND, uuid="MIG-c", compute_instance=1), FIRST)
    gpu.errors["nvmlDeviceGetAttributes"] = Code.NOT_SUPPORTED
    inventory = node(gpu).scan()
    assert [device.uuid for device in inventory.gpus[0].mig.devices] == ["MIG-a"]
    assert len(inventory.problems) == 2


def test_a_profile_beyond_the_known_indices_is_asked_for_by_its_id(node: Node) -> None:
    gpu = a100(replace(FIRST, profile_id=99))
    assert gpu.mig is not None
    gpu.mig.profiles[0x12] = FakeProfile(99, "MIG 1g.7gb+new", 1, 7000, placements=((0, 1),))
    (device,) = node(gpu).gpu().mig.devices
    assert (device.profile.id, device.profile.name) == (99, "1g.7gb+new")


def test_a_device_of_a_profile_that_nobody_describes_is_a_problem(node: Node) -> None:
    inventory = node(a100(replace(FIRST, profile_id=99))).scan()
    assert inventory.gpus[0].mig.devices == ()
    assert "profile 99, which the driver does not describe" in inventory.problems[0].message


def test_a_profile_name_that_is_no_text_leaves_the_rule(node: Node) -> None:
    gpu = a100()
    assert gpu.mig is not None
    gpu.mig.profiles[ONE].name = b"MIG \xff"
    assert [profile.name for profile in node(gpu).gpu().mig.profiles] == ["1g.5gb", "3g.20gb"]


def test_drivers_without_named_profiles_leave_the_rule(node: Node) -> None:
    gpu = a100(FIRST)
    gpu.errors["nvmlDeviceGetGpuInstanceProfileInfoV"] = Code.FUNCTION_NOT_FOUND
    assert node(gpu).gpu().mig.profiles == (SMALL, BIG)


def test_a_profile_without_name_or_rule_is_left_out(node: Node) -> None:
    gpu = replace(a100(), memory_bytes=None)
    gpu.errors["nvmlDeviceGetGpuInstanceProfileInfoV"] = Code.ARGUMENT_VERSION_MISMATCH
    assert node(gpu).gpu().mig.profiles == ()


@pytest.mark.parametrize("code", ANY_FAILURE, ids=lambda code: code.name)
def test_profiles_that_the_driver_does_not_list_leave_mode_and_gpu(node: Node, code: Code) -> None:
    gpu = a100(current=0)
    gpu.errors = dict.fromkeys(
        ["nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstanceProfileInfo"], code
    )
    assert node(gpu).gpu().mig == Mig(enabled=False, pending=True, switchable=True)


def test_placements_that_are_not_told_leave_the_device_its_own(node: Node) -> None:
    gpu = a100(SECOND)
    gpu.errors["nvmlDeviceGetGpuInstancePossiblePlacements"] = Code.NOT_SUPPORTED
    mig = node(gpu).gpu().mig
    assert mig.profiles[1] == replace(BIG, placements=(), size=0)
    assert mig.devices[0] == MigDevice("MIG-b", 2, 0, replace(BIG, placements=(), size=4), 4)


@pytest.mark.parametrize(
    ("slices", "memory_mib", "total_mib", "index", "expected"),
    [
        (1, 4864, 40960, 0x0, "1g.5gb"),
        (1, 4864, 40960, 0x7, "1g.5gb+me"),
        (1, 9856, 40960, 0x9, "1g.10gb"),
        (2, 9856, 40960, 0x1, "2g.10gb"),
        (3, 19968, 40960, 0x2, "3g.20gb"),
        (7, 40192, 40960, 0x4, "7g.40gb"),
        (7, 80384, 81920, 0x4, "7g.80gb"),
        (1, 9984, 81559, 0x0, "1g.10gb"),
        (1, 16384, 143771, 0x0, "1g.18gb"),
        (1, 33024, 143771, 0x9, "1g.35gb"),
        (3, 71168, 143771, 0x2, "3g.71gb"),
        (7, 143104, 143771, 0x4, "7g.141gb"),
        (1, 24187, 97887, 0xA, "1g.24gb+gfx"),
        (1, 24187, 97887, 0xD, "1g.24gb-me"),
        (1, 24187, 97887, 0xF, "1g.24gb+me.all"),
        (2, 48517, 97887, 0x10, "2g.48gb+me.all"),
    ],
)
def test_the_naming_rule_gives_nvidia_s_names(
    slices: int, memory_mib: int, total_mib: int, index: int, expected: str
) -> None:
    assert profile_name(slices, memory_mib, total_mib * 2**20, index) == expected

"""GPU and compute instances made and destroyed through NVML, and what a driver that refuses comes to."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.errors import HardwareError, UnavailableError
from dra_driver.inventory.mig_control import ComputeInstance, GpuGoneError, GpuInstance, MigControl
from dra_driver.inventory.nvml_api import Code
from dra_driver.inventory.nvml_mig_control import NvmlMigControl
from tests.unit.inventory.nvml.fake_gpu import FakeGpu, FakeMig, FakeMigDevice, FakeProfile

Node = Callable[..., Any]
A100, H100 = "GPU-a100", "GPU-h100"
RTX = "GPU-rtx"


def profile(id_: int, slices: int, size: int, starts: tuple[int, ...], **more: Any) -> FakeProfile:
    places = tuple((start, size) for start in starts)
    return FakeProfile(
        id_, f"MIG {id_}", slices, 1024, 14 * slices, slices, instances=len(starts), placements=places, **more
    )


def eighths(**more: Any) -> FakeMig:
    """The profiles of an A100 or H100, by enum index."""
    return FakeMig(
        profiles={
            0: profile(19, 1, 1, tuple(range(7))),
            2: profile(9, 3, 4, (0, 4)),
            4: profile(0, 7, 8, (0,), jpeg_engines=1),
            7: profile(20, 1, 1, tuple(range(7)), jpeg_engines=1),
        },
        **more,
    )


def h100(**more: Any) -> FakeGpu:
    return FakeGpu(H100, "00000000:65:00.0", mig=eighths(current=1, pending=1, **more))


@pytest.fixture
def control(node: Node) -> Callable[..., MigControl]:
    def of(*gpus: FakeGpu) -> MigControl:
        here = node(*gpus)
        here.scan()
        mig: MigControl = here.backend.mig
        return mig

    return of


Control = Callable[..., MigControl]


def test_an_instance_is_made_with_its_place_and_filled_by_a_compute_instance(control: Control) -> None:
    mig = control(h100())
    number = mig.create_gpu_instance(H100, 9, 4)
    assert mig.instances(H100) == (GpuInstance(number, 9, 4, 4),)
    made = mig.create_compute_instance(H100, number)
    assert mig.instances(H100) == (GpuInstance(number, 9, 4, 4, (made,)),)
    assert made == ComputeInstance(0, f"MIG-{H100}-1")


def test_the_inventory_shows_what_was_made(node: Node) -> None:
    here = node(h100())
    here.scan()
    number = here.backend.mig.create_gpu_instance(H100, 19, 5)
    assert here.gpu().mig.devices == ()
    made = here.backend.mig.create_compute_instance(H100, number)
    assert [(d.uuid, d.profile.id, d.placement) for d in here.gpu().mig.devices] == [(made.uuid, 19, 5)]


def test_each_creation_has_a_uuid_of_its_own(control: Control) -> None:
    mig, uuids = control(h100()), []
    for _ in range(2):
        number = mig.create_gpu_instance(H100, 19, 0)
        made = mig.create_compute_instance(H100, number)
        uuids.append(made.uuid)
        mig.destroy_compute_instance(H100, number, made.id)
        mig.destroy_gpu_instance(H100, number)
    assert len(set(uuids)) == 2
    assert mig.instances(H100) == ()


@pytest.mark.parametrize(
    ("profile_id", "table", "expected"),
    [
        (0, {0: (0, 1), 4: (4, 7)}, 4),  # an A100, which has no profile 8
        (0, {0: (0, 1), 8: (8, 7)}, 8),
        (19, {7: (7, 1)}, 7),
        (20, {0: (0, 1), 7: (7, 1)}, 0),  # +me holds a plain compute instance
        (9, {0: (0, 1), 1: (1, 2), 2: (2, 3)}, 2),
    ],
)
def test_the_compute_instance_is_the_one_that_fills_its_gpu_instance(
    control: Control, profile_id: int, table: dict[int, tuple[int, int]], expected: int
) -> None:
    gpu = h100(compute_profiles=table)
    mig = control(gpu)
    mig.create_compute_instance(H100, mig.create_gpu_instance(H100, profile_id, 0))
    assert gpu.mig is not None
    (device,) = gpu.mig.devices
    assert device is not None
    assert (device.compute_slices, dict(table.values())[expected]) == (
        device.gpu_slices,
        device.gpu_slices,
    )


def test_a_gpu_instance_that_no_compute_instance_fills_is_told(control: Control) -> None:
    mig = control(h100(compute_profiles={0: (0, 1)}))
    number = mig.create_gpu_instance(H100, 9, 0)
    with pytest.raises(
        HardwareError, match=f"^GPU {H100}: a compute instance cannot be made in GPU instance"
    ):
        mig.create_compute_instance(H100, number)


def test_media_variants_are_told_apart_by_their_profile(control: Control) -> None:
    mig = control(h100())
    mig.create_gpu_instance(H100, 20, 0)
    mig.create_gpu_instance(H100, 19, 1)
    assert [(each.profile_id, each.placement) for each in mig.instances(H100)] == [(20, 0), (19, 1)]


@pytest.mark.parametrize(
    ("profile_id", "start", "text"),
    [
        (19, 2, "other GPU instances have its memory slices or engines"),
        (9, 4, None),
        (19, 7, "its driver knows no such profile or place"),
        (77, 0, "its driver knows no such profile or place"),
    ],
)
def test_a_place_that_is_taken_or_unknown_is_refused(
    control: Control, profile_id: int, start: int, text: str | None
) -> None:
    mig = control(h100())
    mig.create_gpu_instance(H100, 9, 0)
    if text is None:
        mig.create_gpu_instance(H100, profile_id, start)
        return
    with pytest.raises(
        HardwareError, match=f"profile {profile_id} cannot be made at memory slice {start}: {text}"
    ):
        mig.create_gpu_instance(H100, profile_id, start)


def test_engines_are_shared_out_once(control: Control) -> None:
    mig = control(h100())
    mig.create_gpu_instance(H100, 20, 0)
    with pytest.raises(HardwareError, match="engines"):
        mig.create_gpu_instance(H100, 20, 1)


def test_destroying_what_is_gone_is_no_error(control: Control) -> None:
    mig = control(h100())
    mig.destroy_compute_instance(H100, 3, 0)
    mig.destroy_compute_instance(H100, mig.create_gpu_instance(H100, 19, 0), 0)
    mig.destroy_gpu_instance(H100, 3)


def test_destroying_where_mig_mode_is_off_is_no_error(control: Control) -> None:
    mig = control(FakeGpu(A100, "00000000:07:00.0", mig=eighths()))
    mig.destroy_compute_instance(A100, 3, 0)
    mig.destroy_gpu_instance(A100, 3)
    assert mig.instances(A100) == ()


def test_what_a_process_uses_stays_and_may_be_tried_again(control: Control) -> None:
    busy = FakeMigDevice("MIG-b", 7, 19, (0, 1), busy=True)
    mig = control(h100(devices=[busy]))
    with pytest.raises(
        UnavailableError, match="compute instance 0 of GPU instance 7 cannot be destroyed while a"
    ):
        mig.destroy_compute_instance(H100, 7, 0)
    with pytest.raises(
        UnavailableError, match="GPU instance 7 cannot be destroyed while a process uses it; end"
    ):
        mig.destroy_gpu_instance(H100, 7)
    busy.busy = False
    mig.destroy_compute_instance(H100, 7, 0)
    mig.destroy_gpu_instance(H100, 7)


def test_the_mode_is_switched_where_no_reset_is_needed(control: Control) -> None:
    mig = control(FakeGpu(H100, "00000000:65:00.0", mig=eighths()))
    assert not mig.mode(H100)
    mig.set_mode(H100, enabled=True)
    assert mig.mode(H100)
    mig.set_mode(H100, enabled=True)
    mig.set_mode(H100, enabled=False)
    assert not mig.mode(H100)


@pytest.mark.parametrize(("resetless", "architecture"), [(False, 9), (None, 7)])
def test_a_mode_that_needs_a_reset_is_not_touched(
    node: Node, resetless: bool | None, architecture: int
) -> None:
    gpu = FakeGpu(A100, "00000000:07:00.0", architecture=architecture, mig=eighths(resetless=resetless))
    here = node(gpu)
    assert not here.gpu().mig.switchable
    with pytest.raises(
        HardwareError, match="MIG mode cannot be enabled without a reset; drain the node, and run"
    ):
        here.backend.mig.set_mode(A100, enabled=True)
    assert "nvmlDeviceSetMigMode" not in here.nvml.calls


def test_a_mode_that_turns_out_to_need_a_reset_is_not_left_pending(control: Control) -> None:
    # The driver does not say, and the board is a Hopper that needs one all the same.
    gpu = FakeGpu(H100, "00000000:65:00.0", mig=eighths(resetless=None))
    assert gpu.mig is not None
    with pytest.raises(HardwareError, match="without a reset"):
        control(gpu).set_mode(H100, enabled=True)
    assert (gpu.mig.current, gpu.mig.pending) == (0, 0)


def test_a_gpu_that_somebody_uses_keeps_its_mode(control: Control) -> None:
    gpu = FakeGpu(H100, "00000000:65:00.0", mig=eighths(clients=True))
    assert gpu.mig is not None
    with pytest.raises(UnavailableError, match="MIG mode cannot be enabled while a process uses it; end the"):
        control(gpu).set_mode(H100, enabled=True)
    assert (gpu.mig.current, gpu.mig.pending) == (0, 0)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (Code.NO_PERMISSION, HardwareError, "the plugin may not; run it privileged"),
        (Code.NOT_SUPPORTED, HardwareError, "its driver does not offer that in the mode that the GPU is in"),
        (Code.FUNCTION_NOT_FOUND, HardwareError, "its driver is too old for that"),
        (Code.GPU_IS_LOST, GpuGoneError, "since it is lost: look for its Xid"),
        (Code.RESET_REQUIRED, HardwareError, "the GPU has to be reset first"),
        (Code.UNKNOWN, HardwareError, r"answered UNKNOWN \(999\); look for its Xid in the kernel log"),
        (Code.TIMEOUT, UnavailableError, r"before NVML answers again \(.*TIMEOUT"),
        (Code.UNINITIALIZED, UnavailableError, "before NVML answers again"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlDeviceGetGpuInstancePossiblePlacements",
        "nvmlDeviceGetHandleByUUID",
    ],
)
def test_every_refusal_is_a_sentence(
    control: Control, function: str, code: Code, kind: type[Exception], text: str
) -> None:
    gpu = h100()
    mig = control(gpu)
    gpu.errors[function] = code
    with pytest.raises(kind, match=text) as caught:
        mig.create_gpu_instance(H100, 19, 0)
    assert str(caught.value).startswith(f"GPU {H100}: a GPU instance of profile 19 cannot be made")


def test_a_compute_instance_that_fails_leaves_an_empty_gpu_instance(control: Control) -> None:
    gpu = h100()
    mig = control(gpu)
    number = mig.create_gpu_instance(H100, 19, 0)
    gpu.errors["nvmlGpuInstanceCreateComputeInstance"] = Code.INSUFFICIENT_RESOURCES
    with pytest.raises(HardwareError, match=f"a compute instance cannot be made in GPU instance {number}"):
        mig.create_compute_instance(H100, number)
    assert mig.instances(H100) == (GpuInstance(number, 19, 0, 1),)


@pytest.mark.parametrize("code", [Code.UNKNOWN, Code.NO_PERMISSION, Code.TIMEOUT])
@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetGpuInstanceProfileInfo", "nvmlGpuInstanceGetComputeInstanceProfileInfo"],
)
def test_instances_of_a_profile_that_cannot_be_read_do_not_pass_for_none(
    control: Control, function: str, code: Code
) -> None:
    gpu = h100()
    mig = control(gpu)
    mig.create_compute_instance(H100, mig.create_gpu_instance(H100, 19, 0))
    (made,) = mig.instances(H100)
    gpu.errors[function] = code
    with pytest.raises(
        (HardwareError, UnavailableError), match=f"^GPU {H100}: its instances cannot be listed"
    ):
        mig.instances(H100)
    del gpu.errors[function]
    assert mig.instances(H100) == (made,)


def test_nothing_is_done_before_nvml_is_there(node: Node) -> None:
    with pytest.raises(UnavailableError, match="before the NVIDIA driver answers"):
        node(h100()).backend.mig.create_gpu_instance(H100, 19, 0)


def test_a_gpu_that_is_gone_is_told(control: Control) -> None:
    with pytest.raises(
        GpuGoneError, match="GPU GPU-other: its MIG mode cannot be read, since it is not on the node any more"
    ):
        control(h100()).mode("GPU-other")


def test_scans_between_two_calls_do_no_harm(node: Node) -> None:
    here = node(h100())
    here.scan()
    number = here.backend.mig.create_gpu_instance(H100, 19, 0)
    here.nvml.end_session()
    here.scan()
    assert here.backend.mig.create_compute_instance(H100, number).id == 0


def test_a_call_that_hangs_holds_up_its_gpu_alone(node: Node) -> None:
    here = node(h100(), replace(h100(), uuid="GPU-2", bus_id="00000000:66:00.0"))
    here.scan()
    mig = NvmlMigControl(here.backend.mig._calls, lambda: True, deadline_seconds=0.05)
    here.nvml.hangs["nvmlDeviceCreateGpuInstanceWithPlacement"] = threading.Event()
    with pytest.raises(UnavailableError, match=r"at memory slice 0 in 0\.05 s; look for Xid errors"):
        mig.create_gpu_instance(H100, 19, 0)
    with pytest.raises(UnavailableError):
        mig.instances(H100)
    patient = NvmlMigControl(here.backend.mig._calls, lambda: True, deadline_seconds=60)
    patient._workers = mig._workers
    assert patient.instances("GPU-2") == ()
    here.nvml.hangs["nvmlDeviceCreateGpuInstanceWithPlacement"].set()


def test_what_a_call_made_after_it_was_given_up_is_seen_by_the_next(node: Node) -> None:
    here = node(h100())
    here.scan()
    mig = NvmlMigControl(here.backend.mig._calls, lambda: True, deadline_seconds=60)
    hurried = NvmlMigControl(here.backend.mig._calls, lambda: True, deadline_seconds=0.05)
    hurried._workers = mig._workers
    here.nvml.hangs["nvmlDeviceCreateGpuInstanceWithPlacement"] = threading.Event()
    with pytest.raises(UnavailableError):
        hurried.create_gpu_instance(H100, 19, 0)
    threading.Timer(0.05, here.nvml.hangs["nvmlDeviceCreateGpuInstanceWithPlacement"].set).start()
    assert [each.profile_id for each in mig.instances(H100)] == [19]

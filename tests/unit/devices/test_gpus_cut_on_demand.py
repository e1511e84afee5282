"""GPUs that are cut on demand: what is offered in which mode, and with which counters."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.config.node import GpuEntry, MigMode, NodeConfig
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import CounterConsumption, Device, DeviceSet, HeldDevice, NoteReason, Target
from dra_driver.inventory.model import ENGINES, Gpu, Inventory, Mig
from dra_driver.resource.limits import MAX_COUNTERS

Make = Callable[..., Any]
Node = Callable[..., Inventory]
Hold = Callable[[Device], HeldDevice]
DYNAMIC = NodeConfig(MigMode.DYNAMIC)
GPU = "gpu-0000-65-00-0"


@pytest.fixture
def make_cuttable(make_gpu: Make, make_mig: Make) -> Make:
    """A GPU as of `make_gpu` with these MIG devices; without any, its MIG mode is off and can be switched on."""

    def make(*devices: str, bus: int = 0x65, **fields: Any) -> Gpu:
        state = {"enabled": bool(devices), "pending": bool(devices), "switchable": True}
        gpu: Gpu = make_gpu(bus, mig=replace(make_mig(*devices), **(state | fields)))
        return gpu

    return make


def short(devices: DeviceSet) -> list[str]:
    """The devices of the GPU at 65, by what follows its name."""
    return [device.name.removeprefix(GPU).removeprefix("-mig-") for device in devices]


def notes(devices: DeviceSet) -> list[NoteReason]:
    return [note.reason for note in devices.notes]


def taken(consumption: CounterConsumption) -> dict[str, str]:
    return {name: str(amount) for name, amount in consumption.counters.items()}


EVERYTHING = [
    *(f"1g-5gb-19-{start}" for start in range(6, -1, -1)),
    *(f"1g-5gb-me-20-{start}" for start in range(6, -1, -1)),
    *(f"2g-10gb-14-{start}" for start in (6, 4, 2, 0)),
    *(f"3g-20gb-9-{start}" for start in (4, 0)),
    "7g-40gb-0-0",
    "",
]


def test_a_gpu_is_offered_whole_and_as_every_profile_at_every_place_the_smallest_first(
    make_cuttable: Make, node: Node
) -> None:
    assert EVERYTHING == short(build_devices(node(make_cuttable()), node=DYNAMIC))


def test_a_mig_device_to_be_made_is_like_one_that_exists_but_for_what_only_that_has(
    make_cuttable: Make, node: Node
) -> None:
    made = build_devices(node(make_cuttable()), node=DYNAMIC).get(f"{GPU}-mig-2g-10gb-14-2")
    exists = build_devices(node(make_cuttable("2g.10gb@2")), node=DYNAMIC).get(f"{GPU}-mig-2g-10gb-14-2")

    assert made
    assert exists
    assert made.target == Target("partition", "", "GPU-00000065", "0000:65:00.0", profile_id=14, start=2)
    assert {"uuid"} == exists.attributes.keys() - made.attributes.keys()
    assert {"memorySlice2", "memorySlice3"} == exists.capacity.keys() - made.capacity.keys()
    assert made.attributes.items() <= exists.attributes.items()
    assert made.capacity.items() <= exists.capacity.items()


def test_a_mig_device_consumes_its_memory_slices_multiprocessors_and_engines(
    make_cuttable: Make, node: Node
) -> None:
    device = build_devices(node(make_cuttable()), node=DYNAMIC).get(f"{GPU}-mig-2g-10gb-14-2")

    assert device is not None
    (consumption,) = device.consumes
    assert f"{GPU}-counters" == consumption.counter_set
    assert {
        "memory": "9728Mi",
        "multiprocessors": "28",
        "copy-engines": "2",
        "decoders": "0",
        "encoders": "0",
        "jpeg-engines": "0",
        "ofa-engines": "0",
        "compute-slices": "2",
        "memory-slice-2": "1",
        "memory-slice-3": "1",
    } == taken(consumption)


def test_the_whole_gpu_consumes_all_and_keeps_the_capacities_of_the_hardware(
    make_cuttable: Make, node: Node
) -> None:
    built = build_devices(node(make_cuttable()), node=DYNAMIC)
    whole, (counters,) = built.get(GPU), built.counter_sets

    assert whole is not None
    assert (CounterConsumption(counters.name, counters.counters),) == whole.consumes
    assert {"memory": "40Gi", "multiprocessors": "108"} == {k: str(v) for k, v in whole.capacity.items()}
    assert {f"memory-slice-{index}" for index in range(8)} < counters.counters.keys()


def test_profiles_that_only_a_number_limits_have_a_counter_of_their_own(
    make_cuttable: Make, node: Node
) -> None:
    gpu = make_cuttable()
    few = tuple(
        replace(profile, max_instances=2) if profile.id == 19 else profile for profile in gpu.mig.profiles
    )
    (before,) = build_devices(node(gpu), node=DYNAMIC).counter_sets
    built = build_devices(node(replace(gpu, mig=replace(gpu.mig, profiles=few))), node=DYNAMIC)
    (after,), device = built.counter_sets, built.get(f"{GPU}-mig-1g-5gb-19-0")

    assert device
    assert {"instances-19"} == after.counters.keys() - before.counters.keys()
    assert ("2", "1") == (str(after.counters["instances-19"]), taken(device.consumes[0])["instances-19"])


def test_profiles_of_which_only_the_places_are_known_are_limited_by_these(
    make_cuttable: Make, node: Node
) -> None:
    gpu = make_cuttable()
    (profile,) = (profile for profile in gpu.mig.profiles if profile.name == "3g.20gb")
    nothing = dict.fromkeys(("memory_bytes", "compute_slices", "multiprocessors", *ENGINES.values()), 0)
    gpu = replace(gpu, mig=replace(gpu.mig, profiles=(replace(profile, **nothing),)))

    devices = build_devices(node(gpu), node=DYNAMIC)

    assert ["3g-20gb-9-4", "3g-20gb-9-0", ""] == short(devices)
    first, second, _ = (device.consumes[0].counters for device in devices)
    assert not {name for name in first if str(first[name]) != "0"} & {
        name for name in second if str(second[name]) != "0"
    }


def test_a_gpu_with_more_counters_than_a_set_may_have_is_offered_whole(
    make_cuttable: Make, node: Node
) -> None:
    gpu = make_cuttable()
    (*others, largest) = gpu.mig.profiles
    wide = replace(gpu, mig=replace(gpu.mig, profiles=(*others, replace(largest, size=MAX_COUNTERS))))

    assert [""] == short(build_devices(node(wide), node=DYNAMIC))


def test_as_found_nothing_is_made_and_no_counter_is_published(make_cuttable: Make, node: Node) -> None:
    built = build_devices(node(make_cuttable()))

    assert [""] == short(built)
    assert ((), ()) == (built.counter_sets, built.devices[0].consumes)


def test_a_gpu_is_offered_whole_beside_its_parts_while_it_is_in_mig_mode(
    make_cuttable: Make, node: Node
) -> None:
    idle = build_devices(node(make_cuttable()), node=DYNAMIC)
    in_mig_mode = build_devices(node(make_cuttable(enabled=True, pending=True)), node=DYNAMIC)

    assert idle == in_mig_mode


def test_a_gpu_that_cannot_leave_mig_mode_is_offered_in_parts(make_cuttable: Make, node: Node) -> None:
    gpu = make_cuttable(enabled=True, pending=True, switchable=False)

    assert EVERYTHING[:-1] == short(build_devices(node(gpu), node=DYNAMIC))


@pytest.mark.parametrize(
    ("mode", "state", "offered", "obstacle"),
    [
        (MigMode.DYNAMIC, {"switchable": False}, [""], "needs-reset"),
        (MigMode.DYNAMIC, {"pending": True}, [""], "pending-reset"),
        (MigMode.DYNAMIC, {"profiles": ()}, [""], "profiles-unknown"),
        (MigMode.STATIC, {}, [""], "mode-off"),
        (MigMode.OFF, {"pending": True}, [""], "pending-reset"),
    ],
)
def test_a_gpu_is_offered_in_the_mode_it_is_in_where_another_cannot_be_had(
    make_cuttable: Make,
    node: Node,
    mode: MigMode,
    state: dict[str, Any],
    offered: list[str],
    obstacle: str,
) -> None:
    built = build_devices(node(make_cuttable(**state)), node=NodeConfig(mode))

    assert offered == short(built)
    assert obstacle == built.devices[0].attributes["migObstacle"]
    assert NoteReason.MIG_MODE in notes(built)


def test_mig_devices_say_why_their_gpu_is_not_whole(make_cuttable: Make, node: Node) -> None:
    built = build_devices(node(make_cuttable("1g.5gb@0")), node=NodeConfig(MigMode.OFF))

    assert ["1g-5gb-19-0"] == short(built)
    assert "mig-devices" == built.devices[0].attributes["migObstacle"]
    (note,) = built.notes
    assert note.message.endswith(
        "is not offered as mig: off says, but as it is: it has MIG devices, which have to go first"
    )


@pytest.mark.parametrize(
    ("switchable", "offered"), [(True, [""]), (False, [])], ids=["can be switched", "needs a reset"]
)
def test_an_empty_gpu_in_mig_mode_is_whole_if_it_is_to_be_and_can(
    make_cuttable: Make, node: Node, switchable: bool, offered: list[str]
) -> None:
    gpu = make_cuttable(enabled=True, pending=True, switchable=switchable)

    assert offered == short(build_devices(node(gpu), node=NodeConfig(MigMode.OFF)))


@pytest.mark.parametrize("mode", list(MigMode))
def test_nothing_is_offered_beside_mig_devices_of_unknown_place(
    make_cuttable: Make, node: Node, mode: MigMode
) -> None:
    gpu = make_cuttable("1g.5gb@0", hidden=1)

    assert ["1g-5gb-19-0"] == short(build_devices(node(gpu), node=NodeConfig(mode)))


def test_gpus_that_know_no_mig_are_whole_in_every_mode(make_gpu: Make, node: Node) -> None:
    for mode in MigMode:
        assert ((GPU,), ()) == (
            tuple(d.name for d in build_devices(node(make_gpu(mig=None)), node=NodeConfig(mode))),
            build_devices(node(make_gpu(mig=None)), node=NodeConfig(mode)).notes,
        )


def test_modes_are_mixed_on_a_node(make_cuttable: Make, node: Node) -> None:
    gpus = [
        make_cuttable(bus=1),
        make_cuttable("3g.20gb@4", bus=2),
        make_cuttable(bus=3),
    ]
    entries = (
        GpuEntry(pci_address="0000:01:00.0", mig=MigMode.DYNAMIC),
        GpuEntry(uuid="GPU-00000002", mig=MigMode.STATIC),
    )
    built = build_devices(node(*gpus), node=NodeConfig(MigMode.OFF, entries))
    by_gpu = {gpu.uuid: [d.target.kind for d in built if d.target.gpu_uuid == gpu.uuid] for gpu in gpus}

    assert {"partition", "gpu"} == set(by_gpu["GPU-00000001"])
    assert (["mig"], ["gpu"]) == (by_gpu["GPU-00000002"], by_gpu["GPU-00000003"])
    assert ["gpu-0000-01-00-0-counters"] == [counters.name for counters in built.counter_sets]


def test_beside_mig_devices_of_the_admins_only_what_fits_is_offered(make_cuttable: Make, node: Node) -> None:
    built = build_devices(node(make_cuttable("3g.20gb@0", "1g.5gb+me@4")), node=DYNAMIC)

    assert [
        "1g-5gb-19-6",
        "1g-5gb-19-5",
        "1g-5gb-me-20-4",
        "2g-10gb-14-6",
        "3g-20gb-9-0",
    ] == short(built)
    kinds = {device.name: device.target.kind for device in built}
    assert {"mig"} == {kinds[f"{GPU}-mig-{name}"] for name in ("3g-20gb-9-0", "1g-5gb-me-20-4")}


def test_mig_devices_of_the_admins_are_out_of_the_counters_and_consume_none(
    make_cuttable: Make, node: Node
) -> None:
    built = build_devices(node(make_cuttable("3g.20gb@0")), node=DYNAMIC)
    (counters,), existing = built.counter_sets, built.get(f"{GPU}-mig-3g-20gb-9-0")

    assert existing is not None
    assert () == existing.consumes
    left = {name: str(amount) for name, amount in counters.counters.items()}
    assert ("56", "4") == (left["multiprocessors"], left["compute-slices"])
    assert ["0"] * 4 + ["1"] * 4 == [left[f"memory-slice-{index}"] for index in range(8)]


def held_partition(make_cuttable: Make, node: Node, name: str) -> Device:
    device = build_devices(node(make_cuttable()), node=DYNAMIC).get(f"{GPU}-mig-{name}")
    assert device is not None
    return device


@pytest.mark.parametrize(
    "gpu",
    [
        {},
        {"enabled": True, "pending": True},
        {"enabled": True, "pending": True, "switchable": False},
        {"pending": True},
    ],
    ids=["before its mode is switched", "before it is made", "no way back", "a reset is pending"],
)
@pytest.mark.parametrize("mode", list(MigMode))
def test_what_a_claim_holds_is_published_unchanged_in_every_mode(
    make_cuttable: Make, node: Node, hold: Hold, mode: MigMode, gpu: dict[str, Any]
) -> None:
    held = held_partition(make_cuttable, node, "2g-10gb-14-2")
    built = build_devices(node(make_cuttable(**gpu)), [hold(held)], node=NodeConfig(mode))
    whole = built.get(GPU)

    assert held == built.get(held.name)
    assert whole is None or whole.consumes
    assert held.consumes[0].counter_set in {counters.name for counters in built.counter_sets}


@pytest.mark.parametrize("mode", list(MigMode))
def test_the_mig_device_of_a_claim_is_never_offered_as_one_that_exists(
    make_cuttable: Make, node: Node, hold: Hold, mode: MigMode
) -> None:
    held = held_partition(make_cuttable, node, "2g-10gb-14-2")
    built = build_devices(node(make_cuttable("2g.10gb@2")), [hold(held)], node=NodeConfig(mode))

    assert held == built.get(held.name)
    assert not [device for device in built if device.target.kind == "mig"]


def test_the_parts_of_a_gpu_stay_published_whatever_claims_hold_of_it(
    make_cuttable: Make, node: Node, hold: Hold
) -> None:
    held = held_partition(make_cuttable, node, "2g-10gb-14-2")
    idle = build_devices(node(make_cuttable()), node=DYNAMIC)

    assert idle == build_devices(node(make_cuttable("2g.10gb@2")), [hold(held)], node=DYNAMIC)


def test_a_mig_device_that_was_made_over_a_lost_one_is_held_back(
    make_cuttable: Make, node: Node, hold: Hold
) -> None:
    held = held_partition(make_cuttable, node, "2g-10gb-14-2")
    built = build_devices(node(make_cuttable("1g.5gb@3", "1g.5gb@5")), [hold(held)], node=DYNAMIC)

    lost = built.get(held.name)
    assert lost is not None
    assert [("gpu.nvidia.com/gpu-lost", "missing")] == [(taint.key, taint.value) for taint in lost.taints]
    assert built.get(f"{GPU}-mig-1g-5gb-19-3") is None
    assert built.get(f"{GPU}-mig-1g-5gb-19-5") is not None
    assert NoteReason.HELD_BACK in notes(built)


def test_a_partition_of_another_gpu_at_the_same_address_is_lost(
    make_cuttable: Make, node: Node, hold: Hold
) -> None:
    held = held_partition(make_cuttable, node, "2g-10gb-14-2")
    built = build_devices(node(replace(make_cuttable(), uuid="GPU-new")), [hold(held)], node=DYNAMIC).get(
        held.name
    )

    assert built is not None
    assert ["replaced"] == [taint.value for taint in built.taints]


def test_no_counter_is_less_than_what_claims_hold(make_cuttable: Make, node: Node, hold: Hold) -> None:
    gpu = make_cuttable()
    whole = build_devices(node(gpu), node=DYNAMIC).get(GPU)
    assert whole is not None
    smaller = tuple(replace(p, memory_bytes=p.memory_bytes - 2**20) for p in gpu.mig.profiles)
    updated = replace(gpu, mig=replace(gpu.mig, profiles=smaller))
    (counters,) = build_devices(node(updated), [hold(whole)], node=DYNAMIC).counter_sets

    assert whole.consumes[0].counters == counters.counters


def test_a_gpu_that_a_claim_has_whole_consumes_counters_once_it_is_cut_on_demand(
    make_cuttable: Make, node: Node, hold: Hold
) -> None:
    (whole,) = build_devices(node(make_cuttable()))
    built = build_devices(node(make_cuttable()), [hold(whole)], node=DYNAMIC).get(GPU)

    assert built is not None
    assert built.consumes


def test_a_mig_mode_without_profiles_says_so_once(make_cuttable: Make, node: Node) -> None:
    mig = Mig(enabled=True, pending=True)
    gpu = replace(make_cuttable(), mig=mig)

    assert [NoteReason.MIG_MODE, NoteReason.MIG_EMPTY] == notes(build_devices(node(gpu), node=DYNAMIC))

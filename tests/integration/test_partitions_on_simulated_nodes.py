"""MIG devices that are made when their claim is prepared: what containers get, what is left after any failure."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dra_driver.files
from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.cdi.store import SpecStore
from dra_driver.cdi.validate import validate
from dra_driver.devices.gpu import gpu_device
from dra_driver.devices.model import CounterConsumption, Device, DeviceSet, Target
from dra_driver.devices.snapshot import Snapshot
from dra_driver.errors import ConflictError, DriverError, HardwareError, UnavailableError
from dra_driver.files import AnyPath, Files
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.faults import faults_file
from dra_driver.inventory.model import Gpu, Inventory
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.inventory.simulated_mig import SimulatedMig
from dra_driver.partitions.mig_device import MigDevices
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, RecordStore
from dra_driver.prepare.record import State
from dra_driver.quantity import Quantity
from tests.integration.killing import Killed, KillingFiles

DRIVER, POOL = "gpu.nvidia.com", "node-a/gpu"
DGX = load_profile("dgx-h100")
PROFILE = replace(DGX, gpus=DGX.gpus[:2])


class Node:
    """Two GPUs of a DGX H100 that are cut on demand. `start` is what a new process does."""

    def __init__(self, path: Path) -> None:
        self.path, self.root = path, path / "root"
        self.claims: dict[str, list[dict[str, Any]]] = {}
        make_driver_root(PROFILE, self.root, node_name="node-a", device_nodes=False)
        self.start()
        self.gpus = self.backend.scan().gpus
        self.devices = DeviceSet(tuple(device for gpu in self.gpus for device in self._devices_of(gpu)))

    def start(self, files: Files = dra_driver.files) -> None:
        self.backend = SimulatedBackend(PROFILE, "node-a", driver_root=self.root, files=files)
        local = Root(PurePosixPath(self.root), self.root, PLACEHOLDERS)
        managed = {gpu.uuid: False for gpu in PROFILE.gpus_on("node-a")}
        partitions = MigDevices(self.backend.mig, lambda: managed, lambda: None)
        self.records = RecordStore(self.path / "claims", boot_id="boot", files=files)
        self.engine = Engine(
            driver_name=DRIVER,
            pool_name=POOL,
            claims=self,
            hardware=lambda: Snapshot(self.backend.scan(), self.devices),
            edits=DriverEdits(local, host=local, proc=self.root / "proc", sysfs=self.root / "sys"),
            records=self.records,
            specs=SpecStore(self.path / "cdi", DRIVER, files=files),
            metadata=MetadataStore(self.path / "metadata", DRIVER, files=files),
            partitions=partitions,
        )
        self.engine.restore()

    def _devices_of(self, gpu: Gpu) -> list[Device]:
        assert gpu.mig is not None
        whole, _ = gpu_device(gpu, self.backend.scan(), None)
        devices = [whole]
        for profile in gpu.mig.profiles:
            for start in profile.placements:
                name = (
                    f"{whole.name}-mig-{profile.name.replace('.', '').replace('+', '-')}-{profile.id}-{start}"
                )
                slices = {f"memory-slice-{i}": Quantity.of(1) for i in range(start, start + profile.size)}
                target = Target("partition", "", gpu.uuid, gpu.pci_address, profile.id, start)
                taken = CounterConsumption(f"{whole.name}-counters", slices)
                devices.append(Device(name, target, {"type": "mig"}, consumes=(taken,)))
        return devices

    def name(self, profile: str, start: int, gpu: int = 0) -> str:
        """The device of this profile and place on a GPU."""
        mig = self.gpus[gpu].mig
        assert mig is not None
        (number,) = [each.id for each in mig.profiles if each.name == profile]
        place = (self.gpus[gpu].uuid, number, start)
        return next(
            d.name for d in self.devices if (d.target.gpu_uuid, d.target.profile_id, d.target.start) == place
        )

    def whole(self, gpu: int = 0) -> str:
        return next(d.name for d in self.devices if d.target.uuid == self.gpus[gpu].uuid)

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        return {
            "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}"},
            "status": {"allocation": {"devices": {"results": self.claims[name]}}},
        }

    def claim(self, name: str, *devices: str, **more: Any) -> ClaimRef:
        self.claims[name] = [
            {"request": f"r{i}", "driver": DRIVER, "pool": POOL, "device": device, **more}
            for i, device in enumerate(devices)
        ]
        return ClaimRef("default", name, f"uid-{name}")

    def instances(self, gpu: int = 0) -> list[tuple[int, int, int]]:
        """Profile, start and number of compute instances of all that exists."""
        found = self.backend.mig.instances(self.gpus[gpu].uuid)
        return [(each.profile_id, each.placement, len(each.compute_instances)) for each in found]

    def mode(self, gpu: int = 0) -> bool:
        return self.backend.mig.mode(self.gpus[gpu].uuid)

    def fail(self, text: str) -> None:
        faults_file(self.root).write_text(text)

    def works(self) -> None:
        faults_file(self.root).unlink(missing_ok=True)

    def spec(self, ref: ClaimRef) -> dict[str, Any]:
        spec: dict[str, Any] = json.loads((self.path / f"cdi/k8s.{DRIVER}-claim_{ref.uid}.json").read_bytes())
        return spec

    def files(self) -> list[str]:
        """All that claims have left on the node."""
        folders = ("claims", "cdi", "metadata")
        return sorted(
            path.name for folder in folders for path in (self.path / folder).glob("*") if path.is_file()
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_claim_gets_its_mig_device_and_the_gpu_is_whole_again_after_it(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    (prepared,) = node.engine.prepare(ref)
    assert (node.instances(), node.mode()) == ([(19, 3, 1)], True)
    assert prepared.device == node.name("1g.10gb", 3)
    node.engine.unprepare(ref)
    assert (node.instances(), node.mode(), node.files()) == ([], False, [])


def test_the_container_gets_the_nodes_of_its_mig_device(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    spec = node.spec(ref)
    assert validate(spec) == []
    paths = [entry["path"] for entry in spec["devices"][0]["containerEdits"]["deviceNodes"]]
    instance = node.backend.mig.instances(node.gpus[0].uuid)[0].id
    minor = 3 + instance * 9
    assert paths == ["/dev/nvidia0", *(f"/dev/nvidia-caps/nvidia-cap{minor + i}" for i in (0, 1))]


@pytest.mark.parametrize("away", ["the GPU", "its MIG mode", "the driver"])
@pytest.mark.parametrize("spec_is_lost", [False, True])
def test_what_is_away_for_a_moment_makes_no_whole_gpu_of_a_part(
    node: Node, monkeypatch: pytest.MonkeyPatch, away: str, spec_is_lost: bool
) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    if spec_is_lost:
        node.engine.prepare(ref)
        spec = node.spec(ref)
        (node.path / f"cdi/k8s.{DRIVER}-claim_{ref.uid}.json").unlink()
    before = node.instances(), node.files()
    there = node.backend.scan()
    gpus = {"the GPU": node.gpus[1:], "its MIG mode": (replace(there.gpus[0], mig=None), *there.gpus[1:])}
    less = replace(there, gpus=gpus[away]) if away in gpus else Inventory(available=False)
    text = {
        "the GPU": "is gone from the node",
        "its MIG mode": "the driver says nothing of MIG on its GPU",
        "the driver": "has to wait until the NVIDIA driver answers",
    }

    with monkeypatch.context() as patch:
        patch.setattr(node.backend, "scan", lambda: less)
        with pytest.raises(DriverError, match=text[away]):
            node.engine.prepare(ref)
    assert (node.instances(), node.files()) == before

    node.engine.prepare(ref)
    assert node.instances() == [(19, 3, 1)]
    if spec_is_lost:
        assert node.spec(ref) == spec


def test_the_record_and_the_metadata_carry_the_uuid_that_was_made(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    (instance,) = node.backend.mig.instances(node.gpus[0].uuid)
    (record,) = node.records.all()
    assert record.devices[0].partition is not None
    assert record.devices[0].partition.uuid == instance.compute_instances[0].uuid
    document = json.loads((node.path / f"metadata/{ref.uid}_r0.json").read_text().splitlines()[0])
    (device,) = document["requests"][0]["devices"]
    assert device["attributes"] == {
        "type": {"string": "mig"},
        "uuid": {"string": instance.compute_instances[0].uuid},
    }


def test_preparing_again_gives_the_same_and_changes_nothing(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    first = node.engine.prepare(ref)
    before = node.backend.mig.instances(node.gpus[0].uuid)
    assert node.engine.prepare(ref) == first
    node.start()
    assert node.engine.prepare(ref) == first
    assert node.backend.mig.instances(node.gpus[0].uuid) == before


def test_a_claim_of_several_gets_them_all(node: Node) -> None:
    names = [
        node.name("1g.10gb", 0),
        node.name("2g.20gb", 2),
        node.name("3g.40gb", 4),
        node.name("7g.80gb", 0, 1),
    ]
    ref = node.claim("a", *names)
    assert [each.device for each in node.engine.prepare(ref)] == names
    assert node.instances() == [(19, 0, 1), (14, 2, 1), (9, 4, 1)]
    assert node.instances(1) == [(0, 0, 1)]
    assert len({entry["name"] for entry in node.spec(ref)["devices"]}) == 4
    node.engine.unprepare(ref)
    assert (node.instances(), node.instances(1), node.files()) == ([], [], [])


def test_media_variants_are_made_as_asked(node: Node) -> None:
    node.engine.prepare(node.claim("a", node.name("1g.10gb+me", 0), node.name("1g.10gb", 1)))
    assert node.instances() == [(20, 0, 1), (19, 1, 1)]


def test_unprepare_needs_neither_api_server_nor_published_devices(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    node.claims.clear()
    node.devices = DeviceSet()
    node.start()
    node.engine.unprepare(ref)
    assert (node.instances(), node.files()) == ([], [])


@pytest.mark.parametrize("fault", ["create-fails", "compute-instance-fails", "mode-pending", "in-use"])
def test_a_failure_leaves_nothing_and_the_retry_works(node: Node, fault: str) -> None:
    node.fail(f"mig: {fault}")
    ref = node.claim("a", node.name("1g.10gb", 3))
    with pytest.raises((HardwareError, UnavailableError), match=r"^GPU GPU-\S+: "):
        node.engine.prepare(ref)
    assert (node.instances(), node.mode(), node.files()) == ([], False, [])
    node.works()
    node.engine.prepare(ref)
    assert node.instances() == [(19, 3, 1)]


def test_a_failure_of_the_second_device_takes_the_first_back(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3), node.name("1g.10gb", 3, 1))
    node.fail(f"mig: {{{node.gpus[1].uuid}: compute-instance-fails}}")
    with pytest.raises(HardwareError, match=node.gpus[1].uuid):
        node.engine.prepare(ref)
    assert (node.instances(0), node.instances(1), node.files()) == ([], [], [])


def test_a_device_in_use_is_held_until_it_can_be_destroyed(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    node.fail("mig: in-use")
    with pytest.raises(
        UnavailableError, match="cannot be destroyed while a process uses it; end the processes"
    ):
        node.engine.unprepare(ref)
    assert [held.device.name for held in node.engine.held()] == [node.name("1g.10gb", 3)]
    with pytest.raises(ConflictError, match="is held by claim default/a"):
        node.engine.prepare(node.claim("b", node.name("1g.10gb", 3)))
    node.works()
    node.engine.unprepare(ref)
    assert (node.instances(), node.files()) == ([], [])


def test_a_claim_that_is_being_undone_is_not_ready_again_after_a_restart(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    node.fail("mig: in-use")
    with pytest.raises(UnavailableError):
        node.engine.unprepare(ref)
    node.start()
    assert [record.state for record in node.records.all()] == [State.STARTED]
    node.works()
    node.engine.repair()
    assert (node.instances(), node.files()) == ([], [])


def test_a_device_that_was_destroyed_behind_our_back_is_made_again(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    (lost,) = node.backend.mig.instances(node.gpus[0].uuid)
    node.backend.mig.destroy_compute_instance(node.gpus[0].uuid, lost.id, 0)
    node.backend.mig.destroy_gpu_instance(node.gpus[0].uuid, lost.id)
    node.engine.prepare(ref)
    (made,) = node.backend.mig.instances(node.gpus[0].uuid)
    assert made.compute_instances[0].uuid != lost.compute_instances[0].uuid


def test_a_claim_that_is_allocated_anew_leaves_nothing_of_what_it_had(node: Node) -> None:
    node.engine.prepare(node.claim("a", node.name("1g.10gb", 3)))
    ref = node.claim("a", node.name("2g.20gb", 4, gpu=1))
    (prepared,) = node.engine.prepare(ref)
    assert prepared.device == node.name("2g.20gb", 4, gpu=1)
    assert (node.instances(), node.mode(), node.instances(1)) == ([], False, [(14, 4, 1)])
    node.engine.unprepare(ref)
    assert (node.instances(1), node.mode(1), node.files()) == ([], False, [])


def test_a_claim_on_a_lost_gpu_can_end_and_nothing_is_left_when_the_gpu_is_back(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    node.fail("gpus: lost")
    node.engine.unprepare(ref)
    node.works()
    assert (node.instances(), node.files()) == ([], [])


def test_nothing_is_taken_back_before_the_driver_answers(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    node.fail("nvml: unavailable")
    with pytest.raises(UnavailableError, match="before the NVIDIA driver answers"):
        node.engine.unprepare(ref)
    node.works()
    node.engine.unprepare(ref)
    assert (node.instances(), node.files()) == ([], [])


def test_a_claim_whose_gpu_was_reset_gets_another_mig_device(node: Node) -> None:
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    node.fail("gpus: lost")
    node.backend.scan()
    node.works()
    assert node.instances() == []
    node.engine.prepare(ref)
    assert node.instances() == [(19, 3, 1)]


def test_a_whole_gpu_and_a_part_of_it_are_not_given_both(node: Node) -> None:
    part, whole = node.claim("part", node.name("1g.10gb", 3)), node.claim("whole", node.whole())
    node.engine.prepare(part)
    with pytest.raises(
        ConflictError, match=r"device gpu-\S+ cannot .* is held by claim default/part, .* default/whole"
    ):
        node.engine.prepare(whole)
    node.engine.unprepare(part)
    node.engine.prepare(whole)
    with pytest.raises(ConflictError, match=r"is held by claim default/whole, .* default/part"):
        node.engine.prepare(part)
    assert (node.instances(), node.mode()) == ([], False)


def test_a_whole_gpu_in_mig_mode_leaves_it(node: Node) -> None:
    node.backend.mig.set_mode(node.gpus[0].uuid, enabled=True)
    node.engine.prepare(node.claim("whole", node.whole()))
    assert not node.mode()


def test_a_whole_gpu_out_of_mig_mode_costs_three_files(node: Node) -> None:
    files = KillingFiles(100, after=False)
    node.start(files)
    node.engine.prepare(node.claim("whole", node.whole()))
    assert files.done == ["uid-whole_r0.json", f"k8s.{DRIVER}-claim_uid-whole.json", "uid-whole.json"]


def test_admin_access_makes_nothing_and_sees_the_gpu(node: Node) -> None:
    ref = node.claim("monitor", node.name("1g.10gb", 3), node.whole(1), adminAccess=True)
    node.engine.prepare(node.claim("a", node.name("2g.20gb", 2)))
    node.engine.prepare(ref)
    assert node.instances() == [(14, 2, 1)]
    first, second = node.spec(ref)["devices"]
    assert first["containerEdits"]["deviceNodes"][0]["path"] == "/dev/nvidia0"
    assert second["containerEdits"]["deviceNodes"][0]["path"] == "/dev/nvidia1"
    node.engine.unprepare(ref)
    assert node.instances() == [(14, 2, 1)]


def test_shares_of_one_partition_are_one_mig_device(node: Node) -> None:
    name = node.name("1g.10gb", 3)
    first = node.claim("a", name, shareID="0a000000-0000-4000-8000-000000000000")
    second = node.claim("b", name, shareID="0b000000-0000-4000-8000-000000000000")
    node.engine.prepare(first)
    node.engine.prepare(second)
    node.engine.unprepare(first)
    assert node.instances() == [(19, 3, 1)]
    node.engine.unprepare(second)
    assert node.instances() == []


def test_somebody_s_instance_stays(node: Node) -> None:
    mig, gpu = node.backend.mig, node.gpus[0].uuid
    mig.set_mode(gpu, enabled=True)
    mig.create_compute_instance(gpu, mig.create_gpu_instance(gpu, 9, 0))
    ref = node.claim("a", node.name("1g.10gb", 3))
    with pytest.raises(HardwareError, match="has its memory slices and is of no claim"):
        node.engine.prepare(ref)
    node.start()
    node.engine.prepare(node.claim("b", node.name("1g.10gb", 4)))
    node.engine.unprepare(ref)
    assert node.instances() == [(9, 0, 1), (19, 4, 1)]


def test_an_empty_gpu_instance_without_a_claim_is_gone_after_a_start(node: Node) -> None:
    mig, gpu = node.backend.mig, node.gpus[0].uuid
    mig.set_mode(gpu, enabled=True)
    mig.create_gpu_instance(gpu, 9, 0)
    node.start()
    assert node.instances() == []


def test_many_claims_at_once_are_cut_from_several_gpus(node: Node) -> None:
    refs = [
        node.claim(f"c{gpu}-{start}", node.name("1g.10gb", start, gpu))
        for gpu in range(2)
        for start in range(7)
    ]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(node.engine.prepare, refs))
        assert [node.instances(gpu) for gpu in range(2)] == [[(19, start, 1) for start in range(7)]] * 2
        list(pool.map(node.engine.unprepare, refs))
    assert [node.instances(gpu) for gpu in range(2)] == [[]] * 2
    assert ([node.mode(gpu) for gpu in range(2)], node.files()) == ([False] * 2, [])


STEPS = [
    "record", "intent", "mode", "gpu-instance", "record", "compute-instance", "record", "metadata", "spec", "record",
]  # fmt: skip
UNDO = ["record", "-spec", "-metadata", "compute-instance", "gpu-instance", "mode", "record", "-record"]


def test_the_steps_of_a_prepare_and_an_unprepare_are_these(node: Node) -> None:
    """What the two tests below go through."""
    files = KillingFiles(100, after=False)
    node.start(files)
    ref = node.claim("a", node.name("1g.10gb", 3))
    node.engine.prepare(ref)
    gpu, record, spec = f"{node.gpus[0].uuid}.json", "uid-a.json", f"k8s.{DRIVER}-claim_uid-a.json"
    assert files.done == [record, record, gpu, gpu, record, gpu, record, "uid-a_r0.json", spec, record]
    assert len(files.done) == len(STEPS)
    files.done.clear()
    node.engine.unprepare(ref)
    assert files.done == [record, f"-{spec}", "-uid-a_r0.json", gpu, gpu, gpu, record, f"-{record}"]
    assert len(files.done) == len(UNDO)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("survive", range(len(STEPS)), ids=lambda i: f"{i}-{STEPS[i]}")
def test_killed_anywhere_in_prepare_the_next_start_leaves_all_or_nothing(
    node: Node, survive: int, after: bool
) -> None:
    node.engine.prepare(node.claim("bystander", node.name("1g.10gb", 0, 1)))
    bystander = node.files()
    node.start(KillingFiles(survive, after=after))
    ref = node.claim("a", node.name("2g.20gb", 2))
    with pytest.raises(Killed):
        node.engine.prepare(ref)

    node.start()
    done = (survive, after) == (len(STEPS) - 1, True)
    assert (node.instances(), node.mode()) == (([(14, 2, 1)], True) if done else ([], False))
    assert (node.files() == bystander) == (not done)
    node.engine.prepare(ref)
    assert node.instances() == [(14, 2, 1)]
    node.engine.unprepare(ref)
    assert (node.instances(), node.mode(), node.files()) == ([], False, bystander)
    assert node.instances(1) == [(19, 0, 1)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("survive", range(len(UNDO)), ids=lambda i: f"{i}-{UNDO[i]}")
def test_killed_anywhere_in_unprepare_the_next_start_goes_on(node: Node, survive: int, after: bool) -> None:
    ref = node.claim("a", node.name("2g.20gb", 2))
    node.engine.prepare(ref)
    node.start(KillingFiles(survive, after=after))
    with pytest.raises(Killed):
        node.engine.unprepare(ref)

    node.start()
    untouched = (survive, after) == (0, False)
    assert (node.instances(), node.mode()) == (([(14, 2, 1)], True) if untouched else ([], False))
    node.engine.unprepare(ref)
    assert (node.instances(), node.mode(), node.files()) == ([], False, [])


class FullDisk(KillingFiles):
    """No record can be written any more after the first `room`; and dies as its parent."""

    room = 1000

    def write_atomic(self, path: AnyPath, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
        if Path(path).parent.name == "claims":
            self.room -= 1
            if self.room < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        super().write_atomic(path, data, mode=mode, sync=sync)


@pytest.mark.parametrize("room", range(len([step for step in STEPS if step in {"record", "intent"}])))
def test_a_disk_that_gets_full_amid_a_prepare_leaves_nothing(node: Node, room: int) -> None:
    files = FullDisk(1000, after=False)
    files.room = room
    node.start(files)
    ref = node.claim("a", node.name("2g.20gb", 2))

    with pytest.raises(UnavailableError, match=r"cannot be recorded in .*: No space left on device"):
        node.engine.prepare(ref)

    assert (node.instances(), node.mode(), node.files()) == ([], False, [])
    node.start()
    node.engine.prepare(ref)


@pytest.mark.parametrize("survive", [*range(len(UNDO) - 2), 1000])
def test_a_full_disk_keeps_no_claim_whatever_kills_the_plugin(node: Node, survive: int) -> None:
    """Else a Pod whose own files fill the disk could never end."""
    ref = node.claim("a", node.name("2g.20gb", 2))
    node.engine.prepare(ref)
    files = FullDisk(survive, after=True)
    files.room = 0
    node.start(files)
    with suppress(Killed):
        node.engine.unprepare(ref)
        assert files.survive > 0

    node.start()
    node.engine.unprepare(ref)
    assert (node.instances(), node.mode(), node.files()) == ([], False, [])


FAULTS = ("", "mig: create-fails", "mig: compute-instance-fails", "mig: in-use", "nvml: unavailable")


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_happens_in_whatever_order_the_hardware_is_what_the_records_say(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    names = [device.name for device in node.devices]
    refs: list[ClaimRef] = []
    for _ in range(data.draw(st.integers(1, 12))):
        action: str = data.draw(st.sampled_from(["call", "call", "call", "fault", "start", "kill"]))
        number: int = data.draw(st.integers(0, 12))
        is_odd: bool = data.draw(st.booleans())
        try:
            if action == "fault":
                node.fail(FAULTS[number % len(FAULTS)])
            elif action == "start":
                node.start()
            elif action == "kill":  # somewhere in the start, or in what comes next
                node.start(KillingFiles(number, after=is_odd))
            elif refs and is_odd:
                node.engine.unprepare(refs[number % len(refs)])
            else:
                devices = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
                refs.append(node.claim(f"c{len(refs)}", *devices))
                node.engine.prepare(refs[-1])
        except Killed:
            node.start()
        except DriverError:
            pass

    node.works()
    node.start()
    records = node.records.all()
    assert {record.state for record in records} <= {State.COMPLETED}
    expected: dict[str, list[str]] = {gpu.uuid: [] for gpu in node.gpus}
    for recorded in (device for record in records for device in record.devices):
        if recorded.partition is not None:
            expected[recorded.device.target.gpu_uuid].append(recorded.partition.uuid)
    for gpu in node.gpus:
        found = node.backend.mig.instances(gpu.uuid)
        uuids = [compute.uuid for instance in found for compute in instance.compute_instances]
        assert (sorted(uuids), len(found)) == (sorted(expected[gpu.uuid]), len(uuids))
    for record in records:
        node.engine.unprepare(record.ref)
    assert [node.instances(i) for i in range(2)] == [[]] * 2
    assert ({node.mode(i) for i in range(2)}, node.files()) == ({False}, [])


class Admin:
    """Somebody who changes the GPUs of a node by hand; `made` are the MIG devices that are there by that."""

    def __init__(self, node: Node, data: st.DataObject) -> None:
        self._node, self._data = node, data
        self.made: set[str] = set()

    @property
    def _mig(self) -> SimulatedMig:
        return SimulatedBackend(PROFILE, "node-a", driver_root=self._node.root).mig

    def uuids(self) -> set[str]:
        """All MIG devices, with the driver's faults or without."""
        self._node.works()
        found = (each for gpu in self._node.gpus for each in self._mig.instances(gpu.uuid))
        return {compute.uuid for instance in found for compute in instance.compute_instances}

    def act(self) -> None:
        gpu = self._data.draw(st.sampled_from(self._node.gpus))
        assert gpu.mig is not None
        match self._data.draw(st.sampled_from(["make", "make", "destroy", "reset"])):
            case "make":
                profile = self._data.draw(st.sampled_from(gpu.mig.profiles))
                start = self._data.draw(st.sampled_from(profile.placements))
                self._mig.set_mode(gpu.uuid, enabled=True)
                number = self._mig.create_gpu_instance(gpu.uuid, profile.id, start)
                self.made.add(self._mig.create_compute_instance(gpu.uuid, number).uuid)
            case "destroy":
                for instance in self._mig.instances(gpu.uuid)[:1]:
                    for compute in instance.compute_instances:
                        self._mig.destroy_compute_instance(gpu.uuid, instance.id, compute.id)
                    self._mig.destroy_gpu_instance(gpu.uuid, instance.id)
            case "reset":
                self._node.fail(f"gpus: {{{gpu.uuid}: lost}}")
                SimulatedBackend(PROFILE, "node-a", driver_root=self._node.root).scan()
                self._node.works()
        self.made &= self.uuids()


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mig_devices_of_an_admin_stay_and_those_of_claims_go_whatever_the_admin_does(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    admin = Admin(node, data)
    names = [device.name for device in node.devices]
    refs: list[ClaimRef] = []
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["prepare", "prepare", "unprepare", "admin", "admin", "kill"]))
        try:
            if action == "prepare":
                devices = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
                refs.append(node.claim(f"c{len(refs)}", *devices))
                node.engine.prepare(refs[-1])
            elif action == "unprepare" and refs:
                node.engine.unprepare(data.draw(st.sampled_from(refs)))
            elif action == "admin":
                admin.act()
            elif action == "kill":
                node.start(KillingFiles(data.draw(st.integers(0, 12)), after=data.draw(st.booleans())))
        except Killed:
            node.start()
        except DriverError:
            pass  # what is left is looked at below
        assert admin.made <= admin.uuids()

    node.start()
    for record in node.records.all():
        node.engine.unprepare(record.ref)
    assert (admin.made, []) == (admin.uuids(), node.files())

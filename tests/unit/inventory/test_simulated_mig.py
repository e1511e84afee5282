"""MIG of simulated GPUs: real placement rules, state that outlives the process, and failures on demand."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_driver.errors import HardwareError, UnavailableError
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.faults import faults_file
from dra_driver.inventory.mig_control import GpuGoneError, GpuInstance, MigControl
from dra_driver.inventory.model import Gpu, Mig
from dra_driver.inventory.profile import load_profile, profile_names
from dra_driver.inventory.simulated import SimulatedBackend

CAPABLE = sorted(name for name in profile_names() if any(gpu.mig for gpu in load_profile(name).gpus))


def mig_of(backend: SimulatedBackend, index: int = 0) -> Mig:
    mig = backend.scan().gpus[index].mig
    assert mig is not None
    return mig


def cut(backend: SimulatedBackend, gpu: Gpu, profile_id: int, start: int) -> GpuInstance:
    """A MIG device, made as Prepare makes one."""
    number = backend.mig.create_gpu_instance(gpu.uuid, profile_id, start)
    backend.mig.create_compute_instance(gpu.uuid, number)
    return next(each for each in backend.mig.instances(gpu.uuid) if each.id == number)


class Node:
    """A DGX H100 with a driver root; `restart` is what a new process finds."""

    def __init__(self, root: Path, profile: str = "dgx-h100") -> None:
        self.root, self.profile = root, load_profile(profile)
        self.restart()
        self.gpu = self.backend.scan().gpus[0]

    def restart(self) -> None:
        make_driver_root(self.profile, self.root, node_name="node-1", device_nodes=False)
        self.backend = SimulatedBackend(self.profile, "node-1", driver_root=self.root)

    @property
    def mig(self) -> MigControl:
        return self.backend.mig

    def fail(self, fault: str) -> None:
        faults_file(self.root).write_text(f"mig: {{{self.gpu.uuid}: {fault}}}\n")

    def capabilities(self) -> list[str]:
        folder = self.root / "proc/driver/nvidia/capabilities/gpu0"
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("access"))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path / "root")
    node.mig.set_mode(node.gpu.uuid, enabled=True)
    return node


def test_a_gpu_is_cut_and_put_together_again(node: Node) -> None:
    instance = cut(node.backend, node.gpu, 9, 4)
    (device,) = mig_of(node.backend).devices
    assert (device.profile.name, device.placement, device.gpu_instance) == ("3g.40gb", 4, instance.id)
    assert device.uuid == instance.compute_instances[0].uuid
    node.mig.destroy_compute_instance(node.gpu.uuid, instance.id, 0)
    node.mig.destroy_gpu_instance(node.gpu.uuid, instance.id)
    assert mig_of(node.backend).devices == ()


def test_what_was_made_outlives_the_process(node: Node) -> None:
    instance = cut(node.backend, node.gpu, 9, 4)
    node.restart()
    assert node.mig.instances(node.gpu.uuid) == (instance,)
    assert [device.uuid for device in mig_of(node.backend).devices] == [instance.compute_instances[0].uuid]
    assert mig_of(node.backend).enabled


def test_a_reboot_takes_all_instances_away(node: Node) -> None:
    cut(node.backend, node.gpu, 9, 4)
    path = node.root / f"simulated/mig/{node.gpu.uuid}.json"
    path.write_text(path.read_text().replace('"bootID": "', '"bootID": "0'))
    node.restart()
    assert mig_of(node.backend) == node.profile.gpus_on("node-1")[0].mig
    assert node.capabilities() == []


@pytest.mark.parametrize("fault", ["lost", "absent"])
def test_a_gpu_that_was_lost_comes_back_without_its_instances(node: Node, fault: str) -> None:
    cut(node.backend, node.gpu, 9, 4)
    faults_file(node.root).write_text(f"gpus: {{{node.gpu.uuid}: {fault}}}")
    node.backend.scan()
    faults_file(node.root).unlink()
    assert mig_of(node.backend) == node.profile.gpus_on("node-1")[0].mig
    assert node.capabilities() == []


def test_capabilities_come_and_go_with_the_instances(node: Node) -> None:
    assert node.capabilities() == []
    number = node.mig.create_gpu_instance(node.gpu.uuid, 19, 6)
    assert node.capabilities() == [f"mig/gi{number}/access"]
    node.mig.create_compute_instance(node.gpu.uuid, number)
    assert node.capabilities() == [f"mig/gi{number}/access", f"mig/gi{number}/ci0/access"]
    node.restart()
    assert node.capabilities() == [f"mig/gi{number}/access", f"mig/gi{number}/ci0/access"]
    node.mig.destroy_compute_instance(node.gpu.uuid, number, 0)
    node.mig.destroy_gpu_instance(node.gpu.uuid, number)
    assert node.capabilities() == []


def test_another_process_sees_and_changes_the_same_gpus(node: Node) -> None:
    other = SimulatedBackend(node.profile, "node-1", driver_root=node.root)
    instance = cut(other, node.gpu, 19, 0)
    assert node.mig.instances(node.gpu.uuid) == (instance,)


def test_without_a_driver_root_the_state_lives_with_the_backend() -> None:
    backend = SimulatedBackend(load_profile("dgx-h100"), "node-1")
    gpu = backend.scan().gpus[3]
    backend.mig.set_mode(gpu.uuid, enabled=True)
    cut(backend, gpu, 0, 0)
    assert [device.profile.name for device in mig_of(backend, 3).devices] == ["7g.80gb"]
    assert mig_of(backend, 2).devices == ()


def test_each_creation_has_a_uuid_of_its_own(node: Node) -> None:
    uuids = set()
    for _ in range(3):
        instance = cut(node.backend, node.gpu, 19, 0)
        uuids.add(instance.compute_instances[0].uuid)
        node.mig.destroy_compute_instance(node.gpu.uuid, instance.id, 0)
        node.mig.destroy_gpu_instance(node.gpu.uuid, instance.id)
        node.restart()
    assert len(uuids) == 3


def test_a_gpu_out_of_mig_mode_is_not_cut(tmp_path: Path) -> None:
    node = Node(tmp_path / "root")
    with pytest.raises(HardwareError, match="does not offer that in the mode that the GPU is in"):
        node.mig.create_gpu_instance(node.gpu.uuid, 19, 0)


def test_an_a100_needs_a_reset_for_its_mode(tmp_path: Path) -> None:
    node = Node(tmp_path / "root", "dgx-a100-80")
    assert not mig_of(node.backend).switchable
    with pytest.raises(HardwareError, match="cannot be enabled without a reset"):
        node.mig.set_mode(node.gpu.uuid, enabled=True)


@pytest.mark.parametrize("name", ["t4", "l4", "gb10"])
def test_a_gpu_without_mig_says_so(name: str) -> None:
    backend = SimulatedBackend(load_profile(name), "node-1")
    with pytest.raises(HardwareError, match="its instances cannot be listed: its driver does not offer that"):
        backend.mig.instances(backend.scan().gpus[0].uuid)


@pytest.mark.parametrize(
    ("profile_id", "start", "text"),
    [
        (9, 0, "other GPU instances have its memory slices"),
        (9, 2, "its driver knows no such profile or place"),
        (99, 0, "its driver knows no such profile or place"),
    ],
)
def test_a_place_that_is_taken_or_unknown_is_refused(
    node: Node, profile_id: int, start: int, text: str
) -> None:
    cut(node.backend, node.gpu, 19, 3)
    with pytest.raises(HardwareError, match=text):
        node.mig.create_gpu_instance(node.gpu.uuid, profile_id, start)


def test_an_instance_that_is_filled_goes_after_its_compute_instance(node: Node) -> None:
    instance = cut(node.backend, node.gpu, 19, 3)
    with pytest.raises(UnavailableError, match="cannot be destroyed while a process uses it"):
        node.mig.destroy_gpu_instance(node.gpu.uuid, instance.id)
    with pytest.raises(HardwareError, match="a compute instance cannot be made"):
        node.mig.create_compute_instance(node.gpu.uuid, instance.id)
    with pytest.raises(UnavailableError, match="MIG mode cannot be disabled while"):
        node.mig.set_mode(node.gpu.uuid, enabled=False)


def test_destroying_what_is_gone_is_no_error(node: Node) -> None:
    node.mig.destroy_compute_instance(node.gpu.uuid, 5, 0)
    node.mig.destroy_gpu_instance(node.gpu.uuid, 5)


Call = Callable[[Node], object]


@pytest.mark.parametrize(
    ("fault", "call", "kind"),
    [
        ("create-fails", lambda n: n.mig.create_gpu_instance(n.gpu.uuid, 19, 0), HardwareError),
        ("compute-instance-fails", lambda n: cut(n.backend, n.gpu, 19, 0), HardwareError),
        ("in-use", lambda n: n.mig.set_mode(n.gpu.uuid, enabled=False), UnavailableError),
        ("mode-pending", lambda n: n.mig.set_mode(n.gpu.uuid, enabled=False), HardwareError),
    ],
)
def test_failures_come_on_demand_and_go_again(
    node: Node, fault: str, call: Call, kind: type[Exception]
) -> None:
    node.fail(fault)
    with pytest.raises(kind, match=f"^GPU {node.gpu.uuid}: "):
        call(node)
    faults_file(node.root).unlink()
    for instance in node.mig.instances(node.gpu.uuid):
        node.mig.destroy_gpu_instance(node.gpu.uuid, instance.id)
    call(node)


def test_what_is_in_use_is_not_destroyed(node: Node) -> None:
    instance = cut(node.backend, node.gpu, 19, 0)
    node.fail("in-use")
    with pytest.raises(UnavailableError):
        node.mig.destroy_compute_instance(node.gpu.uuid, instance.id, 0)
    assert node.mig.instances(node.gpu.uuid) == (instance,)


def test_a_pending_mode_shows_in_the_inventory(node: Node) -> None:
    node.fail("mode-pending")
    mig = mig_of(node.backend)
    assert (mig.enabled, mig.pending, mig.switchable) == (True, False, False)


def test_a_compute_instance_that_fails_leaves_an_empty_gpu_instance(node: Node) -> None:
    node.fail("compute-instance-fails")
    with pytest.raises(HardwareError, match="look for its Xid in the kernel log"):
        cut(node.backend, node.gpu, 19, 0)
    assert [each.compute_instances for each in node.mig.instances(node.gpu.uuid)] == [()]
    assert mig_of(node.backend).devices == ()


@pytest.mark.parametrize(
    ("faults", "kind", "text"),
    [
        ("gpus: lost", GpuGoneError, "since it is lost"),
        ("gpus: absent", GpuGoneError, "since it is not on the node any more"),
        ("nvml: unavailable", UnavailableError, "before the NVIDIA driver answers"),
    ],
)
def test_gpus_that_do_not_answer_are_not_cut(
    node: Node, faults: str, kind: type[Exception], text: str
) -> None:
    faults_file(node.root).write_text(faults)
    with pytest.raises(kind, match=text):
        node.mig.create_gpu_instance(node.gpu.uuid, 19, 0)


def test_a_state_that_cannot_be_read_costs_its_gpu_alone(node: Node) -> None:
    cut(node.backend, node.gpu, 19, 0)
    (node.root / f"simulated/mig/{node.gpu.uuid}.json").write_text("{")
    first, second, *_ = node.backend.scan().gpus
    assert first.fault is not None
    assert "does not tell how a simulated GPU is cut" in first.fault
    assert second.fault is None
    with pytest.raises(UnavailableError):
        node.mig.instances(node.gpu.uuid)


@pytest.mark.parametrize("name", CAPABLE)
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_no_order_of_cutting_breaks_the_board(name: str, data: st.DataObject) -> None:
    backend = SimulatedBackend(load_profile(name), "node-1")
    gpu = next(gpu for gpu in backend.scan().gpus if gpu.mig is not None)
    assert gpu.mig is not None
    if not gpu.mig.switchable:
        return
    backend.mig.set_mode(gpu.uuid, enabled=True)
    places = [(profile, start) for profile in gpu.mig.profiles for start in profile.placements]
    for profile, start in data.draw(st.lists(st.sampled_from(places), max_size=20)):
        try:
            cut(backend, gpu, profile.id, start)
        except HardwareError:
            continue
    devices = mig_of(backend, gpu.index).devices
    taken = [s for device in devices for s in range(device.placement, device.placement + device.profile.size)]
    assert len(taken) == len(set(taken))
    for engine in ("compute_slices", "multiprocessors", "decoders", "jpeg_engines", "ofa_engines"):
        board = max(getattr(profile, engine) for profile in gpu.mig.profiles)
        assert sum(getattr(device.profile, engine) for device in devices) <= board

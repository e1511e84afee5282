"""Prepare with hardware that is not what the allocation says."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dra_driver.cdi.spec import ContainerEdits
from dra_driver.devices.model import Device, DeviceSet, Target
from dra_driver.errors import ClaimError, ConflictError, HardwareError, UnavailableError
from dra_driver.inventory.model import Inventory, Problem

GPU0, GPU1 = "gpu-0000-65-00-0", "gpu-0000-ca-00-0"


def test_an_unknown_device_is_named_with_its_pool_and_what_to_do(node: Any) -> None:
    ref = node.allocate("a", {"device": "gpu-0000-ff-00-0"})

    with pytest.raises(
        ClaimError, match=r"device gpu-0000-ff-00-0 of pool node-a/gpu does not exist .*; delete the Pod"
    ):
        node.engine().prepare(ref)


def test_a_device_of_another_pool_is_refused_with_both_pools(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0, "pool": "node-a"})

    with pytest.raises(
        ClaimError, match="allocated from pool node-a, but the pool of this node is node-a/gpu"
    ):
        node.engine().prepare(ref)


def test_a_faulty_gpu_is_refused_with_its_fault(node: Any) -> None:
    node.change_gpu(0, fault="it has fallen off the bus.")
    ref = node.allocate("a", {"device": GPU0})

    with pytest.raises(HardwareError, match=f"device {GPU0} cannot be used: it has fallen off the bus$"):
        node.engine().prepare(ref)


def test_a_faulty_gpu_can_be_looked_at_with_admin_access(node: Any) -> None:
    node.change_gpu(0, fault="it has fallen off the bus")
    ref = node.allocate("a", {"device": GPU0, "adminAccess": True}, {"device": GPU1, "adminAccess": True})

    assert len(node.engine().prepare(ref)) == 2


def test_a_gpu_that_is_published_but_gone_is_refused(node: Any) -> None:
    node.inventory = replace(node.inventory, gpus=node.inventory.gpus[1:])
    ref = node.allocate("a", {"device": GPU0})

    with pytest.raises(HardwareError, match=rf"device {GPU0} \(GPU-0\) is gone from the node"):
        node.engine().prepare(ref)


def test_without_a_driver_a_claim_has_to_wait_and_says_why(node: Any) -> None:
    node.lose_driver()
    node.inventory = Inventory(available=False, problems=(Problem("NVML cannot be loaded."),))
    ref = node.allocate("a", {"device": GPU0})

    with pytest.raises(
        UnavailableError,
        match=f"device {GPU0} has to wait until the NVIDIA driver answers: NVML cannot be loaded$",
    ):
        node.engine().prepare(ref)


def test_without_a_driver_a_prepared_claim_gets_its_answer_while_the_spec_is_there(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    answer = engine.prepare(ref)
    node.lose_driver()

    assert engine.prepare(ref) == answer

    node.spec_file(ref).unlink()
    with pytest.raises(UnavailableError, match="has to wait until the NVIDIA driver answers"):
        engine.prepare(ref)


def test_while_nvml_hangs_a_prepared_claim_gets_its_answer_and_a_new_one_has_to_wait(node: Any) -> None:
    """All GPUs known from before are listed then, each with a fault that is not its own."""
    ref, other = node.allocate("a", {"device": GPU0}), node.allocate("b", {"device": GPU1})
    engine = node.engine()
    answer = engine.prepare(ref)
    gpus = tuple(replace(gpu, fault="NVML does not answer") for gpu in node.inventory.gpus)
    node.inventory = Inventory(
        available=False, gpus=gpus, problems=(Problem("NVML has not answered for 10 s."),)
    )

    assert answer == engine.prepare(ref)
    with pytest.raises(UnavailableError, match="has to wait until the NVIDIA driver answers: NVML has not"):
        engine.prepare(other)


def test_missing_nodes_are_named_and_their_appearance_is_enough(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (node.dev / name).unlink()

    with pytest.raises(HardwareError, match="/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm do not exist"):
        engine.prepare(ref)
    assert (node.spec_files(), node.record_files(), engine.held()) == ([], [], ())

    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (node.dev / name).touch()
    assert engine.prepare(ref)


def test_a_device_that_would_give_nothing_is_refused_and_tried_again(node: Any) -> None:
    class Empty:
        common = ContainerEdits(env=("A=b",))

        def now(self) -> Any:
            return self

        def device(self, target: Target, gpu: object, *, admin_access: bool) -> ContainerEdits:
            return ContainerEdits()

    edits, node.edits = node.edits, Empty()
    ref = node.allocate("a", {"device": GPU0})
    with pytest.raises(HardwareError, match=f"device {GPU0} would give a container nothing"):
        node.engine().prepare(ref)

    node.edits = edits
    assert node.engine().prepare(ref)


def test_a_name_that_is_other_hardware_now_is_refused(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate("a", {"device": GPU0})
    engine.prepare(ref)
    swapped = Device(GPU0, Target("gpu", "GPU-new", "GPU-new", "0000:65:00.0"))
    node.devices = DeviceSet((swapped, node.devices.devices[1]))
    node.change_gpu(0, uuid="GPU-new")

    with pytest.raises(
        HardwareError, match=f"device {GPU0} was GPU-0 when it was prepared, and is GPU-new now"
    ):
        engine.prepare(ref)


def test_a_claim_after_a_swap_conflicts_with_the_holder_of_the_old_gpu(node: Any) -> None:
    engine = node.engine()
    engine.prepare(node.allocate("a", {"device": GPU0}))
    swapped = Device(GPU0, Target("gpu", "GPU-new", "GPU-new", "0000:65:00.0"))
    node.devices = DeviceSet((swapped, node.devices.devices[1]))
    node.change_gpu(0, uuid="GPU-new")

    with pytest.raises(ClaimError, match=f"device {GPU0} is held by claim default/a"):
        engine.prepare(node.allocate("b", {"device": GPU0}))


def test_a_mig_device_that_was_made_anew_is_not_the_recorded_one(node: Any) -> None:
    node.cut_into_mig()
    name = node.devices.devices[0].name
    for path in ("gi7", "gi7/ci0"):
        access = node.dev.parent.parent / "proc/driver/nvidia/capabilities/gpu0/mig" / path / "access"
        access.parent.mkdir(parents=True, exist_ok=True)
        access.write_text("DeviceFileMinor: 66\nDeviceFileMode: 292\n")
    (node.dev.parent.parent / "proc/devices").write_text("Character devices:\n234 nvidia-caps\n")
    engine = node.engine()
    ref = node.allocate("a", {"device": name})
    engine.prepare(ref)
    node.devices = DeviceSet((Device(name, Target("mig", "MIG-new", "GPU-0", "0000:65:00.0")),))

    with pytest.raises(HardwareError, match="was MIG-0 when it was prepared, and is MIG-new now"):
        engine.prepare(ref)


def test_a_device_that_a_foreign_spec_has_leaves_nothing_behind_until_that_is_gone(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0})
    node.cdi_dir.mkdir()
    device = {"name": f"{ref.uid}-{GPU0}", "containerEdits": {"env": ["A=b"]}}
    body = {"cdiVersion": "0.5.0", "kind": "k8s.gpu.nvidia.com/claim", "devices": [device]}
    (node.cdi_dir / "foreign.json").write_text(json.dumps(body))
    engine = node.engine()

    with pytest.raises(ConflictError, match=r"foreign.json too, so that container runtimes take neither"):
        engine.prepare(ref)
    assert (node.spec_files(), node.metadata_files(), engine.held()) == (["foreign.json"], [], ())

    (node.cdi_dir / "foreign.json").unlink()
    assert engine.prepare(ref)


@pytest.mark.parametrize("name", ["libcuda", "libnvidia-ml"])
def test_a_missing_library_fails_prepare_until_it_is_there(node: Any, name: str) -> None:
    ref = node.allocate("a", {"device": GPU0})
    library = node.dev.parent / f"usr/lib64/{name}.so.580.95.05"
    library.rename(library.parent / "away")
    engine = node.engine()

    with pytest.raises(HardwareError, match=rf"{name}.so.580.95.05 does not exist under / on the node"):
        engine.prepare(ref)
    assert (node.spec_files(), node.record_files(), engine.held()) == ([], [], ())

    (library.parent / "away").rename(library)
    assert engine.prepare(ref)

"""A simulated node, and what can be made to go wrong with it while it runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dra_driver.inventory.backend import Backend
from dra_driver.inventory.faults import faults_file
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend

Break = Callable[[str], None]
FIRST, SECOND = "0000:07:00.0", "0000:0f:00.0"


@pytest.fixture
def backend(tmp_path: Path) -> SimulatedBackend:
    return SimulatedBackend(load_profile("dgx-a100-40"), "node-1", driver_root=tmp_path)


@pytest.fixture
def break_with(tmp_path: Path) -> Break:
    def write(text: str) -> None:
        path = faults_file(tmp_path)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    return write


def test_a_simulated_node_is_a_backend_like_nvml() -> None:
    backend: Backend = SimulatedBackend(load_profile("t4"), "node-1")
    assert backend.name == "simulated:t4"
    inventory = backend.scan()
    assert (inventory.available, len(inventory.gpus), inventory.problems) == (True, 4, ())
    assert (inventory.driver_version, inventory.cuda_driver_version) == ("550.163.01", 12040)
    backend.close()


def test_nothing_changes_from_scan_to_scan(backend: SimulatedBackend) -> None:
    assert backend.scan() == backend.scan()


def test_existing_mig_devices_are_found_with_lasting_uuids(tmp_path: Path) -> None:
    path = tmp_path / "mig.yaml"
    path.write_text("""\
description: d
driver: {version: 580.95.05, cuda: 13.0}
gpus:
  - pci: 0000:07:00.0
    name: n
    mig:
      table: a100-40
      enabled: true
      devices: [{profile: 3g.20gb, start: 4}, {profile: 1g.5gb, start: 0}, {profile: 1g.5gb, start: 3}]
""")
    gpus = [SimulatedBackend(load_profile(path), node).scan().gpus[0] for node in ("a", "a", "b")]
    migs = [gpu.mig for gpu in gpus if gpu.mig]
    assert migs[0] == migs[1]
    assert (migs[0].enabled, migs[0].pending) == (True, True)
    found = [(device.profile.name, device.placement, device.gpu_instance) for device in migs[0].devices]
    assert found == [("3g.20gb", 4, 2), ("1g.5gb", 0, 7), ("1g.5gb", 3, 10)]
    uuids = {device.uuid for mig in migs for device in mig.devices}
    assert len(uuids) == 6
    assert all(uuid.startswith("MIG-") for uuid in uuids)


def test_a_lost_gpu_stays_in_the_inventory_with_its_fault(
    backend: SimulatedBackend, break_with: Break
) -> None:
    break_with(f"gpus: {{{FIRST}: lost}}\n")
    inventory = backend.scan()
    assert [gpu.fault is None for gpu in inventory.gpus] == [False] + [True] * 7
    assert inventory.gpus[0].fault == inventory.problems[0].message
    assert inventory.problems[0].pci_address == FIRST


def test_an_absent_gpu_leaves_and_the_others_are_numbered_anew(
    backend: SimulatedBackend, break_with: Break
) -> None:
    before = backend.scan()
    break_with(f"gpus: {{{before.gpus[0].uuid}: absent}}\n")
    after = backend.scan()
    assert [gpu.uuid for gpu in after.gpus] == [gpu.uuid for gpu in before.gpus[1:]]
    assert [gpu.index for gpu in after.gpus] == list(range(7))
    assert [gpu.minor for gpu in after.gpus] == list(range(1, 8))


def test_all_gpus_can_be_hidden_and_come_back(
    backend: SimulatedBackend, break_with: Break, tmp_path: Path
) -> None:
    break_with("gpus: absent\n")
    assert (backend.scan().available, backend.scan().gpus) == (True, ())
    faults_file(tmp_path).unlink()
    assert len(backend.scan().gpus) == 8


def test_nvml_can_be_made_unavailable(backend: SimulatedBackend, break_with: Break) -> None:
    break_with("nvml: unavailable\n")
    inventory = backend.scan()
    assert (inventory.available, inventory.gpus, inventory.driver_version) == (False, (), None)
    assert inventory.problems[0].message == "NVML is not available (simulated)"
    break_with("nvml: available\n")
    assert backend.scan().available


def test_gpus_are_named_in_the_notation_of_nvml_too(backend: SimulatedBackend, break_with: Break) -> None:
    break_with("gpus: {'00000000:0F:00.0': absent}\n")
    assert SECOND not in {gpu.pci_address for gpu in backend.scan().gpus}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "gpus: {0000:07:00.0: broken}",
            "line 1, gpus.0000:07:00.0: expected one of lost, absent, found 'broken'",
        ),
        ("gpus: gone", "line 1, gpus: expected one of lost, absent, found 'gone'"),
        ("gpus: [lost]", "line 1, gpus: expected a mapping, found a list"),
        ("gpus: {first: lost}", "expected a PCI address such as 0000:65:00.0, found 'first'"),
        ("nvml: off", "line 1, nvml: expected one of available, unavailable, found 'off'"),
        ("gpu: {}", "unknown key 'gpu', expected one of nvml, gpus"),
        ("gpus: {0000:07", "expected YAML"),
        ("", "expected a YAML mapping, found an empty file"),
    ],
)
def test_a_bad_fault_file_is_a_problem_and_changes_nothing(
    backend: SimulatedBackend, break_with: Break, text: str, expected: str
) -> None:
    break_with(f"gpus: {{{FIRST}: lost}}\n")
    before = backend.scan()
    break_with(text)
    after = backend.scan()
    assert after.gpus == before.gpus
    assert after.problems[0].message.startswith("the faults to simulate stay as they were: ")
    assert expected in after.problems[0].message


def test_a_folder_in_place_of_the_fault_file_is_a_problem(backend: SimulatedBackend, tmp_path: Path) -> None:
    faults_file(tmp_path).mkdir(parents=True)
    assert "cannot be read: Is a directory" in backend.scan().problems[0].message


def test_a_fault_of_a_gpu_that_is_not_here_is_a_problem(backend: SimulatedBackend, break_with: Break) -> None:
    break_with("gpus: {0000:99:00.0: lost}\n")
    inventory = backend.scan()
    assert "there is no GPU 0000:99:00.0 on this node" in inventory.problems[0].message
    assert {gpu.fault for gpu in inventory.gpus} == {None}

"""The loop that looks at the hardware: who may wait for it, and MIG devices that come and go while it looks."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dra_driver.config.node import GpuEntry, MigMode, NodeConfig
from dra_driver.devices.model import Device, HeldDevice, Target
from dra_driver.errors import UnavailableError
from dra_driver.inventory.mig_control import MigControl
from dra_driver.inventory.model import Inventory
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.kube.client import Client
from dra_driver.kubelet.pb import pluginregistration_v1_pb2 as pb
from dra_driver.kubelet.plugin import KubeletPlugin
from dra_driver.node.coexistence import DevicePluginWatch
from dra_driver.node.hardware import Hardware
from dra_driver.node.health import NodeHealth
from dra_driver.slices.publisher import Publisher

DYNAMIC = NodeConfig(MigMode.DYNAMIC)


class Watched:
    """A simulated node whose scans a test can step into."""

    name = "watched"

    def __init__(self) -> None:
        self.simulated = SimulatedBackend(load_profile("dgx-h100"), "node-a")
        self.scans = 0
        self.during: Callable[[], None] = lambda: None
        self.minors: dict[str, int] = {}  # of GPUs that have another one than at first, by UUID

    @property
    def mig(self) -> MigControl:
        return self.simulated.mig

    def scan(self) -> Inventory:
        inventory = self.simulated.scan()
        self.scans += 1
        self.during()
        gpus = (replace(gpu, minor=self.minors.get(gpu.uuid, gpu.minor)) for gpu in inventory.gpus)
        return replace(inventory, gpus=tuple(gpus))

    def close(self) -> None:
        self.simulated.close()


class Node:
    def __init__(self, node: NodeConfig) -> None:
        self.backend = Watched()
        self.held: list[HeldDevice] = []
        self.changes = 0
        self.hardware = Hardware(
            self.backend, lambda: tuple(self.held), "gpu.nvidia.com", node, 3600.0, self._changed
        )
        self.on_change: Callable[[], None] = lambda: None

    def _changed(self) -> None:
        self.changes += 1
        self.on_change()

    def start(self) -> None:
        self.hardware.start()
        assert self.hardware.scanned.wait(60)


@pytest.fixture
def node() -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def make(config: NodeConfig = DYNAMIC) -> Node:
        nodes.append(Node(config))
        return nodes[-1]

    yield make
    for each in nodes:
        each.hardware.stop()


def test_who_waits_gets_a_look_that_began_afterwards(node: Any) -> None:
    here = node()
    here.start()
    gpu = here.backend.simulated.scan().gpus[0]
    here.backend.mig.set_mode(gpu.uuid, enabled=True)
    here.hardware.look_and_wait(60)
    mig = here.hardware.snapshot.inventory.gpus[0].mig
    assert (mig is not None and mig.enabled, here.backend.scans) == (True, 2)


def test_a_look_that_is_under_way_is_not_what_is_waited_for(node: Any) -> None:
    here = node()
    began, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        here.backend.during = lambda: None
        began.set()
        assert go_on.wait(60)

    here.backend.during = pause
    here.hardware.start()
    assert began.wait(60)
    threading.Timer(0.05, go_on.set).start()
    here.hardware.look_and_wait(60)
    assert here.backend.scans == 2


def test_hardware_that_does_not_answer_is_waited_for_in_vain_and_not_for_long(node: Any) -> None:
    here, go_on = node(), threading.Event()
    here.backend.during = lambda: go_on.wait(60) and None
    here.hardware.start()
    here.hardware.look_and_wait(0.01)
    scans = here.backend.scans
    go_on.set()
    assert scans <= 1


def test_the_thread_that_looks_does_not_wait_for_itself(node: Any) -> None:
    here = node()
    here.on_change = lambda: here.hardware.look_and_wait(3600)
    here.start()
    here.hardware.look_and_wait(60)
    assert here.changes >= 1


def test_gpus_that_exchange_their_minor_numbers_are_a_change_although_all_that_is_published_is_the_same(
    node: Any,
) -> None:
    here = node()
    here.start()
    first, second, *_ = here.backend.simulated.scan().gpus
    devices = here.hardware.snapshot.devices
    here.hardware.look_and_wait(60)
    here.hardware.look_and_wait(60)  # by which the one before is over
    changes = here.changes
    here.backend.minors = {first.uuid: second.minor, second.uuid: first.minor}
    here.hardware.look_and_wait(60)
    here.hardware.look_and_wait(60)
    assert (devices, changes + 1) == (here.hardware.snapshot.devices, here.changes)


@pytest.mark.parametrize("when", ["prepared", "released"])
def test_a_mig_device_that_a_claim_had_at_either_end_of_a_look_is_nobody_s_but_its(
    node: Any, when: str
) -> None:
    here = node()
    gpu = here.backend.simulated.scan().gpus[0]
    here.backend.mig.set_mode(gpu.uuid, enabled=True)
    here.start()
    name = next(
        d.name for d in here.hardware.snapshot.devices if (d.target.profile_id, d.target.start) == (9, 4)
    )
    target = Target("partition", "", gpu.uuid, gpu.pci_address, 9, 4)
    hold = HeldDevice(Device(name, target), "ns/a", "uid-a")
    number = here.backend.mig.create_gpu_instance(gpu.uuid, 9, 4)
    here.backend.mig.create_compute_instance(gpu.uuid, number)
    here.held = [hold] if when == "released" else []
    here.backend.during = lambda: setattr(here, "held", [] if when == "released" else [hold])
    here.hardware.look_and_wait(60)
    kinds = {d.target.kind for d in here.hardware.snapshot.devices if d.target.gpu_uuid == gpu.uuid}
    assert kinds == {"gpu", "partition"}


def test_gpus_are_cut_where_the_configuration_says_so(node: Any) -> None:
    gpus = load_profile("dgx-h100").gpus_on("node-a")
    entry = GpuEntry(uuid=gpus[2].uuid, mig=MigMode.DYNAMIC, destroy_unowned=True)
    here = node(NodeConfig(MigMode.AUTO, (entry,)))
    here.start()
    assert here.hardware.managed() == {gpus[2].uuid: True}


def test_a_gpu_that_does_not_answer_is_not_cut(node: Any) -> None:
    here = node()
    assert here.hardware.managed() == {}
    here.start()
    assert len(here.hardware.managed()) == 8


def test_the_mig_mode_of_gpus_that_are_to_be_whole_is_switched_as_well(node: Any) -> None:
    here = node(NodeConfig(MigMode.OFF))
    here.start()
    assert set(here.hardware.managed().values()) == {False}
    assert len(here.hardware.managed()) == 8


def test_a_plugin_whose_looks_fail_is_not_ready_until_one_succeeds(node: Any, tmp_path: Path) -> None:
    here = node()
    kubelet = KubeletPlugin("gpu.nvidia.com", tmp_path, tmp_path, cast("Any", None), lambda *_: None)
    kubelet._registration.NotifyRegistrationStatus(
        pb.RegistrationStatus(plugin_registered=True), cast("Any", None)
    )
    publisher = Publisher(  # which is not started
        cast("Client", None), driver_name="gpu.nvidia.com", node_name="n", pool_name="n/gpu"
    )
    watch = DevicePluginWatch(dict, lambda: None)
    health = NodeHealth(kubelet, here.hardware, watch, publisher)
    answers: list[str] = []
    done = threading.Event()

    def look_again(then: Callable[[], None]) -> None:
        here.backend.during = then
        here.hardware.look()

    def fail() -> None:
        look_again(ask_and_succeed)
        raise KeyError("firmware")

    def ask_and_succeed() -> None:
        ask()
        look_again(ask_and_end)

    def ask_and_end() -> None:
        ask()
        done.set()

    def ask() -> None:
        with pytest.raises(UnavailableError) as caught:
            health.check_ready()
        answers.append(str(caught.value))

    here.start()
    look_again(fail)
    assert done.wait(60)

    assert answers == [
        "looking at the hardware failed: 'firmware'; see the log",
        "nothing has been published yet",
    ]

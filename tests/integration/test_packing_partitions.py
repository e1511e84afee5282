"""The allocator and the node agree: whatever it gives of what is published, Prepare makes, until nothing is left.

Random claims for MIG devices, several at once, and whole GPUs are packed on nodes with MIG, through the slices that the
driver writes, the allocator, and the claim engine on simulated GPUs with the placement rules of real ones.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from dra_driver.allocation.allocator import Snapshot
from dra_driver.allocation.model import Pool
from dra_driver.allocation.state import Allocated, CounterLedger
from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.cdi.store import SpecStore
from dra_driver.config.node import GpuEntry, MigMode, NodeConfig
from dra_driver.devices import snapshot
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import DeviceSet
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.mig_rules import Place, misfit
from dra_driver.inventory.model import Gpu
from dra_driver.inventory.profile import Profile, load_profile, profile_names
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.partitions.mig_device import MigDevices
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, RecordStore
from dra_driver.prepare.record import PreparedDevice
from dra_driver.slices.pack import pack

DRIVER, POOL = "gpu.nvidia.com", "node-a/gpu"
NODE = {"metadata": {"name": "node-a"}}
CLASSES = list(yaml.safe_load_all(Path("deploy/deviceclasses.yaml").read_text(encoding="utf-8")))


def _profile(name: str) -> Profile:
    """The first two GPUs of a kind of node; those whose MIG mode needs a reset are in it, since nobody resets them."""
    profile = load_profile(name)
    gpus = (
        replace(gpu, mig=replace(gpu.mig, enabled=True, pending=True))
        if gpu.mig and not gpu.mig.switchable
        else gpu
        for gpu in profile.gpus[:2]
    )
    return replace(profile, gpus=tuple(gpus))


WITH_MIG = [name for name in profile_names() if load_profile(name).gpus[0].mig]


class Node:
    """A node with its scheduler: what is published is what the hardware and the records say at the moment."""

    def __init__(self, path: Path, name: str, config: NodeConfig) -> None:
        profile, root = _profile(name), path / "root"
        make_driver_root(profile, root, node_name="node-a", device_nodes=False)
        self.config = config
        self.claims: dict[str, dict[str, Any]] = {}
        self.prepared: tuple[PreparedDevice, ...] = ()  # of the last claim
        self._snapshot: Snapshot | None = None
        self.backend = SimulatedBackend(profile, "node-a", driver_root=root)
        self.gpus = self.backend.scan().gpus
        local = Root(PurePosixPath(root), root, PLACEHOLDERS)
        devices = MigDevices(self.backend.mig, lambda: {gpu.uuid: False for gpu in self.gpus}, lambda: None)
        self.engine = Engine(
            driver_name=DRIVER,
            pool_name=POOL,
            claims=self,
            hardware=lambda: snapshot.Snapshot(self.backend.scan(), self.published()),
            edits=DriverEdits(local, host=local, proc=root / "proc", sysfs=root / "sys"),
            records=RecordStore(path / "claims", boot_id="boot"),
            specs=SpecStore(path / "cdi", DRIVER),
            metadata=MetadataStore(path / "metadata", DRIVER),
            partitions=devices,
        )
        self.engine.restore()

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        assert namespace == "default"
        return self.claims[name]

    def published(self) -> DeviceSet:
        return build_devices(self.backend.scan(), self.engine.held(), node=self.config)

    def snapshot(self) -> Snapshot:
        """What the scheduler sees; the same until a claim comes or goes."""
        if self._snapshot is None:
            self._snapshot = self._look()
        return self._snapshot

    def _look(self) -> Snapshot:
        packed = pack(self.published())
        assert packed.withheld == ()
        pool = {"name": POOL, "generation": 1, "resourceSliceCount": len(packed.contents)}
        head = {"driver": DRIVER, "nodeName": "node-a", "pool": pool}
        slices = [
            {"metadata": {"name": f"s{i}"}, "spec": {**head, **content.as_spec()}}
            for i, content in enumerate(packed.contents)
        ]
        return Snapshot(slices, CLASSES, self.claims.values())

    def give(self, spec: dict[str, Any]) -> bool:
        """Allocate and prepare a claim; False where the scheduler finds nothing for it."""
        name = f"c{len(self.claims)}-{random.getrandbits(32):x}"
        metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        claim = {"metadata": metadata, "spec": {"devices": spec}}
        found = self.snapshot().allocate([claim], node=NODE)
        if found is None:
            return False
        self.claims[name] = {**claim, "status": {"allocation": found[0]}}
        self._snapshot = None
        self.prepared = self.engine.prepare(ClaimRef("default", name, f"uid-{name}"))
        return True

    def take_back(self, name: str) -> None:
        self.engine.unprepare(ClaimRef("default", name, f"uid-{name}"))
        del self.claims[name]
        self._snapshot = None

    def overdrawn(self) -> list[str]:
        """Counters that are below zero."""
        pools: list[Pool] = self.snapshot().slices.pools(NODE)
        ledger = CounterLedger(Allocated(self.claims.values()))
        return [
            counter
            for pool in pools
            for counters in ledger.left(pool).values()
            for counter, amount in counters.items()
            if amount < 0
        ]

    def room(self, gpu: Gpu) -> Iterator[Place]:
        """Where the hardware would still take a MIG device, of a GPU that no claim has whole."""
        whole = {d.device.target.uuid for d in self.engine.held() if d.device.target.kind == "gpu"}
        if gpu.mig is None or gpu.uuid in whole:
            return
        profiles = {profile.id: profile for profile in gpu.mig.profiles}
        taken = [
            Place(profiles[each.profile_id], each.placement) for each in self.backend.mig.instances(gpu.uuid)
        ]
        for profile in gpu.mig.profiles:
            for start in profile.placements:
                if misfit(Place(profile, start), taken, gpu.mig.profiles) is None:
                    yield Place(profile, start)


def _mig(profile: str, name: str = "mig", **more: Any) -> dict[str, Any]:
    expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
    exactly = {
        "deviceClassName": "mig.nvidia.com",
        "selectors": [{"cel": {"expression": expression}}],
        **more,
    }
    return {"name": name, "exactly": exactly}


def _kinds(node: Node) -> dict[str, dict[str, Any]]:
    """All kinds of claims that are packed, by what they ask for."""
    assert node.gpus[0].mig is not None
    names = [profile.name for profile in node.gpus[0].mig.profiles]
    kinds: dict[str, dict[str, Any]] = {name: {"requests": [_mig(name)]} for name in names}
    kinds |= {f"2 {name}": {"requests": [_mig(name, count=2)]} for name in names}
    for one, other in pairwise(names):
        kinds[f"{one} and {other}"] = {
            "requests": [_mig(one, "one"), _mig(other, "other")],
            "constraints": [{"matchAttribute": "gpu.nvidia.com/parentUUID"}],
        }
    kinds["any"] = {"requests": [{"name": "any", "exactly": {"deviceClassName": "mig.nvidia.com"}}]}
    kinds["gpu"] = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
    return kinds


def _pack(node: Node, seed: int) -> None:
    """Claims of all kinds come, and some go again, until none is given any more."""
    dice = random.Random(seed)
    kinds = _kinds(node)
    waiting = list(kinds)
    releases = 6
    while waiting:
        kind = dice.choice(waiting)
        if node.give(kinds[kind]):
            assert node.overdrawn() == []
        else:
            waiting.remove(kind)
        if releases and node.claims and dice.random() < 0.3:
            releases -= 1
            node.take_back(dice.choice(list(node.claims)))
            waiting = list(kinds)


@pytest.mark.parametrize("name", WITH_MIG)
def test_every_allocation_can_be_prepared_until_nothing_fits(tmp_path: Path, name: str) -> None:
    node = Node(tmp_path, name, NodeConfig(MigMode.DYNAMIC))
    for seed in range(2):
        _pack(node, seed)
        assert [list(node.room(gpu)) for gpu in node.gpus] == [[], []]
        for claim in list(node.claims):
            node.take_back(claim)
    assert [node.backend.mig.instances(gpu.uuid) for gpu in node.gpus] == [(), ()]


@pytest.mark.parametrize("name", WITH_MIG)
def test_mig_devices_of_the_admins_are_packed_around(tmp_path: Path, name: str) -> None:
    node = Node(tmp_path, name, NodeConfig(MigMode.DYNAMIC))
    gpu = node.gpus[0]
    assert gpu.mig is not None
    small = min(gpu.mig.profiles, key=lambda profile: profile.memory_bytes)
    node.backend.mig.set_mode(gpu.uuid, enabled=True)
    instance = node.backend.mig.create_gpu_instance(gpu.uuid, small.id, small.placements[-1])
    node.backend.mig.create_compute_instance(gpu.uuid, instance)
    _pack(node, 7)

    assert list(node.room(gpu)) == []
    for claim in list(node.claims):
        node.take_back(claim)
    assert [each.id for each in node.backend.mig.instances(gpu.uuid)] == [instance]


def test_gpus_of_one_node_are_whole_cut_by_hand_and_cut_on_demand(tmp_path: Path) -> None:
    whole, on_demand = _profile("dgx-h100").gpus_on("node-a")
    entries = (
        GpuEntry(uuid=whole.uuid, mig=MigMode.OFF),
        GpuEntry(uuid=on_demand.uuid, mig=MigMode.DYNAMIC),
    )
    node = Node(tmp_path, "dgx-h100", NodeConfig(entries=entries))
    _pack(node, 1)

    cut = {held.device.target.gpu_uuid for held in node.engine.held() if held.device.target.kind != "gpu"}
    assert cut <= {on_demand.uuid}
    assert list(node.room(on_demand)) == []


def test_one_h100_is_packed_with_small_medium_and_large_until_it_is_full(tmp_path: Path) -> None:
    node = Node(tmp_path, "dgx-h100", NodeConfig(MigMode.DYNAMIC))
    wanted = ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]
    one = "device.attributes['resource.kubernetes.io'].pciBusID == " + f"'{node.gpus[0].pci_address}'"
    specs = [_mig(name) for name in wanted]
    for spec in specs:
        spec["exactly"]["selectors"].append({"cel": {"expression": one}})

    assert [True] * 4 == [node.give({"requests": [spec]}) for spec in specs]
    assert not node.give({"requests": [specs[-1]]})
    assert 4 == len(node.backend.mig.instances(node.gpus[0].uuid))


@pytest.mark.parametrize("kind", ["gpu", "mig"])
def test_a_claim_with_several_shares_of_a_device_gets_each_under_its_own_name(
    tmp_path: Path, kind: str
) -> None:
    node = Node(tmp_path, "dgx-h100", NodeConfig(MigMode.DYNAMIC, (GpuEntry(shares=3),)))
    requests = [
        {"name": name, "exactly": {"deviceClassName": f"{kind}.nvidia.com"}} for name in ("a", "b", "c", "d")
    ]
    assert node.give({"requests": requests})
    (name,) = node.claims
    results = node.claims[name]["status"]["allocation"]["devices"]["results"]

    assert [3, 1] == [
        sum(r["device"] == d for r in results) for d in dict.fromkeys(r["device"] for r in results)
    ]
    told = {(d.request_names, d.device, d.share_id) for d in node.prepared}
    assert {((r["request"],), r["device"], r["shareID"]) for r in results} == told
    spec = json.loads((tmp_path / f"cdi/k8s.{DRIVER}-claim_uid-{name}.json").read_bytes())
    names = {device["name"] for device in spec["devices"]}
    assert {f"uid-{name}-{r['device']}-{r['shareID']}" for r in results} == names
    assert {d.cdi_ids[0].partition("=")[2] for d in node.prepared} == names
    made = [len(node.backend.mig.instances(gpu.uuid)) for gpu in node.gpus]
    assert ([0, 0] if kind == "gpu" else [2, 0]) == made


def test_shares_of_a_mig_device_come_and_go_with_their_claims(tmp_path: Path) -> None:
    node = Node(tmp_path, "dgx-h100", NodeConfig(MigMode.DYNAMIC, (GpuEntry(shares=2),)))
    for _ in range(4):
        assert node.give({"requests": [_mig("7g.80gb")]})
    assert not node.give({"requests": [_mig("7g.80gb")]})
    first, second, *_ = node.claims
    node.take_back(first)
    assert [1, 1] == [len(node.backend.mig.instances(gpu.uuid)) for gpu in node.gpus]
    assert node.give({"requests": [_mig("7g.80gb")]})
    node.take_back(second)
    assert not node.give({"requests": [_mig("3g.40gb")]})
    assert node.overdrawn() == []


def test_a_gpu_that_is_to_be_whole_leaves_mig_mode_for_its_claim(tmp_path: Path) -> None:
    node = Node(tmp_path, "dgx-h100", NodeConfig(MigMode.OFF))
    for gpu in node.gpus:
        node.backend.mig.set_mode(gpu.uuid, enabled=True)

    assert node.give(_kinds(node)["gpu"])
    assert [False, True] == [node.backend.mig.mode(gpu.uuid) for gpu in node.gpus]

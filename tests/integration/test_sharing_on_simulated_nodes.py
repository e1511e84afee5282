"""Claims that ask for time-slicing or MPS, from the API object to nvidia-smi and the MPS daemon, on a simulated node."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import dra_driver.files
from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import PLACEHOLDERS, Root
from dra_driver.cdi.store import SpecStore
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import DeviceSet
from dra_driver.devices.snapshot import Snapshot
from dra_driver.errors import ClaimError, ConfigError, ConflictError, HardwareError
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.prepare import ClaimRef, Engine, MetadataStore, RecordStore
from dra_driver.sharing.keeper import clear_directory
from dra_driver.sharing.programs import DriverPrograms, Finished
from dra_driver.sharing.sharing import NodeSharing
from dra_driver.sharing.supervision import DaemonDirectory
from dra_driver.sharing.supervisor import SupervisorProcess

DRIVER, POOL = "gpu.nvidia.com", "node-a/gpu"
API = "resource.nvidia.com/v1beta1"


class KilledError(BaseException):
    """The plugin's process ends here."""


class Events:
    """Counts what the plugin does to the node, and ends it before or after the action with that number."""

    def __init__(self, kill_at: int | None = None, *, after: bool = False) -> None:
        self.kill_at, self.after, self.names = kill_at, after, list[str]()

    def do(self, name: str, action: Callable[[], Any]) -> Any:
        here = len(self.names) == self.kill_at
        self.names.append(name)
        if here and not self.after:
            raise KilledError
        answer = action()
        if here:
            raise KilledError
        return answer


class Programs(DriverPrograms):
    """The driver's programs, whose runs are events."""

    def __init__(self, root: Path, events: Events) -> None:
        super().__init__(lambda: root, simulated=True)
        self._events = events

    def run(self, name: str, *arguments: str, seconds: float) -> Finished:
        run = super().run
        finished: Finished = self._events.do(name, lambda: run(name, *arguments, seconds=seconds))
        return finished


class Files:
    """State on disk, whose changes are events."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def write_atomic(self, path: Any, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
        write = dra_driver.files.write_atomic
        self._events.do("write", lambda: write(path, data, mode=mode, sync=sync))

    def write_new(self, path: Any, data: bytes, *, mode: int = 0o600) -> bool:
        written: bool = self._events.do("write", lambda: dra_driver.files.write_new(path, data, mode=mode))
        return written

    def remove(self, path: Any, *, sync: bool = True) -> bool:
        removed: bool = self._events.do("remove", lambda: dra_driver.files.remove(path, sync=sync))
        return removed


class Node:
    """A DGX H100 whose GPUs can be shared out, with a supervisor of MPS daemons; `engine` is a start of the plugin."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path / "root"
        profile = load_profile("dgx-h100")
        make_driver_root(profile, self.root, node_name="node-a", device_nodes=False)
        self.inventory = SimulatedBackend(profile, "node-a").scan()
        plain = build_devices(self.inventory)
        self.devices = DeviceSet(tuple(replace(d, allow_multiple_allocations=True) for d in plain))
        self.gpus = [device.name for device in self.devices]
        self.claims: dict[str, dict[str, Any]] = {}
        self.mps = path / "mps"
        self.supervisor = SupervisorProcess(self.mps, shm_bytes=1 << 20)
        self.supervisor.start()
        self.engine = self.start()

    def start(self, events: Events | None = None) -> Engine:
        events = events or Events()
        local = Root(PurePosixPath(self.root), self.root, PLACEHOLDERS)
        self.engine = Engine(
            driver_name=DRIVER,
            pool_name=POOL,
            claims=self,
            hardware=lambda: Snapshot(self.inventory, self.devices),
            edits=DriverEdits(local, host=local, proc=self.root / "proc", sysfs=self.root / "sys"),
            records=RecordStore(self.path / "claims", boot_id="boot", files=Files(events)),
            specs=SpecStore(self.path / "cdi", DRIVER, files=Files(events)),
            metadata=MetadataStore(self.path / "metadata", DRIVER, files=Files(events)),
            sharing=NodeSharing(Programs(self.root, events), self.mps, ready_seconds=10),
        )
        self.engine.restore()
        return self.engine

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        return self.claims[name]

    def claim(self, name: str, *results: dict[str, Any], config: list[Any] | None = None) -> ClaimRef:
        defaults = {"request": "gpu", "driver": DRIVER, "pool": POOL, "device": self.gpus[0]}
        devices = {"results": [defaults | result for result in results or ({},)], "config": config or []}
        self.claims[name] = {
            "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}"},
            "status": {"allocation": {"devices": devices}},
        }
        return ClaimRef("team", name, f"uid-{name}")

    def spec(self, ref: ClaimRef) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(
            (self.path / "cdi" / f"k8s.{DRIVER}-claim_{ref.uid}.json").read_bytes()
        )
        return body

    def env(self, ref: ClaimRef, device: int = 0) -> dict[str, str]:
        """The environment that the claim's device adds, beside what all devices add."""
        env = self.spec(ref)["devices"][device]["containerEdits"].get("env", ())
        return dict(entry.split("=", 1) for entry in env)

    def state(self, what: str, gpu: int = 0) -> str:
        path = self.root / "simulated" / f"{what}.{self.inventory.gpus[gpu].uuid}"
        return path.read_text().strip() if path.exists() else "Default"

    def is_as_before(self) -> bool:
        """Whether nothing is set, runs, is mounted or is recorded."""
        mounts = Path("/proc/self/mountinfo").read_text()
        directories = [path for path in self.mps.iterdir() if path.is_dir()]
        files = [
            file
            for name in ("claims", "cdi", "metadata")
            if (self.path / name).exists()
            for file in (self.path / name).iterdir()
        ]
        settings = {self.state(what, gpu) for what in ("timeslice", "compute-mode") for gpu in range(8)}
        return not directories and not files and settings == {"Default"} and str(self.path) not in mounts


@pytest.fixture(scope="module")
def only_node() -> Iterator[Node]:
    path = Path(tempfile.mkdtemp(prefix="dra-"))
    node = Node(path)
    yield node
    node.supervisor.stop()
    for directory in node.mps.iterdir():
        clear_directory(DaemonDirectory(directory))
    shutil.rmtree(path)


@pytest.fixture
def node(only_node: Node) -> Iterator[Node]:
    only_node.start()
    yield only_node
    for path in (only_node.root / "simulated").glob("*.fault"):
        path.unlink()
    only_node.start()
    for name in list(only_node.claims):
        only_node.engine.unprepare(ClaimRef("team", name, f"uid-{name}"))
    only_node.claims.clear()
    assert only_node.is_as_before()
    (only_node.root / "simulated" / "nvidia-smi.log").unlink(missing_ok=True)


def sharing(strategy: str, *requests: str, kind: str = "GpuConfig", **config: Any) -> dict[str, Any]:
    """An entry of an allocation's configuration."""
    settings = {"strategy": strategy}
    field = {"TimeSlicing": "timeSlicingConfig", "MPS": "mpsConfig"}[strategy]
    parameters = {
        "apiVersion": API,
        "kind": kind,
        "sharing": settings | ({field: config} if config else {}),
    }
    opaque = {"driver": DRIVER, "parameters": parameters}
    return {"source": "FromClaim", "requests": list(requests), "opaque": opaque}


def share(number: int, gpu: str | None = None, memory: str | None = None, **fields: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"shareID": f"0000000{number}-0000-4000-8000-000000000000", **fields}
    result |= {"device": gpu} if gpu else {}
    return result | ({"consumedCapacity": {"memory": memory}} if memory else {})


LONG, SHORT, MPS = (
    sharing("TimeSlicing", interval="Long"),
    sharing("TimeSlicing", interval="Short"),
    sharing("MPS"),
)


def test_a_claim_without_settings_runs_no_program(node: Node) -> None:
    node.engine.prepare(node.claim("a"))

    assert not (node.root / "simulated" / "nvidia-smi.log").exists()


def test_two_claims_set_different_intervals_on_different_gpus_once_each(node: Node) -> None:
    a, b = node.claim("a", config=[LONG]), node.claim("b", {"device": node.gpus[1]}, config=[SHORT])
    for ref in (a, b, a, b):
        node.engine.prepare(ref)
    assert ("Long", "Short") == (node.state("timeslice", 0), node.state("timeslice", 1))
    for ref in (a, b):
        node.engine.unprepare(ref)

    log = (node.root / "simulated" / "nvidia-smi.log").read_text()
    assert ["Long", "Short", "Default", "Default"] == [line.split()[2] for line in log.splitlines()]


@pytest.mark.parametrize(
    ("config", "interval"),
    [
        ([{**LONG, "source": "FromClass"}, SHORT], "Short"),
        ([SHORT, LONG], "Long"),
        ([sharing("TimeSlicing", "gpu", interval="Medium"), LONG], "Long"),
        ([LONG, sharing("TimeSlicing", "gpu", interval="Medium")], "Medium"),
        ([LONG, sharing("TimeSlicing", "gpu/large", interval="Medium")], "Medium"),
        ([LONG, sharing("TimeSlicing", "other", interval="Medium")], "Long"),
        ([SHORT, SHORT, SHORT], "Short"),
        ([LONG, sharing("MPS", kind="MigDeviceConfig")], "Long"),
    ],
    ids=["claim over class", "later", "for all, later", "by name", "by sub-name", "other", "thrice", "type"],
)
def test_the_configuration_in_force_is_the_last_that_applies(
    node: Node, config: list[Any], interval: str
) -> None:
    node.engine.prepare(node.claim("a", {"request": "gpu/large"}, config=config))

    assert interval == node.state("timeslice")


def test_containers_become_clients_of_the_claims_daemon(node: Node) -> None:
    settings = sharing("MPS", defaultActiveThreadPercentage=30, defaultPinnedDeviceMemoryLimit="10Gi")
    ref = node.claim("a", {}, {"request": "two", "device": node.gpus[1]}, config=[settings])

    node.engine.prepare(ref)

    (directory,) = (path for path in node.mps.iterdir() if path.is_dir())
    assert {"/tmp/nvidia-mps"} == {node.env(ref, device)["CUDA_MPS_PIPE_DIRECTORY"] for device in (0, 1)}
    mounts = {
        m["containerPath"]: m["hostPath"] for m in node.spec(ref)["devices"][0]["containerEdits"]["mounts"]
    }
    assert (str(directory / "pipe"), str(directory / "shm")) == (
        mounts["/tmp/nvidia-mps"],
        mounts["/dev/shm"],
    )
    assert "30.0" == (directory / "pipe" / "threads").read_text().strip()
    assert {"Exclusive_Process"} == {node.state("compute-mode", gpu) for gpu in (0, 1)}


def test_a_daemon_survives_a_restart_of_the_plugin(node: Node) -> None:
    ref = node.claim("a", config=[MPS])
    before = node.engine.prepare(ref)
    (pid,) = node.mps.glob("*/pipe/*.pid")
    number = pid.read_text()

    node.start()

    assert (before, number) == (node.engine.prepare(ref), pid.read_text())


@pytest.mark.parametrize(
    ("first", "second", "theirs", "ours"),
    [
        ([LONG], [SHORT], "TimeSlicing with interval Long", "TimeSlicing with interval Short"),
        ([LONG], [MPS], "TimeSlicing with interval Long", "MPS"),
        ([MPS], [LONG], "MPS", "TimeSlicing with interval Long"),
        ([MPS], [], "MPS", "no sharing settings"),
        ([], [MPS], "no sharing settings", "MPS"),
        ([MPS], [sharing("MPS", defaultActiveThreadPercentage=5)], "MPS", r"MPS \(5 % of the threads\)"),
    ],
)
def test_the_second_of_two_claims_that_disagree_is_refused(
    node: Node, first: Any, second: Any, theirs: str, ours: str
) -> None:
    node.engine.prepare(node.claim("a", share(1), config=first))
    before = (node.state("timeslice"), node.state("compute-mode"))
    ref = node.claim("b", share(2), config=second)

    for engine in (
        node.engine,
        node.start(),
    ):  # also after a restart, which knows the settings from the records
        with pytest.raises(
            ConflictError,
            match=f"^device {node.gpus[0]} is shared with claim team/a, which has it with {theirs}, and claim "
            f"team/b asks for {ours};",
        ):
            engine.prepare(ref)

    assert before == (node.state("timeslice"), node.state("compute-mode"))


@pytest.mark.parametrize(("first", "second"), [([LONG], [LONG]), ([LONG], []), ([], [LONG]), ([MPS], [MPS])])
def test_claims_that_agree_share_a_gpu_until_the_last_one_ends(node: Node, first: Any, second: Any) -> None:
    claims = [node.claim(n, share(i), config=c) for i, (n, c) in enumerate([("a", first), ("b", second)])]
    for ref in claims:
        node.engine.prepare(ref)
    set_before = (node.state("timeslice"), node.state("compute-mode"))

    node.engine.unprepare(claims[0] if second else claims[1])

    assert set_before == (node.state("timeslice"), node.state("compute-mode"))


def test_daemons_of_two_claims_are_for_the_same_devices_or_for_none_of_them(node: Node) -> None:
    node.engine.prepare(node.claim("a", share(1), config=[MPS]))
    ref = node.claim("b", share(2), share(3, node.gpus[1], request="two"), config=[MPS])

    with pytest.raises(ConflictError, match=f"asks for MPS of {node.gpus[0]} and {node.gpus[1]} together"):
        node.engine.prepare(ref)


def test_admin_access_changes_nothing_and_disagrees_with_nobody(node: Node) -> None:
    node.engine.prepare(node.claim("a", share(1), config=[LONG]))
    ref = node.claim("b", {"adminAccess": True}, config=[MPS])

    node.engine.prepare(ref)

    assert ("Long", "Default") == (node.state("timeslice"), node.state("compute-mode"))
    assert ({}, []) == (node.env(ref), [path.name for path in node.mps.iterdir() if path.is_dir()])


def test_who_looks_on_is_no_client_of_the_daemon_that_the_same_claim_runs(node: Node) -> None:
    ref = node.claim("a", share(1), {"adminAccess": True, "request": "monitor"}, config=[MPS])

    node.engine.prepare(ref)

    assert ("/tmp/nvidia-mps", {}) == (node.env(ref)["CUDA_MPS_PIPE_DIRECTORY"], node.env(ref, 1))


def test_what_shares_consume_is_a_limit_of_their_containers_under_mps(node: Node) -> None:
    ref = node.claim("a", share(1, memory="10Gi"), share(2, memory="6Gi", request="two"), config=[MPS])

    node.engine.prepare(ref)

    assert "0=16384M" == node.env(ref)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]
    assert {True} == enforced(node, ref)


@pytest.mark.parametrize("config", [[], [LONG]])
def test_without_mps_what_shares_consume_is_marked_as_not_enforced(node: Node, config: Any) -> None:
    ref = node.claim("a", share(1, memory="10Gi"), config=config)

    node.engine.prepare(ref)

    assert {False} == enforced(node, ref)


@pytest.mark.parametrize("memory", ["0", None])
def test_shares_that_consume_no_memory_have_no_limit(node: Node, memory: str | None) -> None:
    ref = node.claim("a", share(1, memory=memory), config=[MPS])

    node.engine.prepare(ref)

    assert ["CUDA_MPS_PIPE_DIRECTORY"] == list(node.env(ref))
    assert set() == enforced(node, ref)


def enforced(node: Node, ref: ClaimRef) -> set[bool]:
    """What containers can read of it in their metadata."""
    found = set()
    for file in (node.path / "metadata").glob(f"{ref.uid}_*"):
        for line in file.read_text().splitlines():
            for request in json.loads(line)["requests"]:
                attributes = [device["attributes"] for device in request["devices"]]
                found |= {a["consumedMemoryEnforced"]["bool"] for a in attributes if "consumedMemory" in a}
    return found


def test_two_settings_for_one_device_in_a_claim_are_refused(node: Node) -> None:
    config = [sharing("MPS", "one"), sharing("TimeSlicing", "two")]
    ref = node.claim("a", share(1, request="one"), share(2, request="two"), config=config)

    with pytest.raises(
        ConfigError,
        match=f"device {node.gpus[0]} has MPS by request one, and TimeSlicing with .*distinctAttribute",
    ):
        node.engine.prepare(ref)


def test_an_unsupported_gpu_fails_the_claim_that_asked_and_no_other(node: Node) -> None:
    (node.root / "simulated" / "nvidia-smi.fault").write_text("unsupported")

    with pytest.raises(ClaimError, match=r"the time-slice of GPU .* cannot be set"):
        node.engine.prepare(node.claim("a", config=[LONG]))

    assert node.is_as_before()
    assert node.engine.prepare(node.claim("b"))


def test_a_claim_is_not_prepared_again_while_nobody_runs_its_daemon(node: Node) -> None:
    claim = node.claim("a", config=[MPS])
    node.engine.prepare(claim)
    node.supervisor.stop()

    with pytest.raises(
        HardwareError, match=r"supervisor of MPS daemons does not answer at .* mps-supervisor"
    ):
        node.engine.prepare(claim)

    node.supervisor = SupervisorProcess(node.mps, shm_bytes=1 << 20)
    node.supervisor.start()
    node.engine.prepare(claim)
    assert [claim.uid] == [held.claim_uid for held in node.engine.held()]


def test_a_daemon_that_is_never_ready_fails_the_claim_and_then_the_retry_succeeds(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node.root / "simulated" / "mps.fault").write_text("exit")
    ref = node.claim("a", config=[MPS])
    engine = node.start()
    monkeypatch.setattr(engine._planner._sharing, "_ready_seconds", 0.5)

    with pytest.raises(
        HardwareError, match=r"MPS daemon for GPU-.* does not get ready: .*initialization error"
    ):
        engine.prepare(ref)
    assert node.is_as_before()
    (node.root / "simulated" / "mps.fault").unlink()

    assert node.start().prepare(ref)


def test_waiting_for_a_daemon_holds_nobody_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    (node.root / "simulated" / "mps.fault").write_text("silent")
    monkeypatch.setattr(node.engine._planner._sharing, "_ready_seconds", 60.0)
    slow, other = node.claim("a", config=[MPS]), node.claim("b", {"device": node.gpus[1]}, config=[LONG])
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(node.engine.prepare, slow)
        while not list(node.mps.glob("*/pipe/devices")):
            assert not waiting.done()

        node.engine.prepare(other)
        node.engine.repair()
        node.engine.unprepare(other)

        assert not waiting.done()
        (node.root / "simulated" / "mps.fault").unlink()
        (control,) = node.mps.glob("*/pipe/control")
        control.write_text("quit\n")  # the supervisor starts it again, and now it answers
        assert waiting.result(20)


def test_nothing_is_set_for_a_claim_whose_second_gpu_is_gone(node: Node) -> None:
    inventory = node.inventory
    node.inventory = replace(inventory, gpus=(inventory.gpus[0], *inventory.gpus[2:]))

    with pytest.raises(HardwareError, match=rf"device {node.gpus[1]} .* is gone from the node"):
        node.engine.prepare(node.claim("a", {}, {"device": node.gpus[1]}, config=[LONG]))

    node.inventory = inventory
    assert not (node.root / "simulated" / "nvidia-smi.log").exists()


def test_a_mistake_in_the_second_entry_changes_nothing(node: Node) -> None:
    config = [sharing("TimeSlicing", "gpu", interval="Long"), sharing("MPS", "two", unknown=1)]
    ref = node.claim("a", {}, {"request": "two", "device": node.gpus[1]}, config=config)

    with pytest.raises(ConfigError, match=r"config\[1\].*mpsConfig has no field 'unknown'"):
        node.engine.prepare(ref)

    assert node.is_as_before()


def events_of(node: Node, ref: ClaimRef) -> tuple[int, int]:
    """How many events preparing a claim is, and unpreparing it after that, on a node where all directories are made."""
    node.engine.prepare(ref)
    node.engine.unprepare(ref)
    events = Events()
    engine = node.start(events)
    begin = len(events.names)
    engine.prepare(ref)
    prepared = len(events.names)
    engine.unprepare(ref)
    return prepared - begin, len(events.names) - prepared


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("config", [LONG, MPS], ids=["time-slicing", "MPS"])
def test_killed_anywhere_the_node_ends_where_the_records_say(node: Node, config: Any, after: bool) -> None:
    ref = node.claim("a", config=[config])
    to_prepare, to_undo = events_of(node, ref)

    for number in range(to_prepare + to_undo):
        engine = node.start(Events(number + idle_events(node), after=after))
        with pytest.raises(KilledError):
            prepare_and_unprepare(engine, ref)
        held = node.start().held()
        if held:
            assert node.engine.prepare(ref)
            node.engine.unprepare(ref)
        assert node.is_as_before(), number


class ChangedEvents(Events):
    """GPUs 0 and 1 swap their minor numbers, and claims are repaired for that, right before one of them."""

    def __init__(self, node: Node, number: int) -> None:
        super().__init__()
        self.node, self.number = node, number

    def do(self, name: str, action: Callable[[], Any]) -> Any:
        if len(self.names) == self.number:
            first, second, *others = self.node.inventory.gpus
            swapped = replace(first, minor=second.minor), replace(second, minor=first.minor)
            self.node.inventory = replace(self.node.inventory, gpus=(*swapped, *others))
            for gpu in swapped:
                file = self.node.root / "proc/driver/nvidia/gpus" / gpu.pci_address / "information"
                file.write_text(f"Device Minor: \t {gpu.minor}\n")
            self.node.engine.repair()
        return super().do(name, action)


@pytest.mark.parametrize("config", [[], [LONG]], ids=["plain", "time-slicing"])
def test_a_spec_is_of_the_gpu_as_it_is_whenever_it_changes_while_the_claim_is_prepared(
    node: Node, config: list[Any]
) -> None:
    ref = node.claim("a", config=config)
    to_prepare, _ = events_of(node, ref)
    idle = idle_events(node)

    for number in range(to_prepare):
        node.start(ChangedEvents(node, idle + number)).prepare(ref)

        (path,) = (
            path
            for edit in node.spec(ref)["devices"][0]["containerEdits"]["deviceNodes"]
            if (path := edit["path"]).removeprefix("/dev/nvidia").isdecimal()
        )
        assert f"/dev/nvidia{node.inventory.gpus[0].minor}" == path, number
        node.start().unprepare(ref)


def prepare_and_unprepare(engine: Engine, ref: ClaimRef) -> None:
    engine.prepare(ref)
    engine.unprepare(ref)


def idle_events(node: Node) -> int:
    """What a start does on a node that is as before."""
    events = Events()
    node.start(events)
    return len(events.names)

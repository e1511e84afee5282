"""A simulated driver root with its nvidia-smi and MPS control program, and steps that are run as the engine does."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dra_driver.devices.model import Target
from dra_driver.inventory.driver_root import make_driver_root
from dra_driver.inventory.profile import load_profile
from dra_driver.sharing.group import Member
from dra_driver.sharing.keeper import clear_directory
from dra_driver.sharing.programs import DriverPrograms
from dra_driver.sharing.sharing import NodeSharing
from dra_driver.sharing.supervision import DaemonDirectory
from dra_driver.sharing.supervisor import SupervisorProcess
from dra_driver.steps import OtherStep, Step, StepResult


@dataclass
class DriverRoot:
    """The root of a node with eight H100, and what its fake programs keep in files."""

    path: Path
    uuids: tuple[str, ...]

    @property
    def programs(self) -> DriverPrograms:
        return DriverPrograms(lambda: self.path, simulated=True)

    def fault(self, program: str, what: str) -> None:
        (self.path / "simulated" / f"{program}.fault").write_text(what)

    def mend(self, program: str) -> None:
        (self.path / "simulated" / f"{program}.fault").unlink()

    def state(self, what: str, gpu: int = 0) -> str:
        """What nvidia-smi was told last: "compute-mode" or "timeslice"; "" for never."""
        path = self.path / "simulated" / f"{what}.{self.uuids[gpu]}"
        return path.read_text().strip() if path.exists() else ""

    def calls(self) -> list[str]:
        """What was changed with nvidia-smi, without the UUIDs."""
        path = self.path / "simulated" / "nvidia-smi.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [" ".join(line.split()[::2]) for line in lines]

    def member(self, gpu: int = 0, **fields: Any) -> Member:
        uuid = self.uuids[gpu]
        return Member(f"gpu-{gpu}", Target("gpu", uuid, uuid, f"0000:0{gpu}:00.0"), **fields)


@dataclass
class Records:
    """Claims with the states that their steps saved, and those steps run and undone in order."""

    sharing: NodeSharing
    states: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)  # by claim and kind

    def others(self, claim: str, kind: str) -> list[OtherStep]:
        return [
            OtherStep(name, states[kind])
            for name, states in self.states.items()
            if name != claim and kind in states
        ]

    def do(self, claim: str, steps: list[Step], done: StepResult | None = None) -> None:
        mine = self.states.setdefault(claim, {})
        for step in steps:

            def save(state: Mapping[str, Any], kind: str = step.kind) -> None:
                mine[kind] = state

            step.do(save, self.others(claim, step.kind), done or StepResult())

    def undo(self, claim: str) -> None:
        for kind, state in reversed(list(self.states[claim].items())):
            self.sharing.kinds[kind].undo(state, self.others(claim, kind))
            del self.states[claim][kind]
        del self.states[claim]


@pytest.fixture(scope="session")
def made_root(tmp_path_factory: pytest.TempPathFactory) -> DriverRoot:
    path = tmp_path_factory.mktemp("driver") / "root"
    profile = load_profile("dgx-h100")
    make_driver_root(profile, path, node_name="node-a", device_nodes=False)
    return DriverRoot(path, tuple(gpu.uuid for gpu in profile.gpus_on("node-a")))


@pytest.fixture
def root(made_root: DriverRoot) -> Iterator[DriverRoot]:
    yield made_root
    for path in (made_root.path / "simulated").iterdir():
        path.unlink()


@pytest.fixture
def mps_directory() -> Iterator[Path]:
    """Short, for the paths of sockets."""
    path = Path(tempfile.mkdtemp(prefix="dra-"))
    yield path / "mps"
    for directory in (path / "mps").glob("*"):
        clear_directory(DaemonDirectory(directory))
    shutil.rmtree(path)


@pytest.fixture
def sharing(root: DriverRoot, mps_directory: Path) -> NodeSharing:
    return NodeSharing(root.programs, mps_directory, ready_seconds=60)


@pytest.fixture
def records(sharing: NodeSharing) -> Records:
    return Records(sharing)


@pytest.fixture
def supervise(mps_directory: Path) -> Iterator[Callable[[], SupervisorProcess]]:
    """Start a supervisor; all are stopped at the end."""
    running: list[SupervisorProcess] = []

    def start() -> SupervisorProcess:
        process = SupervisorProcess(mps_directory, shm_bytes=1 << 20)
        running.append(process)
        process.start()
        return process

    yield start
    for process in running:
        process.stop()

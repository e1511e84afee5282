"""Real container runtimes, and a node whose claims they consume."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runtime.containerd import IMAGE, Containerd
from tests.runtime.cri import Cri, Pod
from tests.runtime.gpu_node import GpuNode

NewNode = Callable[[str], GpuNode]


def _run(release: str) -> Iterator[Containerd]:
    directory = Path(tempfile.mkdtemp(prefix="dra-"))  # short, for the sockets below it
    try:
        with Containerd(release, directory).running() as containerd:
            yield containerd
        assert str(directory) not in Path("/proc/mounts").read_text()
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def containerd_2() -> Iterator[Containerd]:
    yield from _run("containerd-2")


@pytest.fixture(scope="session")
def containerd_1() -> Iterator[Containerd]:
    yield from _run("containerd-1.7")


@pytest.fixture(params=["containerd_1", "containerd_2"])
def containerd(request: pytest.FixtureRequest) -> Containerd:
    """Each of the two in turn."""
    running: Containerd = request.getfixturevalue(request.param)
    return running


@pytest.fixture
def cri(containerd: Containerd) -> Iterator[Cri]:
    client = Cri(containerd.socket)
    yield client
    client.close()


@pytest.fixture
def pod(containerd: Containerd, cri: Cri, request: pytest.FixtureRequest) -> Iterator[Pod]:
    """An empty Pod."""
    pod = Pod(cri, name=request.node.name, image=IMAGE, cgroup_parent=f"/{containerd.group}")
    yield pod
    pod.remove()


def _node_maker(containerd: Containerd, directory: Path) -> Iterator[NewNode]:
    yield lambda profile: GpuNode(profile, directory, containerd.cdi_dir)
    for spec in containerd.cdi_dir.iterdir():
        spec.unlink()


@pytest.fixture
def new_node(containerd: Containerd, tmp_path: Path) -> Iterator[NewNode]:
    """Makes the node of a profile, by name or path; its CDI directory is the runtime's."""
    yield from _node_maker(containerd, tmp_path)


@pytest.fixture
def node(new_node: NewNode) -> GpuNode:
    """Four L40S."""
    return new_node("l40s")


@pytest.fixture
def node_of_ctr(containerd_2: Containerd, tmp_path: Path) -> Iterator[GpuNode]:
    """The same, for containerd 2 alone, whose `ctr` knows CDI."""
    for new_node in _node_maker(containerd_2, tmp_path):
        yield new_node("l40s")

"""The mode with nvidia-cdi-hook: the runtime calls the program as the spec says, at a time when that has an effect.

The program here stands in for NVIDIA's: it makes links as that does, and notes how it was called.
"""

import json
import sys
from pathlib import Path, PurePosixPath

import pytest

from dra_driver.cdi.edits import DriverEdits
from dra_driver.cdi.root import HOST, Root
from tests.runtime.cri import Pod
from tests.runtime.gpu_node import GpuNode

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_PROGRAM = """\
# create-symlinks enable-cuda-compat update-ldcache disable-device-node-modification update-application-profile
import json, pathlib, sys

bundle = pathlib.Path(json.load(sys.stdin)["bundle"])
root = bundle / json.loads((bundle / "config.json").read_text())["root"]["path"]
command, *arguments = sys.argv[1:]
with open(sys.argv[0] + ".calls", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if command == "create-symlinks":
    for link in arguments[1::2]:
        target, _, path = link.partition("::")
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)
"""
_LIBRARIES = "/usr/lib/x86_64-linux-gnu"


class HookProgram:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "nvidia-cdi-hook"
        self.path.write_text(f"#!{sys.executable}\n{_PROGRAM}")
        self.path.chmod(0o755)

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in Path(f"{self.path}.calls").read_text().splitlines()]


@pytest.fixture
def hook(node: GpuNode, tmp_path: Path) -> HookProgram:
    """A hook program on the host, which `node` knows of."""
    program = HookProgram(tmp_path)
    root = node.driver_root
    driver = Root(PurePosixPath(root), root)
    node.start(
        lambda: DriverEdits(
            driver, host=HOST, proc=root / "proc", sysfs=root / "sys", hook_path=str(program.path)
        )
    )
    return program


def test_libraries_get_their_names_from_links(node: GpuNode, pod: Pod, hook: HookProgram) -> None:
    container = pod.start(node.prepare("a", node.gpu(0)))

    assert "libcuda.so.1\n" == container.run(f"readlink {_LIBRARIES}/libcuda.so")
    assert "libcuda.so.580.95.05\n" == container.run(f"readlink {_LIBRARIES}/libcuda.so.1")
    assert "\x7fELF" == container.run(f"head -c4 {_LIBRARIES}/libcuda.so")
    assert "none\n" == container.run("ls /usr/lib64 2>/dev/null || echo none")


def test_a_container_of_two_claims_has_the_links_of_both(node: GpuNode, pod: Pod, hook: HookProgram) -> None:
    container = pod.start([*node.prepare("a", node.gpu(0)), *node.prepare("b", node.gpu(2))])

    links = [f"/dev/dri/by-path/pci-{node.gpus[i].pci_address}-card" for i in (0, 2)]
    links.append(f"{_LIBRARIES}/libcuda.so.1")

    expected = ["/dev/dri/card0", "/dev/dri/card2", f"{_LIBRARIES}/libcuda.so.580.95.05"]
    assert expected == container.run(f"printf '%s\\n' {' '.join(links)} | xargs -n1 readlink -f").split()


def test_drm_nodes_can_be_found_by_the_place_of_their_gpu(node: GpuNode, pod: Pod, hook: HookProgram) -> None:
    container = pod.start(node.prepare("a", node.gpu(2)))

    place = f"/dev/dri/by-path/pci-{node.gpus[2].pci_address}"

    assert "/dev/dri/card2\n" == container.run(f"readlink -f {place}-card")
    assert "/dev/dri/renderD130\n" == container.run(f"readlink -f {place}-render")


def test_the_program_is_called_for_the_loaders_cache_and_cudas_compatibility(
    node: GpuNode, pod: Pod, hook: HookProgram
) -> None:
    pod.start(node.prepare("a", node.gpu(0)))

    calls = {command: arguments for command, *arguments in hook.calls()}
    assert ["--host-driver-version=580.95.05"] == calls["enable-cuda-compat"]
    assert ["--folder", _LIBRARIES] == calls["update-ldcache"][:2]
    assert [] == calls["disable-device-node-modification"] == calls["update-application-profile"]

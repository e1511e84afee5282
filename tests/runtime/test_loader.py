"""Without hooks and without a cache, the loader of a container finds the driver's libraries where they are mounted."""

import os

import pytest

from dra_driver.cdi.spec import CdiDevice, ContainerEdits, Mount, Spec
from tests.runtime.containerd import Containerd
from tests.runtime.cri import Pod
from tests.runtime.gpu_node import GpuNode

pytestmark = [
    pytest.mark.root,
    pytest.mark.runtime,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the simulated node has libraries for x86_64"),
]

_LOADER = "/lib64/ld-linux-x86-64.so.2"
# Of this machine, a Debian: what any image with glibc has.
_GLIBC = {
    _LOADER: _LOADER,
    "/lib/x86_64-linux-gnu/libc.so.6": "/lib/x86_64-linux-gnu/libc.so.6",
    "/bin/true": "/bin/dynamic",
}
_FILES = Spec(
    "test.example/glibc",
    (
        CdiDevice(
            "all",
            ContainerEdits(
                mounts=tuple(Mount(os.path.realpath(a), b, ("ro", "rbind")) for a, b in _GLIBC.items())
            ),
        ),
    ),
)


def test_a_programs_loader_finds_them_by_every_name(containerd: Containerd, node: GpuNode, pod: Pod) -> None:
    (containerd.cdi_dir / "glibc.json").write_bytes(_FILES.to_json())
    container = pod.start([*node.prepare("a", node.gpu(0)), "test.example/glibc=all"])
    names = [
        "libcuda.so",
        "libcuda.so.1",
        "libnvidia-ml.so.1",
        "libnvidia-ptxjitcompiler.so.1",
        "libEGL_nvidia.so.0",
    ]

    said = container.run(f"LD_PRELOAD={':'.join([*names, 'libother.so'])} {_LOADER} --list /bin/dynamic")

    # Simulated libraries are of no ABI, which the loader says of what it has found.
    reasons = [line.partition("preloaded ")[2] for line in said.splitlines() if "LD_PRELOAD" in line]
    found, missing = "(ELF file OS ABI invalid): ignored.", "(cannot open shared object file): ignored."
    assert [*[found] * len(names), missing] == reasons

"""Both runtimes read the specs of every version that this driver writes, and do what they say."""

import pytest

from dra_driver.cdi.spec import CdiDevice, ContainerEdits, DeviceNode, Spec
from tests.runtime.containerd import Containerd
from tests.runtime.cri import Pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_KIND = "k8s.gpu.nvidia.com/claim"
_ENV = ContainerEdits(env=("FROM_SPEC=yes",))
_NODE = ContainerEdits(device_nodes=(DeviceNode("/dev/from-spec", host_path="/dev/zero"),))
_GROUP = ContainerEdits(additional_gids=(44201,))
_SPECS = {
    "0.3.0": (Spec(_KIND, (CdiDevice("a", _ENV),)), "echo $FROM_SPEC", "yes"),
    "0.5.0": (Spec(_KIND, (CdiDevice("a", _NODE),)), "stat -c %t:%T /dev/from-spec", "1:5"),
    "0.7.0": (Spec(_KIND, (CdiDevice("a", _GROUP),)), "id -G", "0 44201"),
}


@pytest.mark.parametrize("version", _SPECS)
def test_a_spec_of_every_version_is_understood(containerd: Containerd, pod: Pod, version: str) -> None:
    spec, script, expected = _SPECS[version]
    file = containerd.cdi_dir / "version.json"
    file.write_bytes(spec.to_json())
    try:
        container = pod.start([f"{_KIND}=a"])
    finally:
        file.unlink()

    assert version == spec.as_dict()["cdiVersion"]
    assert f"{expected}\n" == container.run(script)

"""Sharing as the device plugin was told of it, as a node configuration and classes."""

from pathlib import Path

import pytest
import yaml

from dra_driver.cli.convert import run
from dra_driver.config.device_plugin import Conversion, convert
from dra_driver.config.node import GpuEntry, MigMode, NodeConfig, load
from dra_driver.config.opaque import decode
from dra_driver.config.settings import Mps
from dra_driver.devices.build import build_devices
from dra_driver.errors import UsageError
from dra_driver.inventory.document import parse
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.resource.validation import validate
from dra_driver.selectors.device import device_value
from dra_driver.selectors.selector import selector


def converted(text: str) -> Conversion:
    return convert(parse(text.encode(), "config.yaml"))


def sharing(strategy: str, *lines: str, **more: str) -> str:
    head = ["version: v1", "flags: {migStrategy: none}", "sharing:", f"  {strategy}:"]
    head += [f"    {key}: {value}" for key, value in more.items()]
    return "\n".join([*head, "    resources:", *(f"    - {line}" for line in lines)])


REPLICAS = sharing("timeSlicing", "{name: nvidia.com/gpu, replicas: 8}")


def test_eight_replicas_are_eight_shares_of_every_gpu(tmp_path: Path) -> None:
    found = converted(REPLICAS)
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(found.node))

    assert 8 == load(path).of(load_profile("l4").gpus_on("n")[0]).shares
    assert ((), ()) == (found.classes, found.remarks)


def test_a_renamed_resource_has_a_class_of_its_own_for_the_old_name() -> None:
    text = sharing("timeSlicing", "{name: nvidia.com/gpu, replicas: 4}", renameByDefault="true")
    (found,) = converted(text).classes

    assert ("shared.gpu.nvidia.com", "nvidia.com/gpu.shared") == (
        found["metadata"]["name"],
        found["spec"]["extendedResourceName"],
    )


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"])
def test_mps_is_configured_by_the_class(name: str) -> None:
    (found,) = converted(sharing("mps", f"{{name: {name}, replicas: 4}}")).classes
    (config,) = found["spec"]["config"]

    assert [] == validate(found)
    setting = decode(config["opaque"]["parameters"], "parameters").sharing
    assert isinstance(setting, Mps)
    assert 25 == setting.threads


def test_each_kind_of_mig_device_has_a_class_of_its_own() -> None:
    profiles = {
        "mig-1g.5gb": "1g.5gb",
        "mig-1g.5gb.me": "1g.5gb+me",
        "mig-7g.96gb.me.all": "7g.96gb+me.all",
        "nvidia.com/mig-1g.24gb-me": "1g.24gb-me",
    }
    found = converted(sharing("timeSlicing", *(f"{{name: {name}, replicas: 2}}" for name in profiles)))

    names = [name.removeprefix("nvidia.com/") for name in profiles]
    assert [f"{name}.nvidia.com" for name in names] == [each["metadata"]["name"] for each in found.classes]
    for name, profile, body in zip(names, profiles.values(), found.classes, strict=True):
        assert [] == validate(body)
        assert f"nvidia.com/{name}" == body["spec"]["extendedResourceName"]
        (found_selector,) = body["spec"]["selectors"]
        assert f".profile == '{profile}' &&" in found_selector["cel"]["expression"]


def test_a_class_of_mig_devices_takes_their_profile_alone() -> None:
    (found,) = converted(sharing("timeSlicing", "{name: mig-1g.10gb.me, replicas: 2}")).classes
    wanted = selector(found["spec"]["selectors"][0]["cel"]["expression"])
    devices = build_devices(
        SimulatedBackend(load_profile("dgx-h100"), "n").scan(),
        node=NodeConfig(MigMode.DYNAMIC, (GpuEntry(shares=2),)),
    )

    matching = [
        device for device in devices if wanted.matches(device_value("gpu.nvidia.com", device.published))
    ]

    assert {"1g.10gb+me"} == {device.attributes["profile"] for device in matching}


def test_one_gpu_has_the_shares_of_one_entry() -> None:
    found = converted(
        sharing(
            "timeSlicing",
            "{name: gpu, replicas: 4}",
            "{name: gpu, replicas: 3}",
            "{name: gpu, replicas: 2, devices: [GPU-1, GPU-1]}",
        )
    )

    assert [{"uuid": "GPU-1", "shares": 2}, {"shares": 4}] == found.node["gpus"]
    assert ("nvidia.com/gpu: a GPU has the 4 shares of an entry before, not 3",) == found.remarks


def test_a_class_is_there_once() -> None:
    entries = ("{name: gpu, replicas: 4, devices: [GPU-1]}", "{name: gpu, replicas: 2, devices: [GPU-2]}")
    found = converted(sharing("mps", *entries))

    assert 1 == len(found.classes)
    assert "class gpu.nvidia.com: it is as the first entry for its resource says" in found.remarks


def test_mps_goes_before_time_slicing_and_empty_sections_are_none() -> None:
    mps = sharing("mps", "{name: nvidia.com/gpu, replicas: 4}")
    slicing = "  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 8}]"
    both, one = converted(f"{mps}\n{slicing}"), converted(f"{mps}\n  timeSlicing: null")

    assert [{"shares": 4}] == both.node["gpus"] == one.node["gpus"]
    assert ["timeSlicing"] == [text.split(":")[0] for text in set(both.remarks) - set(one.remarks)]


def test_devices_are_named_by_uuid_and_others_are_told() -> None:
    found = converted(
        sharing("timeSlicing", "{name: nvidia.com/gpu, replicas: 2, devices: [GPU-1, 0, '0:1']}")
    )

    assert [{"uuid": "GPU-1", "shares": 2}] == found.node["gpus"]
    assert 2 == len(found.remarks)


def test_what_differs_is_told() -> None:
    text = sharing(
        "timeSlicing", "{name: nvidia.com/mig-1g.5gb, replicas: 2}", failRequestsGreaterThanOne="true"
    )

    assert ["timeSlicing", "nvidia"] == [remark[:11].split(".")[0] for remark in converted(text).remarks]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: v1\n", "line 1: expected sharing.timeSlicing.resources or sharing.mps.resources"),
        (sharing("timeSlicing", "{name: nvidia.com/gpu}"), "line 6, .*: the key 'replicas' is missing"),
        (
            sharing("timeSlicing", "{name: nvidia.com/gpu, replicas: 0}"),
            "expected a number of replicas from 1",
        ),
        (sharing("timeSlicing", "{name: amd.com/gpu, replicas: 2}"), "expected nvidia.com/gpu or"),
        (sharing("timeSlicing", "{name: mig-1c.2g.10gb, replicas: 2}"), "expected nvidia.com/gpu or"),
        (sharing("timeSlicing", "{name: gpu, replicas: 2, rename: A b}"), "expected the name of a resource"),
        (sharing("timeSlicing", "{name: gpu, replicas: 2, devices: [GPU-_]}"), "expected the UUID of a GPU"),
        ("sharing: null", "expected sharing.timeSlicing.resources"),
        ("kind: ConfigMap\ndata: {any: 'version: v1'}", "a ConfigMap is not the configuration itself"),
        (sharing("timeSlicing", "{name: nvidia.com/gpu, replica: 2}"), "unknown key 'replica'"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        converted(text)


def test_the_command_prints_yaml_and_remarks_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dp.yaml"
    path.write_text(sharing("mps", "{name: nvidia.com/gpu, replicas: 4, devices: [0]}"))

    assert 0 == run(str(path))
    printed = capsys.readouterr()
    assert ["NodeConfig", "DeviceClass"] == [d["kind"] for d in yaml.safe_load_all(printed.out)]
    assert "remark: nvidia.com/gpu: devices: 0 is left out" in printed.err


def test_the_command_needs_a_file() -> None:
    with pytest.raises(UsageError, match="does not exist"):
        run("/no/such/file")

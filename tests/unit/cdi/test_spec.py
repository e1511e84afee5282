"""What a spec looks like, and the version it needs."""

import json
from typing import Any

import pytest

from dra_driver.cdi.spec import CdiDevice, ContainerEdits, DeviceNode, Hook, Mount, Spec
from dra_driver.cdi.validate import validate
from dra_driver.cdi.versions import minimum_version

NODE = ContainerEdits(device_nodes=(DeviceNode("/dev/nvidia0"),))


def spec(**changes: Any) -> Spec:
    fields: dict[str, Any] = {"kind": "nvidia.com/gpu", "devices": (CdiDevice("gpu0", NODE),), **changes}
    return Spec(**fields)


CASES: dict[str, tuple[Spec, str]] = {
    "plain": (spec(), "0.3.0"),
    "digit": (spec(devices=(CdiDevice("0", NODE),)), "0.5.0"),
    "host path": (spec(edits=ContainerEdits(device_nodes=(DeviceNode("/dev/a", "/x/dev/a"),))), "0.5.0"),
    "dot in class": (spec(kind="nvidia.com/gpu.shared"), "0.6.0"),
    "additional group": (spec(edits=ContainerEdits(additional_gids=(44,))), "0.7.0"),
    "group beside a digit": (
        spec(devices=(CdiDevice("0", ContainerEdits(additional_gids=(44,))),)),
        "0.7.0",
    ),
    "hooks need nothing": (spec(edits=ContainerEdits(hooks=(Hook("createContainer", "/h"),))), "0.3.0"),
}


@pytest.mark.parametrize(("written", "version"), CASES.values(), ids=CASES)
def test_the_version_is_the_lowest_that_can_say_it(written: Spec, version: str) -> None:
    assert written.as_dict()["cdiVersion"] == version


@pytest.mark.parametrize("written", [case for case, _ in CASES.values()], ids=CASES)
def test_what_is_written_is_valid(written: Spec) -> None:
    assert validate(json.loads(written.to_json())) == []


@pytest.mark.parametrize(
    ("edits", "version"),
    [
        ({"mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "tmpfs"}]}, "0.4.0"),
        ({"intelRdt": {"closID": "x"}}, "0.7.0"),
        ({"intelRdt": {"schemata": ["L3:0=f"]}}, "1.1.0"),
        ({"intelRdt": {"enableMonitoring": True}}, "1.1.0"),
        ({"netDevices": [{"hostInterfaceName": "eth0", "name": "net0"}]}, "1.1.0"),
    ],
)
def test_versions_of_what_only_others_write(edits: dict[str, Any], version: str) -> None:
    body = {"kind": "a/b", "devices": [{"name": "a", "containerEdits": edits}]}

    assert minimum_version(body) == version


@pytest.mark.parametrize("place", ["spec", "device"])
def test_others_write_annotations(place: str) -> None:
    device: dict[str, Any] = {"name": "a", "containerEdits": {"env": ["A=B"]}}
    body: dict[str, Any] = {"kind": "a/b", "devices": [device]}
    (body if place == "spec" else device)["annotations"] = {"a": "b"}

    assert minimum_version(body) == "0.6.0"


def test_all_fields_are_written_under_their_names_and_absent_ones_are_not() -> None:
    edits = ContainerEdits(
        env=("A=B",),
        device_nodes=(DeviceNode("/dev/a", "/h/a", "c", 1, 2, 0o666, 4),),
        mounts=(Mount("/h", "/c", ("ro",)),),
        hooks=(Hook("createContainer", "/hook", ("hook", "x"), ("C=D",)),),
        additional_gids=(44,),
    )

    assert edits.as_dict() == {
        "env": ["A=B"],
        "deviceNodes": [
            {
                "path": "/dev/a",
                "hostPath": "/h/a",
                "type": "c",
                "major": 1,
                "minor": 2,
                "fileMode": 438,
                "gid": 4,
            }
        ],
        "mounts": [{"hostPath": "/h", "containerPath": "/c", "options": ["ro"]}],
        "hooks": [
            {
                "hookName": "createContainer",
                "path": "/hook",
                "args": ["hook", "x"],
                "env": ["C=D"],
            }
        ],
        "additionalGids": [44],
    }


def test_edits_add_up_in_order() -> None:
    both = ContainerEdits(env=("A=1",)) + ContainerEdits(env=("B=2",), device_nodes=(DeviceNode("/dev/a"),))

    assert both == ContainerEdits(env=("A=1", "B=2"), device_nodes=(DeviceNode("/dev/a"),))


def test_edits_are_false_when_they_change_nothing() -> None:
    assert (bool(ContainerEdits()), bool(NODE)) == (False, True)

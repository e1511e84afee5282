"""What a container has of its CDI devices."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.kubelet.containers import ContainerView, DeviceNode, Hook, Mount, Runtime
from dra_driver.embedded.kubelet.errors import CreateContainerError, RunContainerError


def make(
    tmp_path: Path,
    *edits: dict[str, Any],
    common: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
    **options: Any,
) -> ContainerView:
    """A container with one device per element of `edits`, all in one spec file."""
    devices = [{"name": f"d{i}", "containerEdits": edit} for i, edit in enumerate(edits)]
    body = {
        "cdiVersion": "1.0.0",
        "kind": "vendor.com/gpu",
        "devices": devices,
        "containerEdits": common or {},
    }
    (tmp_path / "spec.json").write_text(json.dumps(body))
    ids = [f"vendor.com/gpu={device['name']}" for device in devices]
    return Runtime([tmp_path], **options).create(container or {"name": "main"}, ids)


def node(path: str, **fields: Any) -> dict[str, Any]:
    return {"deviceNodes": [{"path": path, **fields}]}


def test_edits_of_a_file_come_once_and_before_those_of_its_devices(tmp_path: Path) -> None:
    hook = {"hookName": "createContainer", "path": "/bin/sh"}
    common = {"env": ["WHO=file"], "hooks": [{**hook, "args": ["common"]}]}

    view = make(
        tmp_path, {"hooks": [{**hook, "args": ["0"]}]}, {"hooks": [hook], "env": ["WHO=1"]}, common=common
    )

    hooks = [Hook("createContainer", "/bin/sh", args, ()) for args in (("common",), ("0",), ())]
    assert (hooks, {"WHO": "1"}) == (list(view.hooks), view.env)


def test_an_environment_variable_of_the_image_or_pod_is_replaced(tmp_path: Path) -> None:
    container = {"name": "main", "env": [{"name": "A", "value": "pod"}, {"name": "B", "value": "pod"}]}

    view = make(tmp_path, {"env": ["A=cdi=x"]}, container=container)

    assert {"A": "cdi=x", "B": "pod"} == view.env


def test_numbers_of_a_device_node_are_those_of_the_host_path_now(tmp_path: Path) -> None:
    view = make(tmp_path, node("/dev/nvidia0", hostPath="/dev/null", permissions="rw"))

    assert (DeviceNode("/dev/nvidia0", "/dev/null", "c", 1, 3),) == view.device_nodes


def test_a_device_node_with_type_and_major_need_not_exist_on_the_host(tmp_path: Path) -> None:
    view = make(tmp_path, node("/dev/none", type="c", major=240, minor=7))

    assert (DeviceNode("/dev/none", "/dev/none", "c", 240, 7),) == view.device_nodes


def test_a_later_device_node_replaces_one_of_the_same_path(tmp_path: Path) -> None:
    view = make(
        tmp_path,
        node("/dev/a", hostPath="/dev/null"),
        node("/dev/b", hostPath="/dev/null"),
        node("/dev/a", hostPath="/dev/zero"),
    )

    assert [("/dev/b", "/dev/null"), ("/dev/a", "/dev/zero")] == [
        (n.path, n.host_path) for n in view.device_nodes
    ]


def _stat_text(path: Path, reason: str) -> str:
    return f'failed to stat CDI host device "{path}": {reason}'


def test_a_device_node_that_is_missing_on_the_host_fails_the_container(tmp_path: Path) -> None:
    with pytest.raises(CreateContainerError) as raised:
        make(tmp_path, node("/dev/x", hostPath=str(tmp_path / "none")))

    prefix = "failed to create containerd container: CDI device injection failed: failed to inject devices: "
    assert prefix + _stat_text(tmp_path / "none", "no such file or directory") == str(raised.value)


@pytest.mark.parametrize("placeholders", [False, True])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_no_device_node_fails_the_container(tmp_path: Path, kind: str, placeholders: bool) -> None:
    path = tmp_path / "thing"
    if kind == "file":
        path.write_text("not empty")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/null")  # the library does not follow links

    with pytest.raises(CreateContainerError, match=_stat_text(path, "not a device node").replace("(", r"\(")):
        make(tmp_path, node("/dev/x", hostPath=str(path)), placeholders=placeholders)


def test_an_empty_file_stands_for_a_device_node_only_where_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    edits = node("/dev/nvidia0", hostPath=str(tmp_path / "nvidia0"))

    (found,) = make(tmp_path, edits, placeholders=True).device_nodes
    with pytest.raises(CreateContainerError, match="not a device node"):
        make(tmp_path, edits)

    assert ("c", None, None) == (found.type, found.major, found.minor)


def test_a_node_of_another_type_than_the_spec_says_fails_the_container(tmp_path: Path) -> None:
    with pytest.raises(CreateContainerError, match=r'\("/dev/x", "/dev/null"\), host type mismatch \(b, c\)'):
        make(tmp_path, node("/dev/x", hostPath="/dev/null", type="b"))


def test_a_fifo_has_no_numbers(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    (found,) = make(tmp_path, node("/dev/fifo", hostPath=str(tmp_path / "fifo"))).device_nodes

    assert ("p", 0, 0) == (found.type, found.major, found.minor)


def test_mounts_are_sorted_by_depth_and_later_ones_replace_those_of_the_same_place(tmp_path: Path) -> None:
    def mount(path: str, **fields: Any) -> dict[str, Any]:
        return {"hostPath": str(tmp_path), "containerPath": path, "options": ["rbind"], **fields}

    first = {"mounts": [mount("/a/b/c"), mount("/z/"), mount("/a/b")]}
    second = {"mounts": [mount("/a/b", options=["ro", "bind"], type="bind")]}

    mounts = make(tmp_path, first, second).mounts

    assert ["/z/", "/a/b", "/a/b/c"] == [m.container_path for m in mounts]
    assert Mount(str(tmp_path), "/a/b", "bind", ("ro", "bind")) == mounts[1]


START = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: "
)


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        (
            {"mounts": [{"hostPath": "/no/such", "containerPath": "/x", "options": ["ro", "bind"]}]},
            "failed to fulfil mount request: open /no/such: no such file or directory",
        ),
        (
            {"mounts": [{"hostPath": "/etc/passwd", "containerPath": "/x", "options": ["ro"]}]},
            'error mounting "/etc/passwd" to rootfs at "/x": mount src=/etc/passwd, dst=/x: no such device',
        ),
        (
            {
                "hooks": [
                    {"hookName": "createContainer", "path": "/bin/sh"},
                    {"hookName": "startContainer", "path": "/in/the/container"},
                    {"hookName": "createContainer", "path": "/no/such"},
                ]
            },
            "error running createContainer hook #1: fork/exec /no/such: no such file or directory",
        ),
        (
            {"hooks": [{"hookName": "createRuntime", "path": "/etc/passwd"}]},
            "error running createRuntime hook #0: fork/exec /etc/passwd: permission denied",
        ),
    ],
    ids=["no source", "no bind", "no hook", "no program"],
)
def test_what_keeps_the_process_from_starting_fails_it_in_runcs_words(
    tmp_path: Path, edits: dict[str, Any], text: str
) -> None:
    with pytest.raises(RunContainerError) as raised:
        make(tmp_path, edits)

    assert START + text == str(raised.value)


def test_a_mount_of_a_file_system_needs_no_source(tmp_path: Path) -> None:
    edits = {"mounts": [{"hostPath": "tmpfs", "containerPath": "/x", "type": "tmpfs"}]}

    assert (Mount("tmpfs", "/x", "tmpfs", ()),) == make(tmp_path, edits).mounts


def test_an_id_that_is_passed_twice_is_injected_once(tmp_path: Path) -> None:
    make(tmp_path, {"hooks": [{"hookName": "poststop", "path": "/bin/hook"}]})

    view = Runtime([tmp_path]).create({"name": "main"}, ["vendor.com/gpu=d0", "vendor.com/gpu=d0"])

    assert (1, ("vendor.com/gpu=d0",)) == (len(view.hooks), view.cdi_ids)


def test_a_container_without_devices_needs_no_spec_directory(tmp_path: Path) -> None:
    assert {} == Runtime([tmp_path / "none"]).create({"name": "main"}, []).env

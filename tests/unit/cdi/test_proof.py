"""A spec is written only if container runtimes will take it and find its devices."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dra_driver.cdi import registry
from dra_driver.cdi.spec import CdiDevice, ContainerEdits, DeviceNode, Hook, Mount, Spec
from dra_driver.cdi.store import SpecStore
from dra_driver.errors import ConflictError, HardwareError

UID = "0a1b2c3d-0000-4000-8000-000000000001"
OTHER_UID = "0a1b2c3d-0000-4000-8000-000000000002"
NOTHING = ContainerEdits()
NODE = ContainerEdits(device_nodes=(DeviceNode("/dev/nvidia0"),))


@pytest.fixture
def store(tmp_path: Path) -> SpecStore:
    (tmp_path / "cdi").mkdir()
    return SpecStore(tmp_path / "cdi", "gpu.nvidia.com")


def spec(
    store: SpecStore,
    uid: str = UID,
    edits: ContainerEdits = NODE,
    common: ContainerEdits = NODE,
    own: ContainerEdits = NOTHING,
) -> Spec:
    return Spec(store.kind, (CdiDevice(store.device_name(uid, "gpu-a"), edits, own=own),), common)


def foreign(store: SpecStore, uid: str = UID, **changes: Any) -> str:
    device = {"name": f"{uid}-gpu-a", "containerEdits": {"env": ["A=b"]}}
    return json.dumps({"cdiVersion": "0.5.0", "kind": store.kind, "devices": [device], **changes})


def test_what_is_written_is_found_by_the_rules_of_runtimes(store: SpecStore) -> None:
    common = ContainerEdits(
        env=("A=b",),
        mounts=(Mount("/usr/lib/x", "/usr/lib64/x", ("ro",)),),
        hooks=(Hook("createContainer", "/usr/bin/nvidia-cdi-hook"),),
        additional_gids=(44,),
    )
    for uid in (UID, OTHER_UID):
        store.ensure(uid, spec(store, uid, common=common))

    found = registry.load([store.directory])

    assert (set(found.devices), found.problems) == (
        {f"k8s.gpu.nvidia.com/claim={uid}-gpu-a" for uid in (UID, OTHER_UID)},
        {},
    )
    assert {device.spec["cdiVersion"] for device in found.devices.values()} == {"0.7.0"}


def test_the_bytes_are_those_of_the_whole_spec_at_once(store: SpecStore) -> None:
    mount = ContainerEdits(mounts=(Mount("/a", "/b"),), additional_gids=(45,))
    group = ContainerEdits(additional_gids=(44,))
    for common, edits, own in itertools.product((NOTHING, NODE, group), (NODE, group), (NOTHING, mount)):
        whole = spec(store, common=common, edits=edits, own=own)

        assert json.loads(whole.to_json()) == whole.as_dict()
        assert list(json.loads(whole.to_json())) == list(whole.as_dict())


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(ContainerEdits(env=("NO_VALUE",)), id="environment"),
        pytest.param(ContainerEdits(mounts=(Mount("", "/x"),)), id="mount"),
        pytest.param(ContainerEdits(hooks=(Hook("someday", "/x"),)), id="hook"),
        pytest.param(ContainerEdits(device_nodes=(DeviceNode("/dev/x", type="z"),)), id="device node"),
        pytest.param(ContainerEdits(mounts=(Mount("/lib\udcff.so", "/x"),)), id="name that is no text"),
        pytest.param(ContainerEdits(mounts=(Mount("/x", "/\U0001f600"),)), id="name beyond YAML's escapes"),
    ],
)
@pytest.mark.parametrize("part", ["edits", "common", "own"])
def test_a_spec_that_runtimes_would_refuse_is_not_written(
    store: SpecStore, bad: ContainerEdits, part: str
) -> None:
    parts: dict[str, Any] = {part: bad}
    refused = spec(store, **parts)

    for _ in range(2):
        with pytest.raises(HardwareError, match=f"runtimes would refuse the CDI spec of claim {UID} \\("):
            store.ensure(UID, refused)

    assert list(store.directory.iterdir()) == []


@pytest.mark.parametrize("name", ["a.json", "z.yaml", f"k8s.gpu.nvidia.com-claim_{UID}.yaml"])
def test_a_device_that_a_file_of_others_has_is_refused_with_its_path(store: SpecStore, name: str) -> None:
    (store.directory / name).write_text(foreign(store))

    with pytest.raises(ConflictError, match=f"stands in {store.directory}/{name} too, .* remove that file"):
        store.ensure(UID, spec(store))

    (store.directory / name).unlink()
    assert store.ensure(UID, spec(store))


@pytest.mark.parametrize("devices", [("gpu-a", "gpu-a"), ("gpu a",)])
def test_names_that_runtimes_would_refuse_are_not_written(store: SpecStore, devices: tuple[str, ...]) -> None:
    store.ensure(OTHER_UID, spec(store, OTHER_UID))  # what they share is proven
    refused = Spec(store.kind, tuple(CdiDevice(f"{UID}-{name}", NODE) for name in devices))

    with pytest.raises(HardwareError, match=f"runtimes would refuse the CDI spec of claim {UID} \\("):
        store.ensure(UID, refused)


def test_a_file_of_others_that_comes_after_the_spec_is_noticed_by_the_next_prepare(store: SpecStore) -> None:
    store.ensure(UID, spec(store))

    (store.directory / "other.json").write_text(foreign(store))

    with pytest.raises(ConflictError):
        store.ensure(UID, spec(store))


@pytest.mark.parametrize("change", ["longer", "in place", "another file of the same time"])
def test_a_file_of_others_that_changes_is_read_anew(store: SpecStore, change: str) -> None:
    path, new = store.directory / "other.json", store.directory / "new"
    path.write_text(foreign(store, OTHER_UID))
    before = path.stat()
    store.ensure(UID, spec(store))
    store.remove(UID)

    if change == "another file of the same time":
        new.write_text(foreign(store, UID))
        os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
        new.rename(path)
    else:
        path.write_text(foreign(store, UID, **({"annotations": {}} if change == "longer" else {})))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + (change == "in place")))

    with pytest.raises(ConflictError):
        store.ensure(UID, spec(store))

    path.write_text("{")
    assert store.ensure(UID, spec(store))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="half a file"),
        pytest.param("", id="empty"),
        pytest.param(
            foreign(SpecStore(Path("x"), "gpu.nvidia.com"), cdiVersion="9.9.9"), id="skipped by runtimes"
        ),
        pytest.param(
            foreign(SpecStore(Path("x"), "gpu.nvidia.com"), kind="vendor.com/gpu"), id="another kind"
        ),
    ],
)
def test_files_of_others_that_take_no_device_of_ours_do_not_matter(store: SpecStore, content: str) -> None:
    (store.directory / "other.json").write_text(content)
    (store.directory / "folder.json").mkdir()
    (store.directory / "nowhere.json").symlink_to("none")
    (store.directory / "endless.json").symlink_to("/dev/zero")
    os.mkfifo(store.directory / "pipe.json")

    assert store.ensure(UID, spec(store))


def test_files_that_runtimes_do_not_look_at_do_not_matter(store: SpecStore) -> None:
    for name in ("other.yml", "other.json.tmp", ".dra-other.tmp"):
        (store.directory / name).write_text(foreign(store))

    assert store.ensure(UID, spec(store))

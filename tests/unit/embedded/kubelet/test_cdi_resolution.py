"""Which devices a runtime finds in its spec directories."""

import json
from pathlib import Path
from typing import Any

import pytest

from dra_driver.cdi.registry import load
from dra_driver.embedded.kubelet.containers import Runtime
from dra_driver.embedded.kubelet.errors import CreateContainerError


def spec(value: str, *names: str, **more: Any) -> str:
    """A spec file whose devices set V to `value`."""
    devices = [{"name": name, "containerEdits": {"env": [f"V={value}"]}} for name in names]
    return json.dumps({"cdiVersion": "0.3.0", "kind": "vendor.com/gpu", "devices": devices, **more})


def found(*directories: Path) -> dict[str, str]:
    """The value of V by device name."""
    devices = load(directories).devices
    return {name.removeprefix("vendor.com/gpu="): d.edits["env"][0][2:] for name, d in devices.items()}


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_a_device_in_a_later_directory_shadows_that_in_an_earlier_one(etc: Path, run: Path) -> None:
    (etc / "a.json").write_text(spec("etc", "a", "b"))
    (run / "a.json").write_text(spec("run", "b"))

    assert {"a": "etc", "b": "run"} == found(etc, run)


def test_a_device_in_two_files_of_one_directory_is_dropped_and_the_others_stay(run: Path) -> None:
    (run / "1.json").write_text(spec("1", "a", "b"))
    (run / "2.json").write_text(spec("2", "b", "c"))

    assert {"a": "1", "c": "2"} == found(run)
    text = f'conflicting device "vendor.com/gpu=b" (specs "{run / "2.json"}", "{run / "1.json"}")'
    assert {run / "1.json": (text,), run / "2.json": (text,)} == load([run]).problems


def test_a_device_that_conflicts_in_an_earlier_directory_is_lost_in_a_later_one_too(
    etc: Path, run: Path
) -> None:
    for name in ("1.json", "2.json"):
        (etc / name).write_text(spec("etc", "a"))
    (run / "a.json").write_text(spec("run", "a"))

    assert {} == found(etc, run)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(spec("x", "a", unknown=1), id="unknown field"),
        pytest.param(spec("x", "a", cdiVersion="9.9.9"), id="unknown version"),
        pytest.param(spec("x", "a", annotations={"k": "v"}), id="version too low"),
        pytest.param(spec("x", "a", "a"), id="device twice"),
        pytest.param(spec("x"), id="no device"),
        pytest.param('{"kind": "vendor.com/gpu", ' + spec("x", "a")[1:], id="key twice"),
        pytest.param("kind: vendor.com/gpu\n" + "\n".join(spec("x", "a")[1:-1].split(", ")), id="not YAML"),
        pytest.param("{", id="half a file"),
        pytest.param("", id="empty"),
        pytest.param("[]", id="a list"),
        pytest.param("? [a]\n: b\n", id="a key that is a list"),
        pytest.param("a: 1\na: 2\n", id="key twice in YAML"),
    ],
)
def test_a_file_with_any_problem_is_skipped_whole_and_the_others_are_not(run: Path, content: str) -> None:
    (run / "bad.json").write_text(content)
    (run / "good.json").write_text(spec("good", "b"))

    registry = load([run])

    assert ["vendor.com/gpu=b"] == list(registry.devices)
    assert [run / "bad.json"] == list(registry.problems)


def test_a_file_that_is_no_text_is_skipped(run: Path) -> None:
    (run / "bad.json").write_bytes(b"\xff\xfe")

    assert [run / "bad.json"] == list(load([run]).problems)


def test_yaml_and_json_are_read_whatever_the_name_says(run: Path) -> None:
    yaml_text = (
        "---\ncdiVersion: 0.3.0\nkind: vendor.com/gpu\n"
        "devices:\n- name: y\n  containerEdits:\n    env: [V=yaml]\n"
    )
    (run / "1.json").write_text(yaml_text)
    (run / "2.yaml").write_text(spec("json", "j"))

    assert {"y": "yaml", "j": "json"} == found(run)


@pytest.mark.parametrize("name", ["a.yml", "a.json.tmp", "spec.123.tmp", "a", "folder/a.json"])
def test_only_json_and_yaml_files_directly_in_the_directory_count(run: Path, name: str) -> None:
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text(spec("x", "a"))
    (run / "folder.json").mkdir()

    assert ({}, {}) == (found(run), dict(load([run]).problems))


def test_a_link_to_a_file_is_a_file_and_one_to_nowhere_a_problem(tmp_path: Path, run: Path) -> None:
    (tmp_path / "elsewhere").write_text(spec("x", "a"))
    (run / "link.json").symlink_to(tmp_path / "elsewhere")
    (run / "nowhere.json").symlink_to(tmp_path / "nowhere")

    assert {"a": "x"} == found(run)
    assert [run / "nowhere.json"] == list(load([run]).problems)


def test_directories_that_do_not_exist_are_as_good_as_empty(tmp_path: Path, run: Path) -> None:
    (run / "a.json").write_text(spec("x", "a"))

    assert {"a": "x"} == found(tmp_path / "none", run, tmp_path / "none either")


def test_all_devices_that_cannot_be_resolved_are_named_in_containerds_words(run: Path) -> None:
    (run / "a.json").write_text(spec("x", "a"))

    with pytest.raises(CreateContainerError) as raised:
        Runtime([run]).create({"name": "main"}, ["vendor.com/gpu=z", "vendor.com/gpu=a", "vendor.com/gpu=b"])

    text = "failed to create containerd container: CDI device injection failed: unresolvable CDI devices vendor.com/gpu=z, vendor.com/gpu=b"
    assert text == str(raised.value)


def test_a_spec_is_looked_up_when_a_container_is_made_and_not_before(run: Path) -> None:
    runtime = Runtime([run])
    with pytest.raises(CreateContainerError):
        runtime.create({"name": "main"}, ["vendor.com/gpu=a"])

    (run / "a.json").write_text(spec("x", "a"))

    assert {"V": "x"} == runtime.create({"name": "main"}, ["vendor.com/gpu=a"]).env

"""Specs as a runtime sees them, from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

UID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
NODE = {"path": "/dev/nvidia0", "hostPath": "/run/nvidia/driver/dev/nvidia0"}
CAPABILITY = {"path": "/dev/nvidia-caps/nvidia-cap30", "type": "c", "major": 234, "minor": 30}
COMMON = {
    "env": ["NVIDIA_VISIBLE_DEVICES=void"],
    "additionalGids": [44],
    "mounts": [{"hostPath": "/usr/bin/nvidia-smi", "containerPath": "/usr/bin/nvidia-smi"}],
    "hooks": [
        {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "x"]}
    ],
}


def spec(**changes: Any) -> dict[str, Any]:
    device = {"name": f"{UID}-gpu-a", "containerEdits": {"deviceNodes": [NODE, CAPABILITY]}}
    body = {"cdiVersion": "0.7.0", "kind": "k8s.gpu.nvidia.com/claim", "devices": [device]}
    return {**body, "containerEdits": COMMON, **changes}


@pytest.fixture
def cdi_dir(tmp_path: Path) -> Path:
    (tmp_path / "cdi").mkdir()
    return tmp_path / "cdi"


def claim_file(cdi_dir: Path, body: Any) -> Path:
    path = cdi_dir / f"k8s.gpu.nvidia.com-claim_{UID}.json"
    path.write_text(body if isinstance(body, str) else json.dumps(body))
    return path


def test_a_spec_that_runtimes_take_is_said_to_be_fine(commands: Any, cdi_dir: Path) -> None:
    path = claim_file(cdi_dir, spec())

    ran = commands.run("cdi", "validate", str(path))

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{path}: fine, k8s.gpu.nvidia.com/claim of version 0.7.0, devices: 1\n"


def test_every_problem_of_every_file_has_a_line_with_its_place(commands: Any, cdi_dir: Path) -> None:
    good = claim_file(cdi_dir, spec())
    bad = cdi_dir / "bad.json"
    bad.write_text(json.dumps(spec(cdiVersion="0.3.0")))
    worse = cdi_dir / "worse.yaml"
    worse.write_text("kind: a\nunknown: 1\ndevices: []\n")

    ran = commands.run("cdi", "validate", str(good), str(bad), str(worse))

    assert ran.code == 1
    assert ran.out.splitlines()[1:] == [
        f"{bad}: cdiVersion: 0.3.0 is too old for what the spec contains: it needs 0.7.0",
        f"{worse}: kind: 'a' is no kind: expected vendor/class, each of two letters or more",
        f"{worse}: unknown: unknown field",
        f"{worse}: devices: must name at least one device",
        f"{worse}: cdiVersion: is required",
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", b"{", "is neither JSON nor YAML"),
        ("a.json", b"\xff\xfe", "is no text"),
        ("a.json", b"[" * 5000, "is neither JSON nor YAML"),
        ("a.json", b'{"kind": "a/b", "kind": "a/b"}', "a key stands twice"),
        (
            "a.json",
            json.dumps(spec(annotations={"a": "\U0001f600"})).encode(),
            'YAML, which has no "\\ud83d"',
        ),
        ("a.yaml", b"kind: a\x7f", "the character '\\x7f' may not stand in it"),
        ("a.yml", json.dumps(spec()).encode(), "its name ends neither in .json nor in .yaml"),
    ],
)
def test_a_file_that_is_no_spec_is_a_finding(
    commands: Any, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)

    ran = commands.run("cdi", "validate", str(tmp_path / name))

    assert ran.code == 1
    assert words in ran.out


def test_a_file_that_is_not_there_is_bad_usage(commands: Any, tmp_path: Path) -> None:
    ran = commands.run("cdi", "validate", str(tmp_path / "none.json"))

    assert (ran.code, ran.err) == (
        2,
        f"dra-driver: {tmp_path}/none.json does not exist\n",
    )


def test_a_claim_is_shown_with_all_that_its_containers_get(commands: Any, cdi_dir: Path) -> None:
    path = claim_file(cdi_dir, spec())

    ran = commands.run("cdi", "show", UID, "--cdi-dir", str(cdi_dir))

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"{path}, version 0.7.0",
        f"k8s.gpu.nvidia.com/claim={UID}-gpu-a",
        "  node   /dev/nvidia0 <- /run/nvidia/driver/dev/nvidia0",
        "  node   /dev/nvidia-caps/nvidia-cap30 <- made as c 234:30",
        "with any of them, once",
        "  env    NVIDIA_VISIBLE_DEVICES=void",
        "  group  44",
        "  mount  /usr/bin/nvidia-smi",
        "  hook   createContainer: nvidia-cdi-hook x",
    ]


def test_a_claim_is_shown_for_programs_too(commands: Any, cdi_dir: Path) -> None:
    claim_file(cdi_dir, spec())

    ran = commands.run("cdi", "show", UID, "--cdi-dir", str(cdi_dir), "-o", "json")

    assert (ran.code, ran.data) == (0, spec())


def test_a_device_that_another_file_has_too_is_a_finding(commands: Any, cdi_dir: Path) -> None:
    path = claim_file(cdi_dir, spec())
    (cdi_dir / "other.json").write_text(json.dumps(spec()))

    ran = commands.run("cdi", "show", UID, "--cdi-dir", str(cdi_dir))

    assert ran.code == 1
    assert f"runtimes do not find k8s.gpu.nvidia.com/claim={UID}-gpu-a: conflicting device" in ran.err
    assert str(path) in ran.err


def test_a_device_that_an_earlier_directory_has_too_is_the_claims(commands: Any, tmp_path: Path) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    for directory in (first, last):
        directory.mkdir()
        claim_file(directory, spec())

    assert commands.run("cdi", "show", UID, "--cdi-dir", str(first), "--cdi-dir", str(last)).code == 0


@pytest.mark.parametrize(
    ("uid", "code", "words"),
    [
        (UID, 1, f"claim {UID} has no spec in"),
        ("../../etc/passwd", 2, "is no UID of a claim"),
        ("a/b", 2, "is no UID of a claim"),
    ],
)
def test_a_claim_without_spec_and_a_uid_that_is_none(
    commands: Any, cdi_dir: Path, uid: str, code: int, words: str
) -> None:
    ran = commands.run("cdi", "show", uid, "--cdi-dir", str(cdi_dir))

    assert ran.code == code
    assert words in ran.err


def test_a_directory_that_is_not_there_cannot_be_reached(commands: Any, tmp_path: Path) -> None:
    ran = commands.run("cdi", "show", UID, "--cdi-dir", str(tmp_path / "none"))

    assert (ran.code, ran.err) == (3, f"dra-driver: the CDI directory {tmp_path}/none does not exist\n")


def test_a_spec_that_runtimes_skip_is_shown_by_what_is_wrong_with_it(commands: Any, cdi_dir: Path) -> None:
    claim_file(cdi_dir, spec(kind="nothing"))

    ran = commands.run("cdi", "show", UID, "--cdi-dir", str(cdi_dir))

    assert ran.code == 2
    assert "kind: 'nothing' is no kind: expected vendor/class" in ran.err

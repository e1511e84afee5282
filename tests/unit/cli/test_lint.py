"""The command `dra-driver lint`, as a user and as a program see it."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from dra_driver.cli.main import main

GOOD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
      - name: gpu
        exactly: {deviceClassName: gpu.nvidia.com}
"""
BAD = GOOD.replace("exactly: {deviceClassName: gpu.nvidia.com}", "deviceClassName: gpu.nvidia.com")
ADVICE = GOOD.replace("gpu.nvidia.com}", "gpu.nvidia.com, adminAccess: true}")
BROKEN = "a: [\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "claim.yaml"


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (ADVICE, 0), (BAD, 1), (BROKEN, 2)])
def test_the_exit_code_says_whether_there_are_findings(file: Path, text: str, code: int) -> None:
    assert code == main(["lint", written(file, text)])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.yaml"], "absent.yaml does not exist"),
        (["--fix"], "--fix and --convert are for files"),
        (["-o", "xml", "FILE"], "there is no output format xml: expected one of table, lines, json, yaml"),
        (
            ["--convert", "v2", "FILE"],
            "there is no version v2 to convert to: expected one of v1, v1beta2, v1beta1",
        ),
        (["--fix", "--convert", "v1", "FILE"], "give one of the two"),
        (["--fix", "-"], "--fix changes files, and cannot change standard input"),
        (["EMPTY"], "there are no YAML or JSON files in"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(
    file: Path,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    (file.parent / "empty").mkdir()
    names = {"FILE": written(file, GOOD), "EMPTY": str(file.parent / "empty")}

    code = main(["lint", *(names.get(argument, argument) for argument in arguments)])

    assert 2 == code
    assert said in capsys.readouterr().err


def test_a_line_each_is_printed_where_nobody_looks(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", written(file, BAD)])

    first, fix = capsys.readouterr().out.splitlines()
    assert (
        f"{file}:8:9: error: deviceClassName stands under exactly in resource.k8s.io/v1 [version-shape]"
        == first
    )
    assert "    put it under exactly: {deviceClassName}" == fix


def test_a_table_is_printed_on_demand(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", "-o", "table", written(file, BAD)])

    lines = capsys.readouterr().out.splitlines()
    assert ["PLACE", "SEVERITY", "CODE", "MESSAGE"] == lines[0].split()
    assert "1 error; --fix settles 1" == lines[-1]


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_all_of_a_finding(
    file: Path, output: str, load: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["lint", "-o", output, written(file, BAD)])

    assert {
        "findings": [
            {
                "code": "version-shape",
                "severity": "error",
                "file": str(file),
                "line": 8,
                "column": 9,
                "path": "spec.devices.requests[0].deviceClassName",
                "message": "deviceClassName stands under exactly in resource.k8s.io/v1",
                "fix": "put it under exactly: {deviceClassName}",
                "fixable": True,
            }
        ],
        "counts": {"error": 1, "warning": 0, "info": 0},
    } == load(capsys.readouterr().out)


def test_directories_are_read_to_their_depth_and_broken_files_do_not_hide_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    written(inner / "one.yml", BAD)
    written(tmp_path / "two.json", BROKEN)
    written(tmp_path / "notes.txt", BROKEN)

    code = main(["lint", "-o", "json", str(tmp_path)])

    findings = json.loads(capsys.readouterr().out)["findings"]
    assert 2 == code
    assert {("one.yml", "version-shape"), ("two.json", "unreadable")} == {
        (Path(finding["file"]).name, finding["code"]) for finding in findings
    }


def test_fix_writes_the_files_and_keeps_their_mode(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(file, BAD)
    file.chmod(0o640)

    code = main(["lint", "--fix", str(file)])

    assert 0 == code
    assert [] == [line for line in capsys.readouterr().out.splitlines() if line]
    assert "exactly:\n          deviceClassName" in file.read_text()
    assert 0o640 == file.stat().st_mode & 0o777
    assert [file] == list(file.parent.iterdir())


def test_fix_writes_through_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(written(file, BAD))

    main(["lint", "--fix", str(link)])

    assert link.is_symlink()
    assert "exactly:" in file.read_text()


def test_a_file_that_needs_no_fix_is_not_touched(file: Path) -> None:
    written(file, GOOD)
    before = file.stat()

    main(["lint", "--fix", str(file)])

    assert (before.st_ino, before.st_mtime_ns) == (file.stat().st_ino, file.stat().st_mtime_ns)


def test_objects_are_printed_in_another_version(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"

    code = main(["lint", "--convert", "v1beta1", written(file, GOOD + other)])

    claim, pod = yaml.safe_load_all(capsys.readouterr().out)
    assert 0 == code
    assert {"name": "gpu", "deviceClassName": "gpu.nvidia.com"} == claim["spec"]["devices"]["requests"][0]
    assert "v1" == pod["apiVersion"]


@pytest.mark.parametrize(
    ("text", "said"), [("just text", "expected an object"), ("kind: Pod", "the object has no apiVersion")]
)
def test_what_is_no_object_is_not_lost_in_conversion(
    file: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    code = main(["lint", "--convert", "v1beta1", written(file, f"{GOOD}---\n{text}\n")])

    printed = capsys.readouterr()
    assert (2, "") == (code, printed.out)
    assert f"{file}, line 10, column 1: {said}" in printed.err


def test_objects_in_a_list_are_converted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(GOOD)]}

    code = main(["lint", "--convert", "v1beta1", written(file, yaml.safe_dump(listed))])

    claim = yaml.safe_load(capsys.readouterr().out)
    assert (0, "resource.k8s.io/v1beta1") == (code, claim["apiVersion"])
    assert {"name": "gpu", "deviceClassName": "gpu.nvidia.com"} == claim["spec"]["devices"]["requests"][0]


def test_control_characters_of_a_file_do_not_reach_the_terminal(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.replace("name: gpu\n", 'name: "\\e[31mred\\u202e"\n')

    main(["lint", written(file, text)])

    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_standard_input_is_linted_by_the_installed_command() -> None:
    command = [sys.executable, "-m", "dra_driver", "lint", "-"]

    result = subprocess.run(command, input=BAD, capture_output=True, text=True, check=False)

    assert 1 == result.returncode
    assert result.stdout.startswith("-:8:9: error: ")

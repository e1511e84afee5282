"""`make conformance` counts what passes and shows what misses, whatever the vectors are."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import conformance

Object = dict[str, Any]
_HERE = Path(__file__).parent
_SCRIPT = Path(conformance.__file__)


def _first(name: str) -> Object:
    case: Object = json.loads((_HERE / f"{name}.jsonl").read_text().splitlines()[0])
    return case


def _write(directory: Path, name: str, *cases: Object) -> None:
    (directory / f"{name}.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))


def test_our_own_vectors_all_pass() -> None:
    run = subprocess.run([sys.executable, _SCRIPT], capture_output=True, text=True, check=False)

    assert (0, "cel: 604/604\nallocation: 560/560\nvalidation: 108/108\n", "") == (
        run.returncode,
        run.stdout,
        run.stderr,
    )


def test_misses_are_counted_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, wrong = _first("cel"), {**_first("cel"), "id": "wrong", "expression": "true"}
    wrong["expect"] = {"result": False}
    _write(tmp_path, "cel", good, wrong)

    code = conformance.run(tmp_path)

    assert 1 == code
    assert capsys.readouterr().out == (
        'cel: 1/2\n  wrong: expected {"result": false}, got {"result": true}\n'
    )


def test_a_line_that_is_no_case_is_a_miss_and_others_are_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "validation.jsonl").write_text(f"{{}}\nnonsense\n\n{json.dumps(_first('validation'))}\n")

    assert 1 == conformance.run(tmp_path)

    lines = capsys.readouterr().out.splitlines()
    assert "validation: 1/3" == lines[0]
    assert ["line 1", "line 2"] == [line.strip().partition(":")[0] for line in lines[1:]]


def test_a_directory_without_vectors_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == conformance.run(tmp_path)
    assert f"{tmp_path} has no cel.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("expect", "passes"),
    [
        ({"compileError": "any text", "name": None}, False),
        ({"error": "any text", "name": None}, True),
        ({"error": "any text", "name": "nothing"}, True),
        ({"error": "any text", "name": "other"}, False),
        ({"result": False}, False),
    ],
)
def test_of_an_error_the_kind_and_a_given_name_have_to_agree(expect: Object, passes: bool) -> None:
    devices = {"d": {"driver": "x", "attributes": {}}}
    case = {"expression": "device.attributes['x'].nothing == 1", "device": "d", "expect": expect}

    assert passes == (conformance.cel(case, devices) is None)


@pytest.mark.parametrize("change", ["device", "request", "config", "nodeSelector", "none", "error"])
def test_every_part_of_an_allocation_has_to_agree(change: str) -> None:
    lines = (_HERE / "allocation.jsonl").read_text().splitlines()
    case = next(one for one in map(json.loads, lines) if one["expect"].get("result"))
    assert conformance.allocation(case) is None
    (first, *_) = case["expect"]["result"]
    match change:
        case "none":
            case["expect"] = {"result": None}
        case "error":
            case["expect"] = {"error": "any"}
        case "config":
            first["devices"]["config"] = [{"source": "FromClaim"}]
        case "nodeSelector":
            first["nodeSelector"] = {"nodeSelectorTerms": []}
        case field:
            first["devices"]["results"][0][field] = "other"

    assert conformance.allocation(case) is not None


def test_a_path_has_to_agree_where_paths_are_given() -> None:
    lines = (_HERE / "validation.jsonl").read_text().splitlines()
    case = next(one for one in map(json.loads, lines) if one["paths"])

    assert [None, None] == [conformance.validation(one) for one in (case, {**case, "paths": []})]
    assert conformance.validation({**case, "paths": ["spec.other"]}) is not None
    assert conformance.validation({**case, "accepted": True}) is not None

"""Runs vectors that an upstream engine has judged: `python scripts/conformance.py DIRECTORY`, or `make conformance`.

The directory has any of cel.jsonl (with cel_devices.json), allocation.jsonl and validation.jsonl, one case a line.
Printed are a line with the passed and all cases of each file, and a line for each miss. Exit codes: 0 all passed,
1 misses, 2 nothing to run. What has to agree is decided here and nowhere else:

* cel: the result, or the kind of the error (at compile or at run time) and, where one is given, its name;
* allocation: devices, requests, configuration, node selector, tolerations and consumed capacity of every claim, or
  that nothing fits, or that the attempt is aborted;
* validation: accepted or refused and, where some are given, the paths of the fields.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dra_driver.allocation import AllocationError, allocate
from dra_driver.cel import CompileError, EvaluationError
from dra_driver.quantity import Quantity
from dra_driver.resource.validation import validate
from dra_driver.selectors import compile_selector, device_value, selector

Object = dict[str, Any]
Judge = Callable[[Object], str | None]
"""Why a case misses; None where it passes."""

_ROOT = Path(__file__).parent.parent
_RESULT_FIELDS = (
    "request",
    "driver",
    "pool",
    "device",
    "adminAccess",
    "tolerations",
    "consumedCapacity",
    "shareID",
)


def cel(case: Object, devices: Mapping[str, Object]) -> str | None:
    expected = case["expect"]
    device = devices[case["device"]]
    try:
        answer: Object = {
            "result": selector(case["expression"]).matches(device_value(device["driver"], device))
        }
    except CompileError as error:
        answer = {"compileError": str(error), "name": error.name}
    except EvaluationError as error:
        answer = {"error": str(error), "name": error.name}
    (kind,) = expected.keys() - {"name"}
    if kind not in answer or (kind == "result" and expected[kind] is not answer[kind]):
        return _differs(expected, answer)
    if expected.get("name") is not None and expected["name"] != answer["name"]:
        return _differs(expected, answer)
    return None


def allocation(case: Object) -> str | None:
    expected = case["expect"]
    given = {name: case.get(name) or [] for name in ("slices", "classes", "allocated")}
    try:
        answer: Object = {"result": allocate(case["claims"], node=case["node"], **given)}
    except AllocationError as error:
        answer = {"error": str(error)}
    if "error" in expected or "error" in answer:
        return None if expected.keys() == answer.keys() else _differs(expected, answer)
    if _comparable(expected["result"]) != _comparable(answer["result"]):
        return _differs(expected, answer)
    return None


def _comparable(results: list[Object] | None) -> Any:
    """What has to agree of the results, in one notation; an absent field is an empty one."""
    if results is None:
        return None
    found = []
    for result in results:
        devices = result.get("devices") or {}
        entries = [
            {name: _plain(name, entry[name]) for name in _RESULT_FIELDS if entry.get(name)}
            for entry in devices.get("results") or ()
        ]
        config = [
            {name: value for name, value in entry.items() if value} for entry in devices.get("config") or ()
        ]
        found.append((entries, config, result.get("nodeSelector") or {}))
    return found


def _plain(name: str, value: Any) -> Any:
    match name:
        case "shareID":
            return "*"
        case "consumedCapacity":
            return {key: Quantity.parse(str(amount)).nanos for key, amount in value.items()}
        case _:
            return value


def validation(case: Object) -> str | None:
    problems = validate(case["object"], compile_selector=compile_selector, admin_namespace=False)
    paths = sorted(problem.path for problem in problems)
    same_paths = not case.get("paths") or sorted(case["paths"]) == paths
    if case["accepted"] == (not problems) and same_paths:
        return None
    expected = {"accepted": case["accepted"], "paths": case.get("paths") or []}
    return _differs(
        expected, {"accepted": not problems, "paths": paths, "problems": [str(one) for one in problems]}
    )


def _differs(expected: Object, answer: Object) -> str:
    return f"expected {json.dumps(expected)}, got {json.dumps(answer)}"


def judges(directory: Path) -> Iterator[tuple[str, Path, Judge]]:
    """Name, file and judge of what the directory has."""
    own = directory / "cel_devices.json"
    devices_file = own if own.exists() else _ROOT / "tests" / "conformance" / "cel_devices.json"
    devices = json.loads(devices_file.read_text(encoding="utf-8"))
    known: Mapping[str, Judge] = {
        "cel": lambda case: cel(case, devices),
        "allocation": allocation,
        "validation": validation,
    }
    for name, judge in known.items():
        file = directory / f"{name}.jsonl"
        if file.exists():
            yield name, file, judge


def run(directory: Path) -> int:
    """Print what passed and what missed; the exit code."""
    ran, missed = False, False
    for name, file, judge in judges(directory):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        misses = [found for number, line in enumerate(lines, 1) if (found := _miss(judge, line, number))]
        ran, missed = True, missed or bool(misses)
        print(f"{name}: {len(lines) - len(misses)}/{len(lines)}")
        for miss in misses:
            print(f"  {miss}")
    if not ran:
        print(f"{directory} has no cel.jsonl, allocation.jsonl or validation.jsonl", file=sys.stderr)
        return 2
    return 1 if missed else 0


def _miss(judge: Judge, line: str, number: int) -> str | None:
    """A line for a case that misses; a fault of ours is one, and must not keep the others from being run."""
    name: Any = f"line {number}"
    try:
        case = json.loads(line)
        name = case.get("id", name)
        why = judge(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and the exit code is 1
        why = f"{type(error).__name__}: {error}"
    return None if why is None else f"{name}: {why}"


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1] if len(sys.argv) > 1 else _ROOT / "tests" / "conformance")))

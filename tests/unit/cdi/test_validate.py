"""What runtimes accept and refuse, as their loader does."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.cdi.validate import validate

GOOD: dict[str, Any] = {
    "cdiVersion": "0.7.0",
    "kind": "k8s.gpu.nvidia.com/claim",
    "annotations": {"example.com/a": "b"},
    "devices": [
        {
            "name": "0-gpu",
            "annotations": {},
            "containerEdits": {
                "deviceNodes": [
                    {"path": "/dev/a", "type": "c", "major": 195, "minor": 0, "permissions": "rw"}
                ]
            },
        }
    ],
    "containerEdits": {
        "env": ["A=B", "EMPTY="],
        "deviceNodes": [{"path": "/dev/c", "hostPath": "/x/dev/c", "fileMode": 438, "uid": 0, "gid": 44}],
        "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"], "type": "bind"}],
        "hooks": [{"hookName": "createContainer", "path": "/h", "args": ["h"], "env": ["A=B"], "timeout": 1}],
        "additionalGids": [44],
        "intelRdt": {"closID": "a", "enableCMT": True},
    },
}
EDITS = ("containerEdits",)


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """GOOD with one value replaced, or removed where `value` is Ellipsis."""
    body = copy.deepcopy(GOOD)
    place: Any = body
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return body


@pytest.mark.parametrize(
    "body",
    [
        GOOD,
        changed(("annotations",), None),
        changed((*EDITS, "intelRdt"), None),
        changed(("devices", 0, "containerEdits"), {"intelRdt": {}}),
        changed((*EDITS, "deviceNodes", 0, "type"), ""),
        changed(("cdiVersion",), "1.0.0"),
    ],
)
def test_good_specs(body: dict[str, Any]) -> None:
    assert validate(body) == []


BAD: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("cdiVersion",), ..., "cdiVersion: is required"),
    (("cdiVersion",), "0.9.0", "cdiVersion: '0.9.0' is no version of CDI"),
    (("cdiVersion",), "v0.7.0", "cdiVersion: 'v0.7.0' is no version of CDI"),
    (("cdiVersion",), "0.6.0", "cdiVersion: 0.6.0 is too old for what the spec contains: it needs 0.7.0"),
    (("kind",), ..., "kind: is required"),
    (("kind",), "claim", "kind: 'claim' is no kind: expected vendor/class"),
    (("kind",), "0.com/claim", "kind: '0.com/claim' is no kind"),
    (("kind",), "aa/bb/cc", "kind: 'aa/bb/cc' is no kind"),
    (("kind",), "aa/b", "kind: 'aa/b' is no kind: expected vendor/class, each of two letters or more"),
    (("extra",), 1, "extra: unknown field"),
    (("devices",), ..., "devices: is required"),
    (("devices",), [], "devices: must name at least one device"),
    (("devices",), {}, "devices: expected a list, not an object"),
    (("devices", 0), "gpu", "devices[0]: expected an object, not a string"),
    (("devices", 0, "name"), ..., "devices[0].name: is required"),
    (("devices", 0, "name"), "gpu/0", "devices[0].name: 'gpu/0' is no device name"),
    (("devices", 0, "containerEdits"), ..., "devices[0].containerEdits: is required"),
    (("devices", 0, "containerEdits"), {}, "devices[0].containerEdits: must not be empty"),
    (
        ("devices", 0, "containerEdits"),
        {"env": [], "mounts": None},
        "devices[0].containerEdits: must not be empty",
    ),
    (("devices", 0, "containerEdits"), {"intelRdt": None}, "devices[0].containerEdits: must not be empty"),
    (("devices",), GOOD["devices"] * 2, "devices[1].name: '0-gpu' stands at [0] already"),
    (("devices", 0, "annotations"), {"a b": "c"}, "devices[0].annotations['a b']: is no annotation key"),
    (("annotations",), {"a": 1}, "annotations['a']: expected a string, not a number"),
    (("annotations",), {"/a": "b"}, "annotations['/a']: is no annotation key"),
    (("annotations",), {"a": "b" * 2**18}, "annotations: 262145 bytes are more than 262144"),
    (("annotations",), [], "annotations: expected an object, not a list"),
    ((*EDITS, "env", 0), "A", "containerEdits.env[0]: 'A' is no environment variable"),
    ((*EDITS, "env", 0), "=A", "containerEdits.env[0]: '=A' is no environment variable"),
    ((*EDITS, "env"), "A=B", "containerEdits.env: expected a list, not a string"),
    (
        (*EDITS, "deviceNodes", 0, "path"),
        "",
        "containerEdits.deviceNodes[0].path: must be a non-empty string",
    ),
    ((*EDITS, "deviceNodes", 0, "path"), ..., "containerEdits.deviceNodes[0].path: is required"),
    ((*EDITS, "deviceNodes", 0, "type"), "x", "containerEdits.deviceNodes[0].type: 'x' is no type"),
    (
        (*EDITS, "deviceNodes", 0, "permissions"),
        "rx",
        "containerEdits.deviceNodes[0].permissions: 'rx' is no",
    ),
    (
        (*EDITS, "deviceNodes", 0, "permissions"),
        "none",
        "containerEdits.deviceNodes[0].permissions: 'none' is no",
    ),
    (
        (*EDITS, "deviceNodes", 0, "fileMode"),
        "0666",
        "containerEdits.deviceNodes[0].fileMode: expected an int",
    ),
    ((*EDITS, "deviceNodes", 0, "fileMode"), True, "containerEdits.deviceNodes[0].fileMode: expected an int"),
    ((*EDITS, "deviceNodes", 0, "uid"), -1, "containerEdits.deviceNodes[0].uid: -1 is not between 0 and"),
    ((*EDITS, "deviceNodes", 0, "mode"), 1, "containerEdits.deviceNodes[0].mode: unknown field"),
    ((*EDITS, "mounts", 0, "hostPath"), "", "containerEdits.mounts[0].hostPath: must be a non-empty string"),
    ((*EDITS, "mounts", 0, "containerPath"), ..., "containerEdits.mounts[0].containerPath: is required"),
    ((*EDITS, "mounts", 0, "options", 0), 1, "containerEdits.mounts[0].options[0]: expected a string"),
    ((*EDITS, "hooks", 0, "hookName"), "start", "containerEdits.hooks[0].hookName: 'start' is no hook"),
    ((*EDITS, "hooks", 0, "path"), ..., "containerEdits.hooks[0].path: is required"),
    ((*EDITS, "hooks", 0, "env", 0), "A", "containerEdits.hooks[0].env[0]: 'A' is no environment variable"),
    (
        (*EDITS, "hooks", 0, "timeout"),
        1.5,
        "containerEdits.hooks[0].timeout: expected an integer, not a number",
    ),
    ((*EDITS, "additionalGids"), ["video"], "containerEdits.additionalGids[0]: expected an integer"),
    ((*EDITS, "intelRdt", "closID"), "..", "containerEdits.intelRdt.closID: '..' is no class of service"),
    ((*EDITS, "intelRdt", "enableCMT"), "yes", "containerEdits.intelRdt.enableCMT: expected true or false"),
    ((*EDITS, "netDevices"), [{"name": "a"}], "containerEdits.netDevices[0].hostInterfaceName: is required"),
    (
        (*EDITS, "netDevices"),
        [{"hostInterfaceName": "a", "name": "x"}, {"hostInterfaceName": "b", "name": "x"}],
        "containerEdits.netDevices[1].name: 'x' stands at [0] already",
    ),
    (("cdiVersion",), "1.1.0", "containerEdits.intelRdt.enableCMT: was dropped from the format"),
]


@pytest.mark.parametrize(("path", "value", "problem"), BAD, ids=[problem for _, _, problem in BAD])
def test_a_bad_spec_is_refused_with_the_place_and_the_reason(
    path: tuple[str | int, ...], value: Any, problem: str
) -> None:
    (found,) = validate(changed(path, value))

    assert str(found).startswith(problem)


@pytest.mark.parametrize(
    ("rdt", "version"), [({}, "0.7.0"), ({"schemata": []}, "1.1.0"), ({"enableMonitoring": True}, "1.1.0")]
)
def test_what_is_there_and_empty_needs_its_version_too(rdt: dict[str, Any], version: str) -> None:
    body = {"kind": "vendor.com/class", "devices": [{"name": "a", "containerEdits": {"intelRdt": rdt}}]}

    (found,) = validate({"cdiVersion": "0.5.0", **body})

    assert str(found) == f"cdiVersion: 0.5.0 is too old for what the spec contains: it needs {version}"
    assert validate({"cdiVersion": version, **body}) == []


def test_all_problems_are_told_at_once() -> None:
    body = {"cdiVersion": "0.5.0", "kind": "x", "devices": [{"name": "-", "containerEdits": {"env": ["A"]}}]}

    paths = [problem.path for problem in validate(body)]

    assert paths == ["kind", "devices[0].name", "devices[0].containerEdits.env[0]"]


@pytest.mark.parametrize("body", [None, [], "text", 1], ids=["null", "list", "text", "number"])
def test_what_is_no_object_is_no_spec(body: object) -> None:
    (found,) = validate(body)

    assert str(found).startswith("expected an object, not ")


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["cdiVersion", "kind", "devices", "name", "containerEdits", "env", "mounts", "hooks"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ANY_JSON)
def test_no_input_makes_the_validator_raise(body: object) -> None:
    assert all(problem.message for problem in validate(body))

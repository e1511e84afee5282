"""Real runtimes take and refuse the same spec files as `dra-driver cdi validate`, and as what proves a claim's spec.

Only versions that both runtimes know are asked about. A runtime is asked with a device that nobody has in the same call, so
that it names whatever it cannot resolve, and makes no container.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from dra_driver.cdi import registry
from tests.runtime.containerd import Containerd
from tests.runtime.cri import Pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_NAME, _NOBODYS = "vendor.com/gpu=a", "nobody.com/gpu=a"
_ENV = {"env": ["A=B"]}
_NODE = {"path": "/dev/x", "type": "c", "major": 1, "minor": 3}


def spec(edits: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    devices = [{"name": "a", "containerEdits": _ENV if edits is None else edits}]
    return {"cdiVersion": "0.7.0", "kind": "vendor.com/gpu", "devices": devices, **more}


def node(**more: Any) -> dict[str, Any]:
    return spec({"deviceNodes": [{**_NODE, **more}]})


def mount(**fields: Any) -> dict[str, Any]:
    return spec({"mounts": [{"hostPath": "/etc", "containerPath": "/x", **fields}]})


def hook(**fields: Any) -> dict[str, Any]:
    return spec({"hooks": [{"hookName": "createContainer", "path": "/bin/true", **fields}]})


def text(value: str, *, ascii_only: bool = True) -> str:
    return json.dumps(spec({"env": [f"A={value}"]}), ensure_ascii=ascii_only)


_TAKEN: dict[str, Any] = {
    "the least": spec(cdiVersion="0.3.0"),
    "edits for all": spec(containerEdits=_ENV),
    "no edits for all": spec(containerEdits={}),
    "null for a field": spec(annotations=None, containerEdits=None),
    "annotations": spec(annotations={"vendor.com/key": "value"}, cdiVersion="0.6.0"),
    "no annotations at an old version": spec(annotations={}, cdiVersion="0.3.0"),
    "no groups at an old version": spec({**_ENV, "additionalGids": []}, cdiVersion="0.3.0"),
    "a group": spec({"additionalGids": [44]}),
    "a class of service alone": spec({"intelRdt": {}}),
    "a node": node(),
    "a node of any type": node(type=""),
    "a pipe": node(type="p"),
    "permissions": node(permissions="rw"),
    "permissions twice": node(permissions="rr"),
    "an empty host path at an old version": node(hostPath="") | {"cdiVersion": "0.3.0"},
    "no options": mount(options=None),
    "a type": mount(type="bind") | {"cdiVersion": "0.4.0"},
    "an empty type at an old version": mount(type="") | {"cdiVersion": "0.3.0"},
    "relative paths": mount(hostPath="etc", containerPath="x"),
    "a hook": hook(args=["a"], env=["A="], timeout=5),
    "a timeout below zero": hook(timeout=-5),
    "letters beyond ASCII": text("\u00fc\u20ac"),
    "letters beyond ASCII as they are": text("\u00fc\u20ac", ascii_only=False),
    "a character beyond U+FFFF as it is": text("\U0001f600", ascii_only=False),
    "control characters as escapes": text("\x00\x01\x1b\x7f\uffff\n\t"),
    "indentation": json.dumps(spec(), indent=2),
    "a comment": f"# comment\n{json.dumps(spec())}",
    "a comma too many": json.dumps(spec())[:-1] + ",}",
}
_REFUSED: dict[str, Any] = {
    "no object": [],
    "nothing": "",
    "null": None,
    "a field that nobody knows": spec(more=None),
    "a field of a device that nobody knows": spec(devices=[{"name": "a", "containerEdits": _ENV, "more": 1}]),
    "a key twice": json.dumps(spec())[:-1] + ',"kind":"vendor.com/gpu"}',
    "no version": spec(cdiVersion=None),
    "an unknown version": spec(cdiVersion="0.9.0"),
    "a version before the first": spec(cdiVersion="0.2.0"),
    "a device without edits": spec({}),
    "a device with edits that are empty": spec({"env": [], "mounts": None}),
    "a device with null for its only edit": spec({"intelRdt": None}),
    "one bad device of two": spec(devices=[*spec()["devices"], {"name": "-", "containerEdits": _ENV}]),
    "the same device twice": spec(devices=spec()["devices"] * 2),
    "a variable without value": spec({"env": ["A"]}),
    "a variable without name": spec({"env": ["=A"]}),
    "null for a variable": spec({"env": ["A=B", None]}),
    "a number for a variable": spec({"env": [5]}),
    "variables in no list": spec({"env": "A=B"}),
    "a group at an old version": spec({"additionalGids": [44]}, cdiVersion="0.6.0"),
    "a group below zero": spec({"additionalGids": [-1]}),
    "a group by name": spec({"additionalGids": ["44"]}),
    "a group that is too large": spec({"additionalGids": [2**32]}),
    "true for a group": spec({"additionalGids": [True]}),
    "half a group": spec({"additionalGids": [44.5]}),
    "a class of service at an old version": spec({**_ENV, "intelRdt": {}}, cdiVersion="0.5.0"),
    "a class of service with a slash": spec({"intelRdt": {"closID": "a/b"}}),
    "annotations at an old version": spec(annotations={"a": "b"}, cdiVersion="0.5.0"),
    "a node without path": node(path=""),
    "a node of an unknown type": node(type="x"),
    "unknown permissions": node(permissions="x"),
    "no permissions": node(permissions="none"),
    "a host path at an old version": node(hostPath="/dev/null") | {"cdiVersion": "0.4.0"},
    "a mode below zero": node(fileMode=-1),
    "a user below zero": node(uid=-1),
    "a major that is too large": node(major=2**63),
    "a mount without source": mount(hostPath=""),
    "a mount without place": mount(containerPath=None),
    "options in no list": mount(options="ro"),
    "a type at an old version": mount(type="bind") | {"cdiVersion": "0.3.0"},
    "an unknown hook": hook(hookName="createcontainer"),
    "a hook without program": hook(path=""),
    "a hook's variable without value": hook(env=["A"]),
    "a timeout that is too large": hook(timeout=2**63),
    "a timeout that is no number": hook(timeout="5"),
    "half a character": text("\udcff"),
    "a character beyond U+FFFF as escapes": text("\U0001f600"),
    "an escaped slash": text("x").replace("x", "\\/"),
    "a control character as it is": text("\x7f", ascii_only=False),
    "another control character as it is": text("\x9f", ascii_only=False),
    "no character as it is": text("\uffff", ascii_only=False),
}
# What happens to be taken by the decoders of the runtimes, and is not by the rules.
_TAKEN_BY_RUNTIMES: dict[str, Any] = {
    "a version with a letter": spec(cdiVersion="v0.7.0"),
    "a field in another case": {("Kind" if key == "kind" else key): value for key, value in spec().items()},
    "any key of an annotation": spec(annotations={"no key!": "value"}),
    "a number for an annotation": spec(annotations={"key": 5}),
    "null for a group": spec({"additionalGids": [None]}),
    "what follows a document": f"{json.dumps(spec())}\n---\nmore",
}


@pytest.fixture
def is_taken(containerd: Containerd, pod: Pod) -> Callable[[Any], bool]:
    """Whether the runtime finds the device of a spec, which is a text or what makes JSON."""

    def ask(spec: Any) -> bool:
        new, file = containerd.cdi_dir / "new", containerd.cdi_dir / "vendor.json"
        new.write_text(spec if isinstance(spec, str) else json.dumps(spec))
        new.rename(file)
        try:
            with pytest.raises(grpc.RpcError, match=f"unresolvable CDI devices .*{_NOBODYS}") as refused:
                pod.start([_NAME, _NOBODYS])
            return _NAME not in str(refused.value.details())
        finally:
            file.unlink()

    return ask


def validates(spec: Any) -> bool:
    try:
        registry.spec_of(spec if isinstance(spec, str) else json.dumps(spec))
    except ValueError:
        return False
    return True


def test_specs_that_are_taken(is_taken: Callable[[Any], bool]) -> None:
    found = {what: (validates(spec), is_taken(spec)) for what, spec in _TAKEN.items()}

    assert dict.fromkeys(_TAKEN, (True, True)) == found


def test_specs_that_are_refused(is_taken: Callable[[Any], bool]) -> None:
    found = {what: (validates(spec), is_taken(spec)) for what, spec in _REFUSED.items()}

    assert dict.fromkeys(_REFUSED, (False, False)) == found


def test_specs_that_only_we_refuse(is_taken: Callable[[Any], bool]) -> None:
    found = {what: (validates(spec), is_taken(spec)) for what, spec in _TAKEN_BY_RUNTIMES.items()}

    assert dict.fromkeys(_TAKEN_BY_RUNTIMES, (False, True)) == found


@pytest.mark.parametrize("release", ["containerd-1.7", "containerd-2"])
def test_a_kind_of_a_single_letter_ends_the_runtime_and_is_refused_by_us(release: str) -> None:
    one_letter = spec(kind="vendor.com/g")
    with (
        tempfile.TemporaryDirectory(prefix="dra-") as directory,
        Containerd(release, Path(directory)).running() as containerd,
    ):
        (containerd.cdi_dir / "vendor.json").write_text(json.dumps(one_letter))
        deadline = time.monotonic() + 30
        while "panic: " not in containerd.log():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    assert not validates(one_letter)

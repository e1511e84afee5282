"""Whether a container runtime would accept a CDI spec, and if not, every reason with its place.

A runtime that refuses a spec reports only "unresolvable CDI devices" for the Pod, so this says what it does
not. The rules are those of the CDI loader (CDI pkg/cdi and specs-go), not of its JSON schema, which is far
more lenient; real runtimes are asked the same in tests/runtime/test_spec_rules.py. Where their decoders happen to take
more than CDI allows (names of fields in another case, 5 for "5", "v0.5.0", anything for an annotation) it is refused
here. Input is what a JSON or YAML parser returned; nothing about its shape is taken for granted.
"""

import re
from collections.abc import Mapping
from typing import Any

from dra_driver.cdi import names
from dra_driver.cdi.shapes import (
    Problems,
    SpecProblem,
    boolean,
    integer,
    list_of,
    matching,
    object_of,
    string,
    text,
)
from dra_driver.cdi.versions import VERSIONS, minimum_version

_HOOK_NAMES = ("createContainer", "createRuntime", "poststart", "poststop", "prestart", "startContainer")
_MAX_ANNOTATIONS_BYTES = 256 * 1024
_MAX_CLOS_ID = 4096
_ANNOTATION_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


def validate(body: object) -> list[SpecProblem]:
    """All reasons why runtimes refuse this parsed spec; empty where they accept it.

    Versions are compared only in a spec without other problems: what is malformed has no minimum version.
    """
    problems = list(_spec(body, ""))
    if not problems:
        assert isinstance(body, Mapping)
        problems += _version_fits(body)
    return problems


def _version_fits(body: Mapping[str, Any]) -> Problems:
    version, needed = body["cdiVersion"], minimum_version(body)
    if VERSIONS.index(version) < VERSIONS.index(needed):
        yield SpecProblem("cdiVersion", f"{version} is too old for what the spec contains: it needs {needed}")
    if version != "1.1.0":
        return
    edits = [("containerEdits", body.get("containerEdits"))]
    edits += [
        (f"devices[{i}].containerEdits", device.get("containerEdits"))
        for i, device in enumerate(body["devices"])
    ]
    for path, edit in edits:
        for name in ("enableCMT", "enableMBM"):
            if name in ((edit or {}).get("intelRdt") or {}):
                yield SpecProblem(f"{path}.intelRdt.{name}", "was dropped from the format in version 1.1.0")


def _environment(value: Any, path: str) -> Problems:
    if not isinstance(value, str) or value.find("=") < 1:
        yield SpecProblem(path, f"{value!r} is no environment variable: expected NAME=value")


def _clos_id(value: Any, path: str) -> Problems:
    bad = not isinstance(value, str) or value in {".", ".."} or "/" in value or "\n" in value
    if bad or len(value) >= _MAX_CLOS_ID:
        yield SpecProblem(path, f"{str(value)[:64]!r} is no class of service")


def _annotations(value: Any, path: str) -> Problems:
    if not isinstance(value, Mapping):
        yield from object_of({})(value, path)
        return
    size = 0
    for key, content in value.items():
        prefix, slash, name = str(key).lower().rpartition("/")
        if not _ANNOTATION_NAME.fullmatch(name) or (slash and not _SUBDOMAIN.fullmatch(prefix)):
            yield SpecProblem(f"{path}[{key!r}]", "is no annotation key: expected [domain/]name")
        yield from string(content, f"{path}[{key!r}]")
        size += len(f"{key}{content}".encode(errors="replace"))
    if size > _MAX_ANNOTATIONS_BYTES:
        yield SpecProblem(path, f"{size} bytes are more than {_MAX_ANNOTATIONS_BYTES}")


_uint32 = integer(0, 2**32 - 1)
_int64 = integer(-(2**63), 2**63 - 1)
_device_node = object_of(
    {
        "path": text,
        "hostPath": string,
        "type": matching({"", "b", "c", "u", "p"}.__contains__, "type of device node: expected b, c, u or p"),
        "major": _int64,
        "minor": _int64,
        "fileMode": _uint32,
        # "none" is for the library that also knows version 1.1.0, and refused by all older ones.
        "permissions": matching(
            lambda text: set(text) <= set("rwm"), 'set of permissions: expected some of "rwm"'
        ),
        "uid": _uint32,
        "gid": _uint32,
    },
    "path",
)
_mount = object_of(
    {"hostPath": text, "containerPath": text, "options": list_of(string), "type": string},
    "hostPath",
    "containerPath",
)
_hook = object_of(
    {
        "hookName": matching(_HOOK_NAMES.__contains__, f"hook: expected one of {', '.join(_HOOK_NAMES)}"),
        "path": text,
        "args": list_of(string),
        "env": list_of(_environment),
        "timeout": _int64,
    },
    "hookName",
    "path",
)
_net_device = object_of({"hostInterfaceName": text, "name": text}, "hostInterfaceName", "name")
_intel_rdt = object_of(
    {
        "closID": _clos_id,
        "l3CacheSchema": string,
        "memBwSchema": string,
        "schemata": list_of(string),
        "enableMonitoring": boolean,
        "enableCMT": boolean,
        "enableMBM": boolean,
    }
)
_edits = object_of(
    {
        "env": list_of(_environment),
        "deviceNodes": list_of(_device_node),
        "netDevices": list_of(_net_device, "hostInterfaceName", "name"),
        "mounts": list_of(_mount),
        "hooks": list_of(_hook),
        "additionalGids": list_of(_uint32),
        "intelRdt": _intel_rdt,
    }
)


def _edits_of_device(value: Any, path: str) -> Problems:
    yield from _edits(value, path)
    if isinstance(value, Mapping) and not any(
        edit or (edit is not None and name == "intelRdt") for name, edit in value.items()
    ):
        yield SpecProblem(path, "must not be empty: the device would change nothing")


_device = object_of(
    {
        "name": matching(names.is_device, "device name: letters, digits and _.:- between"),
        "annotations": _annotations,
        "containerEdits": _edits_of_device,
    },
    "name",
    "containerEdits",
)


def _devices(value: Any, path: str) -> Problems:
    yield from list_of(_device, "name")(value, path)
    if value == []:
        yield SpecProblem(path, "must name at least one device")


_spec = object_of(
    {
        "cdiVersion": matching(
            VERSIONS.__contains__, f"version of CDI: expected one of {', '.join(VERSIONS)}"
        ),
        "kind": matching(names.is_kind, "kind: expected vendor/class, each of two letters or more"),
        "annotations": _annotations,
        "devices": _devices,
        "containerEdits": _edits,
    },
    "cdiVersion",
    "kind",
    "devices",
)

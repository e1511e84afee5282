"""Whether a container runtime would accept a CDI spec, and if not, every reason with its place.

A runtime that refuses a spec reports only "unresolvable CDI devices" for the Pod, so this says what it does
not. The rules are those of the CDI loader (CDI pkg/cdi and specs-go), not of its JSON schema, which is far
more lenient. Input is what a JSON or YAML parser returned; nothing about its shape is taken for granted.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver.cdi import names
from dra_driver.cdi.spec import VERSIONS, minimum_version

HOOK_NAMES = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)
_UINT32, _INT64 = 2**32 - 1, 2**63 - 1
_MAX_ANNOTATIONS_BYTES = 256 * 1024
_MAX_CLOS_ID = 4096
_ANNOTATION_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One reason why a spec is refused; `path` is a JSON path such as `devices[0].name`, "" for the whole."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


Problems = Iterator[SpecProblem]
Check = Callable[[Any, str], Problems]


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


# What a value must be. Go's decoder takes null for "absent" everywhere.


def _string(value: Any, path: str) -> Problems:
    if not isinstance(value, str):
        yield SpecProblem(path, f"expected a string, not {_kind(value)}")


def _text(value: Any, path: str) -> Problems:
    if not isinstance(value, str) or not value:
        yield SpecProblem(path, "must be a non-empty string")


def _bool(value: Any, path: str) -> Problems:
    if not isinstance(value, bool):
        yield SpecProblem(path, f"expected true or false, not {_kind(value)}")


def _integer(low: int, high: int) -> Check:
    def check(value: Any, path: str) -> Problems:
        if isinstance(value, bool) or not isinstance(value, int):
            yield SpecProblem(path, f"expected an integer, not {_kind(value)}")
        elif not low <= value <= high:
            yield SpecProblem(path, f"{value} is not between {low} and {high}")

    return check


def _list(item: Check) -> Check:
    def check(value: Any, path: str) -> Problems:
        if not isinstance(value, list):
            yield SpecProblem(path, f"expected a list, not {_kind(value)}")
            return
        for i, element in enumerate(value):
            yield from item(element, f"{path}[{i}]")

    return check


def _object(fields: Mapping[str, Check], *required: str) -> Check:
    """An object of these fields alone."""

    def check(value: Any, path: str) -> Problems:
        if not isinstance(value, Mapping):
            yield SpecProblem(path, f"expected an object, not {_kind(value)}")
            return
        for name, element in value.items():
            if name not in fields:
                yield SpecProblem(_join(path, str(name)), "unknown field")
            elif element is not None:
                yield from fields[name](element, _join(path, name))
        for name in required:
            if value.get(name) is None:
                yield SpecProblem(_join(path, name), "is required")

    return check


def _matching(predicate: Callable[[str], bool], what: str) -> Check:
    def check(value: Any, path: str) -> Problems:
        if not isinstance(value, str) or not predicate(value):
            yield SpecProblem(path, f"{value!r} is no {what}")

    return check


def _environment(value: Any, path: str) -> Problems:
    if not isinstance(value, str) or value.find("=") < 1:
        yield SpecProblem(path, f"{value!r} is no environment variable: expected NAME=value")


def _clos_id(value: Any, path: str) -> Problems:
    bad = not isinstance(value, str) or value in {".", ".."} or "/" in value or "\n" in value
    if bad or len(value) >= _MAX_CLOS_ID:
        yield SpecProblem(path, f"{str(value)[:64]!r} is no class of service")


def _annotations(value: Any, path: str) -> Problems:
    if not isinstance(value, Mapping):
        yield SpecProblem(path, f"expected an object, not {_kind(value)}")
        return
    size = 0
    for key, text in value.items():
        prefix, slash, name = str(key).lower().rpartition("/")
        if not _ANNOTATION_NAME.fullmatch(name) or (slash and not _SUBDOMAIN.fullmatch(prefix)):
            yield SpecProblem(f"{path}[{key!r}]", "is no annotation key: expected [domain/]name")
        yield from _string(text, f"{path}[{key!r}]")
        size += len(str(key).encode()) + len(str(text).encode())
    if size > _MAX_ANNOTATIONS_BYTES:
        yield SpecProblem(path, f"{size} bytes are more than {_MAX_ANNOTATIONS_BYTES}")


_device_node = _object(
    {
        "path": _text,
        "hostPath": _string,
        "type": _matching(
            {"", "b", "c", "u", "p"}.__contains__, "type of device node: expected b, c, u or p"
        ),
        "major": _integer(-_INT64 - 1, _INT64),
        "minor": _integer(-_INT64 - 1, _INT64),
        "fileMode": _integer(0, _UINT32),
        "permissions": _matching(
            lambda text: text == "none" or set(text) <= set("rwm"),
            'set of permissions: expected some of "rwm"',
        ),
        "uid": _integer(0, _UINT32),
        "gid": _integer(0, _UINT32),
    },
    "path",
)
_mount = _object(
    {"hostPath": _text, "containerPath": _text, "options": _list(_string), "type": _string},
    "hostPath",
    "containerPath",
)
_hook = _object(
    {
        "hookName": _matching(
            HOOK_NAMES.__contains__, f"hook: expected one of {', '.join(sorted(HOOK_NAMES))}"
        ),
        "path": _text,
        "args": _list(_string),
        "env": _list(_environment),
        "timeout": _integer(-_INT64 - 1, _INT64),
    },
    "hookName",
    "path",
)
_net_device = _object({"hostInterfaceName": _text, "name": _text}, "hostInterfaceName", "name")
_intel_rdt = _object(
    {
        "closID": _clos_id,
        "l3CacheSchema": _string,
        "memBwSchema": _string,
        "schemata": _list(_string),
        "enableMonitoring": _bool,
        "enableCMT": _bool,
        "enableMBM": _bool,
    }
)
_edit_fields = _object(
    {
        "env": _list(_environment),
        "deviceNodes": _list(_device_node),
        "netDevices": _list(_net_device),
        "mounts": _list(_mount),
        "hooks": _list(_hook),
        "additionalGids": _list(_integer(0, _UINT32)),
        "intelRdt": _intel_rdt,
    }
)


def _edits(value: Any, path: str) -> Problems:
    yield from _edit_fields(value, path)
    devices = value.get("netDevices") if isinstance(value, Mapping) else None
    if isinstance(devices, list):
        for name in ("hostInterfaceName", "name"):
            yield from _unique(devices, name, f"{path}.netDevices")


def _device(value: Any, path: str) -> Problems:
    yield from _device_fields(value, path)
    if isinstance(value, Mapping) and value.get("containerEdits") == {}:
        yield SpecProblem(f"{path}.containerEdits", "must not be empty: the device would change nothing")


_device_fields = _object(
    {
        "name": _matching(names.is_device, "device name: letters, digits and _.:- between"),
        "annotations": _annotations,
        "containerEdits": _edits,
    },
    "name",
    "containerEdits",
)


def _devices(value: Any, path: str) -> Problems:
    yield from _list(_device)(value, path)
    if value == []:
        yield SpecProblem(path, "must name at least one device")
    if isinstance(value, list):
        yield from _unique(value, "name", path)


def _unique(items: list[Any], field: str, path: str) -> Problems:
    seen: dict[str, int] = {}
    for i, item in enumerate(items):
        value = item.get(field) if isinstance(item, Mapping) else None
        if isinstance(value, str) and seen.setdefault(value, i) != i:
            yield SpecProblem(f"{path}[{i}].{field}", f"{value!r} stands at [{seen[value]}] already")


_spec = _object(
    {
        "cdiVersion": _matching(
            VERSIONS.__contains__, f"version of CDI: expected one of {', '.join(VERSIONS)}"
        ),
        "kind": _matching(names.is_kind, "kind: expected vendor/class"),
        "annotations": _annotations,
        "devices": _devices,
        "containerEdits": _edits,
    },
    "cdiVersion",
    "kind",
    "devices",
)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"

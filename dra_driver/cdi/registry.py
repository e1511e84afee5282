"""The CDI devices of a node, as a container runtime finds them.

These are the rules of the CDI library that containerd and CRI-O use (pkg/cdi, cache.go): files directly in the
spec directories, names that end in .json or .yaml, both read as YAML; a file with any problem is skipped whole;
a device in a later directory shadows that in an earlier one; a device that stands in two files of the same
directory is dropped, even where a later directory has it too. The runtime only logs what it skipped, so all
that a Pod shows is that a device cannot be resolved; `Registry.problems` keeps the reasons.

Directories are read anew for each container, as runtimes refresh their cache before they inject: so a spec that
comes too late, or goes too early, is noticed.
"""

import json
import re
import stat
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dra_driver.cdi.validate import validate

# What Go's YAML library takes for no text.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Every escape of JSON, and as the group, if it has none in YAML: a slash, and half a character beyond U+FFFF.
_ESCAPES = re.compile(r"\\(?:(/|u[dD][89a-fA-F][0-9a-fA-F]{2})|.)")


@dataclass(frozen=True, slots=True)
class Device:
    """A device and the file that has it; both as parsed, and valid."""

    spec: Mapping[str, Any]
    edits: Mapping[str, Any]
    path: Path
    priority: int


@dataclass(frozen=True, slots=True)
class Registry:
    """Devices by qualified name, and why files or devices were left out, by path."""

    devices: Mapping[str, Device]
    problems: Mapping[Path, tuple[str, ...]]


def load(directories: Sequence[Path]) -> Registry:
    """Read all spec files; later directories have priority."""
    devices: dict[str, Device] = {}
    conflicts: set[str] = set()
    problems: dict[Path, list[str]] = {}
    for priority, directory in enumerate(directories):
        for path in _spec_files(directory):
            try:
                spec = read_spec(path)
            except (OSError, ValueError) as error:
                problems.setdefault(path, []).append(f"failed to load CDI Spec {error}")
                continue
            for entry in spec["devices"]:
                name = f"{spec['kind']}={entry['name']}"
                other = devices.get(name)
                if other is not None and other.priority == priority:
                    conflicts.add(name)
                    text = f'conflicting device "{name}" (specs "{path}", "{other.path}")'
                    for place in (path, other.path):
                        problems.setdefault(place, []).append(text)
                    continue
                devices[name] = Device(spec, entry["containerEdits"], path, priority)
    kept = {name: device for name, device in devices.items() if name not in conflicts}
    return Registry(kept, {path: tuple(texts) for path, texts in problems.items()})


def _spec_files(directory: Path) -> Iterator[Path]:
    """In lexical order, as filepath.Walk goes; a directory that cannot be read is as good as empty."""
    try:
        paths = sorted(directory.iterdir())
    except OSError:
        return
    for path in paths:
        is_folder = path.is_dir() and not path.is_symlink()
        if is_spec_name(path.name) and not is_folder:
            yield path


def read_spec(path: Path) -> Mapping[str, Any]:
    """The spec in a file; ValueError with all that is wrong with it, OSError where it cannot be read."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no regular file")  # of a pipe, a read would not end
    return spec_of(path.read_text(encoding="utf-8"))


def spec_of(text: str) -> Mapping[str, Any]:
    """The spec in a file's text; ValueError with all that is wrong with it."""
    body = parse(text)
    problems = validate(body)
    if problems:
        raise ValueError("; ".join(str(problem) for problem in problems))
    assert isinstance(body, Mapping)
    return body


def parse(text: str) -> object:
    """What a file's text says, in JSON or YAML; ValueError where it is neither."""
    try:
        return _json_or_yaml(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _json_or_yaml(text: str) -> object:
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        raise ValueError(f"the character {forbidden[0]!r} may not stand in it")
    try:
        body = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError:
        try:
            return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
        except yaml.YAMLError as error:
            raise ValueError(" ".join(str(error).split())) from error
    for escape in filter(None, _ESCAPES.findall(text)):
        raise ValueError(f'runtimes read JSON as YAML, which has no "\\{escape}"')
    return body


def is_spec_name(name: str) -> bool:
    """Whether a file of this name is a spec file."""
    return name.endswith((".json", ".yaml"))


def _unique(pairs: list[tuple[Hashable, Any]]) -> dict[Hashable, Any]:
    """The strict decoder takes no key twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


class _StrictLoader(yaml.SafeLoader):
    """YAML by the same rule."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        self.flatten_mapping(node)
        pairs = [(self.construct_object(key, deep=True), value) for key, value in node.value]
        if not all(isinstance(key, Hashable) for key, _ in pairs):
            raise ValueError("a key is a list or an object")
        return _unique([(key, self.construct_object(value, deep=deep)) for key, value in pairs])

"""Objects of YAML and JSON files, as an API server would hold them: converted to v1, and refused where it would refuse.

Files are what people write and what `kubectl get -o yaml` dumps, so Lists are taken apart. What nobody could have
meant to read (aliases that grow without bound, deep nesting, undue size) is refused before it costs anything.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import yaml

from dra_driver.cli.core_objects import core_object, name_in
from dra_driver.cli.sources import read_sources
from dra_driver.errors import UsageError
from dra_driver.resource.conversion import convert, is_convertible
from dra_driver.resource.validation import validate
from dra_driver.selectors import compile_selector
from dra_driver.yamlevents import text_of

MAX_BYTES = 64 << 20  # a dump of the slices of some 2,000 nodes
_MAX_NODES = 8_000_000  # values of a document, aliases counted as often as they are used
_MAX_DEPTH = 64
_KINDS = frozenset({"ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"})
_SHOWN_PROBLEMS = 3

_TAG = "tag:yaml.org,2002:"

Object = dict[str, Any]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Leaves times as text, as JSON has them, and what YAML 1.1 takes for numbers in base 60: 0000:07:00.0, 12:30."""

    yaml_implicit_resolvers: ClassVar = {
        first: [
            (tag, re.compile(f"(?!.*:){pattern.pattern}", re.VERBOSE))
            if tag in {f"{_TAG}int", f"{_TAG}float"}
            else (tag, pattern)
            for tag, pattern in known
            if tag != f"{_TAG}timestamp"
        ]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_objects(names: Sequence[str], *, lists: bool = False) -> list[Object]:
    """The objects of files, of all YAML and JSON files below directories, and of standard input for "-".

    `lists`: whether attributes may be lists of values. UsageError names the file and what is wrong in it.
    """
    checked = (_checked(document, source, lists=lists) for source, document in documents(names))
    return [obj for obj in checked if obj is not None]


def documents(names: Sequence[str]) -> Iterator[tuple[str, Object]]:
    """Each object of the files as it stands there, after the name of its file; errors as of `read_objects`."""
    for source, data in read_sources(names, MAX_BYTES, stdin_name="standard input"):
        for document in _parsed(text_of(data, source, MAX_BYTES), source):
            _bounded(document, source)
            for item in _items(document, source):
                yield source, item


def _parsed(text: str, source: str) -> list[Any]:
    try:
        if text.lstrip().startswith("{"):
            try:
                return [json.loads(text)]
            except ValueError:
                pass  # YAML's flow style looks the same at its start
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}, line {mark.line + 1}, column {mark.column + 1}" if mark else source
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise UsageError(f"{place}: expected YAML: {problem}") from error
    except RecursionError:
        raise UsageError(f"{source}: expected a manifest, found one that nests too deeply") from None
    except ValueError as error:
        raise UsageError(f"{source}: expected YAML: {error}") from error


def _bounded(root: Any, source: str) -> None:
    """Refuse what is larger or deeper than it looks: every alias is walked once, and counted each time."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()

    def size(value: Any, depth: int) -> int:
        if not isinstance(value, (dict, list)):
            return 1
        known = sizes.get(id(value))
        if known is not None:
            return known
        if id(value) in open_ or depth > _MAX_DEPTH:
            raise UsageError(f"{source}: expected a manifest, found one that nests too deeply")
        open_.add(id(value))
        children = value.values() if isinstance(value, dict) else value
        total = 1 + sum(size(child, depth + 1) for child in children)
        open_.discard(id(value))
        sizes[id(value)] = total
        return total

    if size(root, 0) > _MAX_NODES:
        raise UsageError(f"{source}: expected a manifest, found aliases that grow without bound")


def _items(document: Any, source: str) -> Iterator[Object]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise UsageError(f"{source}: expected objects with apiVersion and kind, found something else")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        # Items of typed lists are written without kind.
        implied = {"apiVersion": document.get("apiVersion"), "kind": document["kind"].removesuffix("List")}
        for item in document["items"]:
            typed = isinstance(item, dict) and document["kind"] != "List"
            yield from _items({**implied, **item} if typed else item, source)
        return
    yield document


def _checked(obj: Object, source: str, *, lists: bool) -> Object | None:
    """The object as a server would hold it; None for kinds that nothing here looks at."""
    if is_convertible(obj):
        try:
            converted = convert(obj, "v1")
        except (AttributeError, TypeError):  # of no shape that could be converted: validation says where
            converted = {**obj, "apiVersion": "resource.k8s.io/v1"}
        found = validate(converted, compile_selector=partial(compile_selector, lists=lists), lists=lists)
        problems = [str(problem) for problem in found]
        if problems:
            shown = "; ".join(" ".join(problem.split()) for problem in problems[:_SHOWN_PROBLEMS])
            more = f"; and {len(problems) - _SHOWN_PROBLEMS} more" if len(problems) > _SHOWN_PROBLEMS else ""
            raise UsageError(
                f"{source}: an API server refuses {obj['kind']} {name_in(obj)}: {shown}{more}"
                " (dra-driver lint says more)"
            )
        return _complete(converted)
    if str(obj.get("apiVersion") or "").startswith("resource.k8s.io/") and obj["kind"] in _KINDS:
        raise UsageError(
            f"{source}: {obj['kind']} {name_in(obj)} is of {obj['apiVersion']}, which is not known"
        )
    return core_object(obj, source)


def _complete(obj: Object) -> Object:
    """A valid object with all that may be left out and is looked at."""
    metadata = {**obj["metadata"]}
    metadata.setdefault("name", f"{metadata.get('generateName', '')}x")
    spec = obj.get("spec") or {}
    if obj["kind"] == "ResourceClaimTemplate":
        spec = {**spec, "spec": spec.get("spec") or {}}
    return {**obj, "metadata": metadata, "spec": spec, "status": obj.get("status") or {}}

"""/openapi/v3: the schemas of `schema` as kubectl wants them for apply, validation and explain.

kubectl looks for two things: a kind's schema (by its x-kubernetes-group-version-kind) with the merge keys, and a
PATCH operation of the kind with a `fieldValidation` parameter, which tells it to leave validation to the server.
/openapi/v2 exists for real servers only as protobuf for kubectl; here it is 404, and kubectl does without.
"""

import dataclasses
import functools
from typing import Any

from dra_driver.embedded.apiserver import schema
from dra_driver.embedded.apiserver.kinds import KINDS, Kind, groups
from dra_driver.embedded.apiserver.storage import encode

_COMPONENTS = "#/components/schemas/"
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def index() -> dict[str, Any]:
    """/openapi/v3: where the document of each group version is."""
    places = [
        f"apis/{group}/{version}" if group else f"api/{version}"
        for group, versions in groups().items()
        for version in versions
    ]
    return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in places}}


@functools.cache
def document(group: str, version: str) -> bytes | None:
    """/openapi/v3/apis/GROUP/VERSION, encoded; None for a version that is not served."""
    if version not in groups().get(group, []):
        return None
    kinds = [kind for kind in KINDS if kind.resource.group == group and version in kind.versions]
    return encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.37.0-embedded"},
            "paths": dict(_object(kind, version) for kind in kinds),
            "components": {"schemas": _schemas(kinds, version)},
        }
    )


def _named(kind: Kind, version: str) -> dict[str, str]:
    return {"group": kind.resource.group, "version": version, "kind": kind.resource.kind}


def _object(kind: Kind, version: str) -> tuple[str, dict[str, Any]]:
    """The path of an object, and the operations on it as far as kubectl asks for them."""
    patch = {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _named(kind, version),
    }
    resource = dataclasses.replace(kind.resource, version=version)
    return resource.path("{namespace}", "{name}"), {"patch": patch}


def _schemas(kinds: list[Kind], version: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    todo = {kind.definition_in(version) for kind in kinds}
    while todo:
        name = todo.pop()
        found[name] = _referring(schema.definitions()[name], todo)
        todo -= found.keys()
    for kind in kinds:
        found[kind.definition_in(version)]["x-kubernetes-group-version-kind"] = [_named(kind, version)]
    return found


def _referring(node: Any, names: set[str]) -> Any:
    """A schema with its references as a document needs them; collects their names."""
    if isinstance(node, list):
        return [_referring(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        names.add(node["$ref"])
        return {**node, "$ref": _COMPONENTS + node["$ref"]}
    return {key: _referring(value, names) for key, value in node.items()}

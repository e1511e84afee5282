"""/openapi/v3: the schemas of `schema` as kubectl wants them for apply, validation and explain.

kubectl looks for three things: a kind's schema (by its x-kubernetes-group-version-kind) with the merge keys,
a PATCH operation of the kind with a `fieldValidation` parameter, which tells it to leave validation to the
server, and the paths. /openapi/v2 exists for real servers only as protobuf for kubectl; here it is 404, and
kubectl does without.
"""

import functools
import hashlib
from typing import Any

from dra_driver.embedded.apiserver import schema
from dra_driver.embedded.apiserver.kinds import KINDS, Kind, groups
from dra_driver.embedded.apiserver.storage import encode

_COMPONENTS = "#/components/schemas/"
_PARAMETERS = {
    "get": ("pretty",),
    "put": ("dryRun", "fieldManager", "fieldValidation"),
    "post": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
}


def index() -> dict[str, Any]:
    """/openapi/v3: where the document of each group version is."""
    paths = {}
    for group, versions in groups().items():
        for version in versions:
            place = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(document(group, version) or b"").hexdigest().upper()
            paths[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest}"}
    return {"paths": paths}


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
            "paths": {path: item for kind in kinds for path, item in _paths(kind, version).items()},
            "components": {"schemas": _schemas(kinds, version)},
        }
    )


def _paths(kind: Kind, version: str) -> dict[str, Any]:
    gvk = {"group": kind.resource.group, "version": version, "kind": kind.resource.kind}
    root = f"/apis/{kind.resource.group}/{version}" if kind.resource.group else f"/api/{version}"
    if kind.resource.namespaced:
        root += "/namespaces/{namespace}"
    collection = f"{root}/{kind.resource.plural}"
    return {
        collection: {method: _operation(kind, method, gvk) for method in ("get", "post", "delete")},
        f"{collection}/{{name}}": {
            method: _operation(kind, method, gvk) for method in ("get", "put", "patch", "delete")
        },
    }


def _operation(kind: Kind, method: str, gvk: dict[str, str]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _COMPONENTS + kind.definition_in(gvk["version"])}}}
    return {
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS[method]
        ],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": gvk,
    }


def _schemas(kinds: list[Kind], version: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    todo = {kind.definition_in(version) for kind in kinds}
    while todo:
        name = todo.pop()
        found[name] = _referring(schema.definitions()[name], todo)
        todo -= found.keys()
    for kind in kinds:
        gvk = {"group": kind.resource.group, "version": version, "kind": kind.resource.kind}
        name = kind.definition_in(version)
        found[name] = {**found[name], "x-kubernetes-group-version-kind": [gvk]}
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

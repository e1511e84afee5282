"""/openapi/v3: the schemas of `schema` as kubectl wants them for apply, validation and explain.

kubectl looks for two things: a kind's schema (by its x-kubernetes-group-version-kind) with the merge keys, and a
PATCH operation of the kind with a `fieldValidation` parameter, which tells it to leave validation to the server.
/openapi/v2 exists for real servers only as protobuf for kubectl; here it is 404, and kubectl does without.
"""

import dataclasses
import functools
from typing import Any

from dra_driver.embedded.apiserver import schema
from dra_driver.embedded.apiserver.kinds import KINDS, groups
from dra_driver.embedded.apiserver.storage import encode

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
    paths: dict[str, Any] = {}
    schemas = dict(schema.definitions())
    for kind in KINDS:
        if kind.resource.group != group or version not in kind.versions:
            continue
        named = {"group": group, "version": version, "kind": kind.resource.kind}
        patch = {
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS
            ],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": named,
        }
        resource = dataclasses.replace(kind.resource, version=version)
        paths[resource.path("{namespace}", "{name}")] = {"patch": patch}
        definition = kind.definition_in(version)
        schemas[definition] = {**schemas[definition], "x-kubernetes-group-version-kind": [named]}
    info = {"title": "Kubernetes", "version": "v1.37.0-embedded"}
    return encode({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}})

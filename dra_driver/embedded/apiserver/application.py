"""Requests to answers: the API without its transport.

`Application.handle` takes a parsed HTTP request and returns an answer with a body or a stream. Refusals are
raised as StatusError; the transport turns them into Status objects.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import yaml

from dra_driver.embedded.apiserver import (
    discovery,
    openapi,
    protobuf,
    registry,
    schema,
    status,
)
from dra_driver.embedded.apiserver.answers import Answer, Answers, Request
from dra_driver.embedded.apiserver.deletion import Deletion, current
from dra_driver.embedded.apiserver.kinds import POD
from dra_driver.embedded.apiserver.options import delete_options, flag, write_options
from dra_driver.embedded.apiserver.paths import Target
from dra_driver.embedded.apiserver.registry import Registry
from dra_driver.embedded.apiserver.storage import Storage, encode

_PATCHES = (registry.JSON_PATCH, registry.MERGE_PATCH, registry.STRATEGIC_PATCH, *registry.APPLY[:1])
_BINDINGS = "/bindings"
_BINDING = "io.k8s.api.core.v1.Binding"
_EVICTION = "io.k8s.api.policy.v1.Eviction"
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_ACCEPTED = re.compile(r"(application|\*)/(json|\*)")


def verb(request: Request, target: Target | None) -> str:
    """The request's verb as RBAC and faults name it."""
    named = target is None or target.name is not None
    if request.method == "GET":
        if named:
            return "get"
        return "watch" if flag(request.query, "watch") else "list"
    if request.method == "DELETE" and not named:
        return "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]


class Application:
    """The API server's answers."""

    def __init__(
        self, storage: Storage, objects: Registry, deletion: Deletion, address: Callable[[], str]
    ) -> None:
        self._storage = storage
        self._registry = objects
        self._deletion = deletion
        self._answers = Answers(storage)
        self._address = address

    def handle(self, request: Request, target: Target | None) -> Answer:
        """Answer one request; `target` is what its path names, None for what is no resource."""
        if target is not None:
            if not _ACCEPTED.search(request.accept):
                text = "406: Not Acceptable\n\nAvailable representations: application/json"
                raise status.StatusError(406, "NotAcceptable", text, {})
            method = getattr(self, f"_{verb(request, target)}")
            answer: Answer = method(request, target)
            return answer
        if (
            request.method == "POST"
            and request.path.startswith("/api/v1/")
            and request.path.endswith(_BINDINGS)
        ):
            return self._bind_by_body(request)
        return self._about(request)

    # What is no resource

    def _about(self, request: Request) -> Answer:
        parts = request.path.strip("/").split("/")
        if request.method != "GET":
            raise status.method_not_allowed() if parts[0] in {"api", "apis"} else status.no_such_resource()
        if parts[0] in {"healthz", "livez", "readyz"}:
            return Answer(b"ok", content_type="text/plain; charset=utf-8")
        found: Any = None
        if parts == ["version"]:
            found = discovery.version()
        elif len(parts) == 1 and parts[0] in {"api", "apis"}:
            if "as=APIGroupDiscoveryList" in request.accept and "v=v2" in request.accept:
                aggregated = discovery.aggregated(core=parts[0] == "api")
                return Answer(encode(aggregated), content_type=discovery.AGGREGATED)
            found = discovery.api_versions(self._address()) if parts[0] == "api" else discovery.group_list()
        elif parts[0] == "api" and len(parts) == 2:
            found = discovery.resource_list("", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.group(parts[1])
            found = found and {"kind": "APIGroup", "apiVersion": "v1", **found}
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.resource_list(parts[1], parts[2])
        elif parts[:2] == ["openapi", "v3"]:
            return _openapi(parts[2:])
        if found is None:
            if parts[0] in {"api", "apis"} and len(parts) > 3:
                raise status.no_such_resource()
            return Answer(b"404 page not found\n", 404, "text/plain; charset=utf-8")
        return Answer(encode(found))

    def _bind_by_body(self, request: Request) -> Answer:
        parts = request.path.strip("/").split("/")
        if len(parts) != 5 or parts[2] != "namespaces":
            raise status.no_such_resource()
        body = _typed(request, _BINDING)
        name = (body.get("metadata") or {}).get("name", "")
        return self._bind(request, (parts[3], name), body)

    def _bind(self, request: Request, key: tuple[str, str], body: Any) -> Answer:
        options = write_options(request.query, "CreateOptions", request.user_agent)
        self._registry.bind(key, body, options)
        return Answer(_success(201), 201)

    # Reading

    def _get(self, request: Request, target: Target) -> Answer:
        if target.subresource not in {None, "status"} or (target.subresource and not target.kind.has_status):
            raise status.no_such_resource()
        return self._answers.one(request, target, current(self._storage, target.kind, target.key))

    def _list(self, request: Request, target: Target) -> Answer:
        return self._answers.listing(request, target)

    def _watch(self, request: Request, target: Target) -> Answer:
        return self._answers.watch(request, target)

    # Writing

    def _create(self, request: Request, target: Target) -> Answer:
        if target.subresource is not None:
            return self._post_below(request, target)
        body = _decoded(request, target.kind.resource.kind)
        if target.name is not None:
            raise status.method_not_allowed()
        if target.kind.resource.namespaced and target.namespace is None:
            raise status.method_not_allowed()
        options = write_options(request.query, "CreateOptions", request.user_agent)
        stored = self._registry.create(target.kind, target.version, target.namespace or "", body, options)
        return self._answers.one(request, target, stored, code=201, warnings=options.warnings)

    def _post_below(self, request: Request, target: Target) -> Answer:
        if target.subresource not in target.kind.subresources:
            raise status.no_such_resource()
        if target.subresource == "binding":
            return self._bind(request, target.key, _typed(request, _BINDING))
        asked = _typed(request, _EVICTION).get("deleteOptions") or {}
        self._deletion.delete(POD, target.key, delete_options(request.query, asked))
        return Answer(_success(201), 201)

    def _update(self, request: Request, target: Target) -> Answer:
        self._check_writable(target)
        options = write_options(request.query, "UpdateOptions", request.user_agent)
        stored = self._registry.update(
            target.kind,
            target.version,
            target.key,
            _decoded(request, target.kind.resource.kind),
            target.subresource,
            options,
        )
        return self._answers.one(request, target, stored, warnings=options.warnings)

    def _patch(self, request: Request, target: Target) -> Answer:
        self._check_writable(target)
        content_type = request.content_type.split(";")[0].strip()
        if content_type not in _PATCHES:
            raise status.StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        applies = content_type in registry.APPLY
        options = write_options(request.query, "PatchOptions", request.user_agent, applies=applies)
        stored, created = self._registry.patch(
            target.kind,
            target.version,
            target.key,
            _decoded(request),
            content_type,
            target.subresource,
            options,
        )
        code = 201 if created else 200
        return self._answers.one(request, target, stored, code=code, warnings=options.warnings)

    def _check_writable(self, target: Target) -> None:
        if target.name is None:
            raise status.method_not_allowed()
        if target.subresource is not None and not (target.subresource == "status" and target.kind.has_status):
            raise status.no_such_resource()

    def _delete(self, request: Request, target: Target) -> Answer:
        if target.subresource is not None:
            raise status.method_not_allowed()
        options = delete_options(request.query, _typed(request, _DELETE_OPTIONS) if request.body else {})
        stored, gone = self._deletion.delete(target.kind, target.key, options)
        if gone and not target.kind.returns_deleted:
            resource, uid = target.kind.resource, stored.obj["metadata"]["uid"]
            return Answer(encode(status.success(resource, target.key[1], uid)))
        return self._answers.one(request, target, stored)

    def _deletecollection(self, request: Request, target: Target) -> Answer:
        options = delete_options(request.query, _typed(request, _DELETE_OPTIONS) if request.body else {})
        selector = self._answers.selector(request, target)
        deleted = self._deletion.delete_collection(target.kind, target.namespace, selector, options)
        metadata = {"resourceVersion": str(self._storage.revision)}
        return self._answers.many(request, target, deleted, metadata)


def _openapi(parts: list[str]) -> Answer:
    if not parts:
        return Answer(encode(openapi.index()))
    document = None
    if parts[0] == "api" and len(parts) == 2:
        document = openapi.document("", parts[1])
    elif parts[0] == "apis" and len(parts) == 3:
        document = openapi.document(parts[1], parts[2])
    if document is None:
        return Answer(b"404 page not found\n", 404, "text/plain; charset=utf-8")
    return Answer(document)


class _YamlLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: what looks like a time stays text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _decoded(request: Request, kind: str | None = None) -> Any:
    """The request's body, whatever it is; refusals name the `kind` that was expected, or a patch.

    JSON is YAML too, and much faster to read.
    """
    if "protobuf" in request.content_type:
        return protobuf.decode(request.body)
    if "cbor" in request.content_type:
        raise status.StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    try:
        return json.loads(request.body)
    except ValueError as error:
        if "yaml" not in request.content_type:
            raise _unreadable(request.body, kind) from error
    try:
        return yaml.load(request.body, Loader=_YamlLoader)  # noqa: S506 - a safe loader
    except (ValueError, yaml.YAMLError) as error:
        raise _unreadable(request.body, kind) from error


def _unreadable(body: bytes, kind: str | None) -> status.StatusError:
    fault = "unexpected end of JSON input"
    if kind is None:
        return status.bad_request(f"error decoding patch: {fault}")
    found = body[:64].decode(errors="replace") or "<empty>"
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
        f"json parse error: {fault} ({found})"
    )


def _typed(request: Request, definition: str) -> dict[str, Any]:
    """A body of a kind that is not stored."""
    kind = definition.rsplit(".", 1)[-1]
    body = _decoded(request, kind)
    if not isinstance(body, dict):
        raise _unreadable(request.body, kind)
    value: dict[str, Any] = schema.decode(body, definition, "v1").value
    return value


def _success(code: int) -> bytes:
    return encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})

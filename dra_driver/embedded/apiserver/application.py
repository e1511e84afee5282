"""Requests to answers: the API without its transport.

`Application.handle` takes a parsed HTTP request and returns an answer with a body or a stream. Refusals are
raised as StatusError; the transport turns them into Status objects.
"""

import re
from typing import Any

from dra_driver.embedded.apiserver import bodies, discovery, openapi, registry, status
from dra_driver.embedded.apiserver.answers import Answer, Answers, Request
from dra_driver.embedded.apiserver.binding import bind
from dra_driver.embedded.apiserver.deletion import Deletion, current
from dra_driver.embedded.apiserver.kinds import POD
from dra_driver.embedded.apiserver.options import delete_options, flag, write_options
from dra_driver.embedded.apiserver.paths import Target
from dra_driver.embedded.apiserver.registry import Registry
from dra_driver.embedded.apiserver.storage import Storage, encode

_PATCHES = (registry.JSON_PATCH, registry.MERGE_PATCH, registry.STRATEGIC_PATCH, registry.APPLY)
_BINDING = "io.k8s.api.core.v1.Binding"
_EVICTION = "io.k8s.api.policy.v1.Eviction"
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_TEXT = "text/plain; charset=utf-8"
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

    def __init__(self, storage: Storage, objects: Registry, deletion: Deletion) -> None:
        self._storage = storage
        self._registry = objects
        self._deletion = deletion
        self._answers = Answers(storage)

    def handle(self, request: Request, target: Target | None) -> Answer:
        """Answer one request; `target` is what its path names, None for what is no resource."""
        if target is not None:
            if not _ACCEPTED.search(request.accept):
                text = "406: Not Acceptable\n\nAvailable representations: application/json"
                raise status.StatusError(406, "NotAcceptable", text, {})
            method = getattr(self, f"_{verb(request, target)}")
            answer: Answer = method(request, target)
            return answer
        return self._about(request)

    # What is no resource

    def _about(self, request: Request) -> Answer:
        parts = request.path.strip("/").split("/")
        if request.method != "GET":
            raise status.method_not_allowed() if parts[0] in {"api", "apis"} else status.no_such_resource()
        found: Any = None
        match parts:
            case ["healthz" | "livez" | "readyz", *_]:
                return Answer(b"ok", content_type=_TEXT)
            case ["version"]:
                found = discovery.version()
            case ["api"]:
                found = discovery.api_versions()
            case ["apis"]:
                found = discovery.group_list()
            case ["api", version]:
                found = discovery.resource_list("", version)
            case ["apis", group]:
                found = discovery.group(group)
            case ["apis", group, version]:
                found = discovery.resource_list(group, version)
            case ["openapi", "v3"]:
                found = openapi.index()
            case ["openapi", "v3", "api", version]:
                found = openapi.document("", version)
            case ["openapi", "v3", "apis", group, version]:
                found = openapi.document(group, version)
            case ["api", _, _, *_] | ["apis", _, _, _, *_]:
                raise status.no_such_resource()
        if found is None:
            return Answer(b"404 page not found\n", 404, _TEXT)
        return Answer(found if isinstance(found, bytes) else encode(found))

    # Reading

    def _get(self, request: Request, target: Target) -> Answer:
        self._check_named(target)
        return self._answers.one(request, target, current(self._storage, target.kind, target.key))

    def _list(self, request: Request, target: Target) -> Answer:
        return self._answers.listing(request, target)

    def _watch(self, request: Request, target: Target) -> Answer:
        return self._answers.watch(request, target)

    # Writing

    def _create(self, request: Request, target: Target) -> Answer:
        if target.subresource is not None:
            return self._post_below(request, target)
        body = bodies.decode(request, target.kind.resource.kind)
        if target.name is not None:
            raise status.method_not_allowed()
        if target.kind.resource.namespaced and target.namespace is None:
            raise status.method_not_allowed()
        options = write_options(request.query, "CreateOptions", request.user_agent)
        stored = self._registry.create(target, body, options)
        return self._answers.one(request, target, stored, code=201, warnings=options.warnings)

    def _post_below(self, request: Request, target: Target) -> Answer:
        if target.subresource not in target.kind.subresources:
            raise status.no_such_resource()
        if target.subresource == "binding":
            options = write_options(request.query, "CreateOptions", request.user_agent)
            body = bodies.decode_typed(request, _BINDING)
            bind(self._storage, self._deletion, target.key, body, dry_run=options.dry_run)
        else:
            asked = bodies.decode_typed(request, _EVICTION).get("deleteOptions") or {}
            self._deletion.delete(POD, target.key, delete_options(request.query, asked))
        done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Answer(encode(done), 201)

    def _update(self, request: Request, target: Target) -> Answer:
        self._check_named(target)
        options = write_options(request.query, "UpdateOptions", request.user_agent)
        body = bodies.decode(request, target.kind.resource.kind)
        stored = self._registry.update(target, body, options)
        return self._answers.one(request, target, stored, warnings=options.warnings)

    def _patch(self, request: Request, target: Target) -> Answer:
        self._check_named(target)
        content_type = request.content_type.split(";")[0].strip()
        if content_type not in _PATCHES:
            raise status.StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        applies = content_type == registry.APPLY
        options = write_options(request.query, "PatchOptions", request.user_agent, applies=applies)
        stored, created = self._registry.patch(target, bodies.decode(request), content_type, options)
        code = 201 if created else 200
        return self._answers.one(request, target, stored, code=code, warnings=options.warnings)

    def _check_named(self, target: Target) -> None:
        """Hold that a path names an object, or the status of one that has any."""
        if target.name is None:
            raise status.method_not_allowed()
        if target.subresource is not None and not (target.subresource == "status" and target.kind.has_status):
            raise status.no_such_resource()

    def _delete(self, request: Request, target: Target) -> Answer:
        if target.subresource is not None:
            raise status.method_not_allowed()
        options = delete_options(
            request.query, bodies.decode_typed(request, _DELETE_OPTIONS) if request.body else {}
        )
        stored, gone = self._deletion.delete(target.kind, target.key, options)
        if gone and not target.kind.returns_deleted:
            resource, uid = target.kind.resource, stored.obj["metadata"]["uid"]
            return Answer(encode(status.success(resource, target.key[1], uid)))
        return self._answers.one(request, target, stored)

    def _deletecollection(self, request: Request, target: Target) -> Answer:
        options = delete_options(
            request.query, bodies.decode_typed(request, _DELETE_OPTIONS) if request.body else {}
        )
        selector = self._answers.selector(request, target)
        deleted = self._deletion.delete_collection(target.kind, target.namespace, selector, options)
        metadata = {"resourceVersion": str(self._storage.revision)}
        return self._answers.many(request, target, deleted, metadata)

"""The verbs of the Kubernetes API: plain dicts in and out, from any thread.

Plain dicts, because typed models drop the fields they do not know, and a slice that is read, changed and
written back through them loses what a newer server added. Errors name the verb, the kind and the object; what
is tried again is the caller's to decide (see `kube.transport`).
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote, urlencode

from dra_driver import __version__, strictjson
from dra_driver.errors import UnavailableError, UsageError, one_line
from dra_driver.kube import config
from dra_driver.kube.endpoint import Endpoint
from dra_driver.kube.errors import from_status
from dra_driver.kube.resources import Resource
from dra_driver.kube.transport import Transport

USER_AGENT = f"dra-driver/{__version__}"
APPLY = "application/apply-patch+yaml"  # server-side apply; JSON is a part of YAML
_WATCH_GRACE_SECONDS = 15.0  # a watch is silent for at most the time it asked for; then the peer is dead
_EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change; of a BOOKMARK's object only metadata.resourceVersion means something."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: dict[str, Any]


class Client:
    """Access to one API server. Refusals are `kube.errors`, silence is UnavailableError."""

    def __init__(self, endpoint: Endpoint, *, timeout: float = 10.0) -> None:
        """`timeout`: seconds to wait for each part of an answer."""
        self._transport = Transport(endpoint, user_agent=USER_AGENT, timeout=timeout)

    @classmethod
    def connect(cls, kubeconfig: Path | None = None, *, timeout: float = 10.0) -> Self:
        """A client by `kubeconfig`, or (None) for the cluster this Pod runs in; UsageError says what is wrong.

        No request is sent yet: the server may be away for now.
        """
        endpoint = config.in_cluster() if kubeconfig is None else config.from_kubeconfig(kubeconfig)
        try:
            return cls(endpoint, timeout=timeout)
        except UnavailableError as error:
            # Certificates that rotate may be half-written later on, but at start they are the user's to mend.
            raise UsageError(one_line(error)) from error

    def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        loads: Callable[[bytes], Any] = strictjson.loads_plain,
    ) -> dict[str, Any]:
        """The object; `loads` reads its JSON."""
        attempt = _Attempt("get", resource, name, namespace)
        return self._transport.request("GET", attempt.path(), attempt, loads=loads)

    def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
    ) -> dict[str, Any]:
        """The whole list object, in its newest state; items carry apiVersion and kind, which the server leaves out."""
        return next(
            self.pages(
                resource, namespace=namespace, field_selector=field_selector, label_selector=label_selector
            )
        )

    def pages(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
        limit: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """What `list` returns in pages of `limit` items, for those who do not want to hold all of it at once.

        All pages are of one state of the server, whose resource version each of them carries. GoneError: it has changed
        for so long between two pages that the list has to be started again.
        """
        attempt = _Attempt("list", resource, None, namespace)
        query = _query(fieldSelector=field_selector, labelSelector=label_selector, limit=limit)
        while True:
            page = self._transport.request("GET", attempt.path(query), attempt)
            items = page.get("items") or []
            for item in items:
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
            yield {**page, "items": items}
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            query["continue"] = following

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
        resource_version: str,
        timeout_seconds: int,
        stop: threading.Event,
    ) -> Iterator[WatchEvent]:
        """Changes after `resource_version`, and bookmarks, until the server ends it or `stop` is set.

        An ERROR event is raised as its class, usually GoneError; a stream that breaks, carries nonsense, or is
        silent for longer than it should be, as UnavailableError.
        """
        attempt = _Attempt("watch", resource, None, namespace)
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            fieldSelector=field_selector,
            labelSelector=label_selector,
            resourceVersion=resource_version,
            timeoutSeconds=timeout_seconds,
        )
        silence = timeout_seconds + _WATCH_GRACE_SECONDS
        for line in self._transport.stream(attempt.path(query), attempt, silence_seconds=silence, stop=stop):
            yield _event(attempt, line)

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        """POST; the namespace is that of the body where none is given."""
        metadata = body.get("metadata") or {}
        name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
        attempt = _Attempt("create", resource, name, namespace or metadata.get("namespace"))
        return self._transport.request("POST", resource.path(attempt.namespace), attempt, body)

    def replace(
        self, resource: Resource, body: Mapping[str, Any], *, subresource: str | None = None
    ) -> dict[str, Any]:
        """PUT; name, namespace and resourceVersion are those of the body's metadata."""
        metadata = body["metadata"]
        attempt = _Attempt("update", resource, metadata["name"], metadata.get("namespace"), subresource)
        return self._transport.request("PUT", attempt.path(), attempt, body)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: Any,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        content_type: str = "application/merge-patch+json",
        field_manager: str | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        """PATCH; a merge patch, or with the content type `APPLY` a server-side apply."""
        attempt = _Attempt("patch", resource, name, namespace, subresource)
        query = _query(fieldManager=field_manager, force="true" if force else None)
        return self._transport.request("PATCH", attempt.path(query), attempt, body, content_type)

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object; with `uid` or `resource_version` only if it is still that one.

        A grace period of 0 is how a kubelet removes a Pod for good.
        """
        options: dict[str, Any] = {}
        if preconditions := _query(uid=uid, resourceVersion=resource_version):
            options["preconditions"] = preconditions
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
        attempt = _Attempt("delete", resource, name, namespace)
        self._transport.request("DELETE", attempt.path(), attempt, body)

    def delete_collection(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
    ) -> None:
        attempt = _Attempt("delete all", resource, None, namespace)
        query = _query(fieldSelector=field_selector, labelSelector=label_selector)
        self._transport.request("DELETE", attempt.path(query), attempt)

    def raw_get(self, path: str) -> dict[str, Any]:
        """GET of any path, such as /version or /apis."""
        return self._transport.request("GET", path, f"get {path}")

    def close(self) -> None:
        """Close all idle connections; the client is of no use afterwards."""
        self._transport.close()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What is being tried: the path of a request, and its words in an error."""

    verb: str
    resource: Resource
    name: str | None
    namespace: str | None
    subresource: str | None = None

    def path(self, query: Mapping[str, str] | None = None) -> str:
        name = self.name
        if name is not None:
            if not name.strip("."):  # "" would be the collection, ".." its parent
                msg = f"{name!r} is no name of a {self.resource.kind}"
                raise ValueError(msg)
            name = quote(name, safe="")
        path = self.resource.path(self.namespace, name, self.subresource)
        return f"{path}?{urlencode(query)}" if query else path

    def __str__(self) -> str:
        if self.name is None:
            place = f" in namespace {self.namespace}" if self.namespace else ""
            return f"{self.verb} {self.resource.plural}{place}"
        subresource = f"{self.subresource} of " if self.subresource else ""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb} {subresource}{self.resource.kind} {name}"


def _query(**parameters: str | int | None) -> dict[str, str]:
    return {name: str(value) for name, value in parameters.items() if value is not None}


def _event(attempt: _Attempt, line: bytes) -> WatchEvent:
    try:
        content = strictjson.loads_plain(line)
        kind, body = content["type"], content["object"]
        if kind in _EVENT_TYPES and body["metadata"]["resourceVersion"]:
            return WatchEvent(kind, body)
        refusal = from_status(
            str(attempt), body
        )  # ERROR, and what a later server may add: both end the watch
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        msg = f"cannot {attempt}: the stream carries something that is no watch event"
        raise UnavailableError(msg) from error
    raise refusal

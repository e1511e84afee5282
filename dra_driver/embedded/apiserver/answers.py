"""Answers with objects in them: single ones, lists in pages, watches, each as the client accepts it.

A client may accept an object as it is, its metadata alone, or a Table for people.
"""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dra_driver.embedded.apiserver import selectors, status, tables, watches
from dra_driver.embedded.apiserver.options import Query, flag, number
from dra_driver.embedded.apiserver.paths import Target
from dra_driver.embedded.apiserver.selectors import Selector
from dra_driver.embedded.apiserver.storage import CompactedError, Storage, Stored, encode

JSON = "application/json"
_WATCH_SECONDS = 1800  # of a watch that names no timeout; the real server takes 30 to 60 minutes


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, taken apart; of a parameter that repeats, `query` has the last."""

    method: str
    path: str
    query: Query
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    user_agent: str = "unknown"


@dataclass(slots=True)
class Answer:
    """A body, or a stream of lines; empty lines of a stream are chances to look for the client."""

    body: bytes = b""
    code: int = 200
    content_type: str = JSON
    warnings: list[str] = field(default_factory=list)
    stream: Iterator[bytes] | None = None


class Answers:
    """Makes answers from what the storage holds."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def listing(self, request: Request, target: Target) -> Answer:
        """The objects of a collection that the selectors match, or a page of them."""
        query, kind = request.query, target.kind
        selector = self.selector(request, target)
        limit = number(query, "limit")
        wanted = _revision(query)
        stored, revision = self._storage.items(kind, target.namespace)
        if wanted and wanted > revision:
            text = f"Timeout: Too large resource version: {wanted}, current: {revision}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            details = {"causes": [cause], "retryAfterSeconds": 1}
            raise status.StatusError(504, "Timeout", text, details)
        if wanted and wanted < revision and query.get("resourceVersionMatch") == "Exact":
            raise status.expired("The resourceVersion for the provided list is too old.")
        start, listed = None, revision
        if query.get("continue"):
            start, listed = self._continued(target, query["continue"])
        found = [
            item for item in stored if (start is None or item.key > start) and selector.matches(item.obj)
        ]
        metadata: dict[str, Any] = {"resourceVersion": str(listed)}
        if 0 < limit < len(found):
            metadata["continue"] = _token(found[limit - 1].key, listed)
            if not selector.tests:
                metadata["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        return self.many(request, target, found, metadata)

    def _continued(self, target: Target, token: str) -> tuple[tuple[str, str], int]:
        """Where a list goes on, and the revision it is of: a watch from there makes up for what changed since."""
        try:
            place = json.loads(base64.urlsafe_b64decode(token + "=="))
            key, listed = tuple(place["start"]), int(place["rv"])
        except (ValueError, KeyError, TypeError) as error:
            raise status.bad_request("invalid continue token: continue key is not valid") from error
        try:
            watch, _, _ = self._storage.watch(target.kind, listed)
        except CompactedError as error:
            raise status.expired(
                "The provided continue parameter is too old to display a consistent list result. You can start "
                "a new list without the continue parameter."
            ) from error
        self._storage.unwatch(watch)
        return (key[0], key[1]), listed

    def watch(self, request: Request, target: Target) -> Answer:
        """A stream of what happens to the objects of a collection that the selectors match."""
        query, kind = request.query, target.kind
        since = _revision(query)
        if "sendInitialEvents" in query:
            if query.get("resourceVersionMatch") != "NotOlderThan":
                message = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                raise status.invalid_options("ListOptions", "resourceVersionMatch", message)
            initial = flag(query, "sendInitialEvents")
            since = None if initial else since or self._storage.revision
        elif query.get("resourceVersionMatch"):
            message = (
                "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            raise status.invalid_options("ListOptions", "resourceVersionMatch", message)
        bookmarks = flag(query, "allowWatchBookmarks")
        asked = watches.WatchRequest(
            kind,
            target.version,
            target.namespace,
            self.selector(request, target),
            since or None,
            number(query, "timeoutSeconds") or _WATCH_SECONDS,
            bookmarks=bookmarks,
            initial_events_end=bookmarks and flag(query, "sendInitialEvents"),
        )
        return Answer(stream=watches.follow(self._storage, asked, self._renderer(request, target)))

    def _renderer(self, request: Request, target: Target) -> Callable[[Stored], bytes]:
        if "as=Table" in request.accept:
            first = True

            def row(stored: Stored) -> bytes:
                nonlocal first
                columns, first = first, False
                metadata = {"resourceVersion": str(stored.revision)}
                include = request.query.get("includeObject", "Metadata")
                objects = [stored.copy(target.version)]
                return encode(tables.table(target.kind, objects, metadata, include=include, columns=columns))

            return row
        if "as=PartialObjectMetadata" in request.accept:
            return lambda stored: encode(tables.partial(stored.obj))
        return lambda stored: stored.encoded(target.version)

    def selector(self, request: Request, target: Target) -> Selector:
        """What the label and field selectors of a request match."""
        query = request.query
        return selectors.parse(
            target.kind, target.version, query.get("labelSelector"), query.get("fieldSelector")
        )

    def one(
        self,
        request: Request,
        target: Target,
        stored: Stored,
        *,
        code: int = 200,
        warnings: list[str] | None = None,
    ) -> Answer:
        """A single object."""
        if "as=Table" in request.accept:
            metadata = {"resourceVersion": stored.obj["metadata"].get("resourceVersion", "")}
            include = request.query.get("includeObject", "Metadata")
            body = encode(tables.table(target.kind, [stored.copy(target.version)], metadata, include=include))
        elif "as=PartialObjectMetadata" in request.accept:
            body = encode(tables.partial(stored.obj))
        else:
            body = stored.encoded(target.version)
        return Answer(body, code, warnings=warnings or [])

    def many(self, request: Request, target: Target, found: list[Stored], metadata: dict[str, Any]) -> Answer:
        """A list with its `metadata`."""
        kind = target.kind
        if "as=Table" in request.accept:
            include = request.query.get("includeObject", "Metadata")
            objects = (stored.copy(target.version) for stored in found)
            return Answer(encode(tables.table(kind, objects, metadata, include=include)))
        if "as=PartialObjectMetadataList" in request.accept:
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            return Answer(encode({**head, "items": [tables.partial(stored.obj) for stored in found]}))
        api_version = kind.api_version(target.version)
        head = {"kind": f"{kind.resource.kind}List", "apiVersion": api_version, "metadata": metadata}
        items = b",".join(stored.item(target.version) for stored in found)
        return Answer(encode(head)[:-1] + b',"items":[' + items + b"]}")


def _revision(query: Query) -> int | None:
    text = query.get("resourceVersion", "")
    if text and not (text.isascii() and text.isdigit()):
        raise status.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text) if text else None


def _token(key: tuple[str, str], revision: int) -> str:
    place = encode({"v": "meta.k8s.io/v1", "rv": revision, "start": key})
    return base64.urlsafe_b64encode(place).decode().rstrip("=")

"""Answers with objects in them: single ones, lists in pages, watches, each as the client accepts it.

A client may accept objects as they are, or a Table for people.
"""

import base64
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dra_driver.embedded.apiserver import selectors, status, tables, watches
from dra_driver.embedded.apiserver.options import Query, decimal, flag, number
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
            namespace, name = map(str, place["start"])
            listed = int(place["rv"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise status.bad_request("invalid continue token: continue key is not valid") from error
        try:
            watch, _, _ = self._storage.watch(target.kind, listed)
        except CompactedError as error:
            raise status.expired(
                "The provided continue parameter is too old to display a consistent list result. You can start "
                "a new list without the continue parameter."
            ) from error
        self._storage.unwatch(watch)
        return (namespace, name), listed

    def watch(self, request: Request, target: Target) -> Answer:
        """A stream of what happens to the objects of a collection that the selectors match."""
        query, kind = request.query, target.kind
        initial, bookmarks = flag(query, "sendInitialEvents"), flag(query, "allowWatchBookmarks")
        asked = watches.WatchRequest(
            kind,
            target.version,
            target.namespace,
            self.selector(request, target),
            None if initial else _revision(query) or None,
            number(query, "timeoutSeconds") or _WATCH_SECONDS,
            bookmarks=bookmarks,
            initial_events_end=bookmarks and initial,
        )
        first = itertools.chain([True], itertools.repeat(False))
        return Answer(
            stream=watches.follow(
                self._storage, asked, lambda stored: _body(request, target, stored, columns=next(first))
            )
        )

    def selector(self, request: Request, target: Target) -> Selector:
        """What the label and field selectors of a request match."""
        query = request.query
        return selectors.parse(target.kind, query.get("labelSelector"), query.get("fieldSelector"))

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
        return Answer(_body(request, target, stored), code, warnings=warnings or [])

    def many(self, request: Request, target: Target, found: list[Stored], metadata: dict[str, Any]) -> Answer:
        """A list with its `metadata`."""
        kind = target.kind
        if "as=Table" in request.accept:
            objects = (stored.copy(target.version) for stored in found)
            return Answer(encode(tables.table(kind, objects, metadata, include=_included(request))))
        api_version = kind.api_version(target.version)
        head = {"kind": f"{kind.resource.kind}List", "apiVersion": api_version, "metadata": metadata}
        items = b",".join(stored.item(target.version) for stored in found)
        return Answer(encode(head)[:-1] + b',"items":[' + items + b"]}")


def _body(request: Request, target: Target, stored: Stored, *, columns: bool = True) -> bytes:
    """An object as the client accepts it; a Table says what its `columns` are, but not twice in a stream."""
    if "as=Table" in request.accept:
        metadata = {"resourceVersion": stored.obj["metadata"].get("resourceVersion", "")}
        objects = [stored.copy(target.version)]
        return encode(
            tables.table(target.kind, objects, metadata, include=_included(request), columns=columns)
        )
    return stored.encoded(target.version)


def _included(request: Request) -> str:
    """What a row of a Table carries of its object."""
    return request.query.get("includeObject", "Metadata")


def _revision(query: Query) -> int | None:
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if (revision := decimal(text)) is None:
        raise status.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return revision


def _token(key: tuple[str, str], revision: int) -> str:
    place = encode({"v": "meta.k8s.io/v1", "rv": revision, "start": key})
    return base64.urlsafe_b64encode(place).decode().rstrip("=")

"""What a watch stream says to a client that wants little of what happens."""

from typing import Any

from dra_driver.embedded.apiserver import selectors
from dra_driver.embedded.apiserver.kinds import NODE
from dra_driver.embedded.apiserver.storage import Storage
from dra_driver.embedded.apiserver.watches import WatchRequest, follow


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}}


def test_a_watch_that_begins_after_the_end_of_the_server_ends_at_once() -> None:
    storage = Storage(10)
    everything = selectors.parse(NODE, None, None)
    request = WatchRequest(NODE, "v1", None, everything, None, 2.0)
    storage.close()

    assert [] == list(follow(storage, request, lambda stored: stored.encoded("v1")))


def test_changes_that_are_not_asked_for_still_bring_bookmarks_and_looks_at_the_client() -> None:
    storage = Storage(10)
    since = storage.put(NODE, node("a"), None).revision
    wanted = selectors.parse(NODE, None, "metadata.name=wanted")
    request = WatchRequest(NODE, "v1", None, wanted, since, 60.0, bookmarks=True, bookmark_seconds=0.0)
    other = storage.put(NODE, node("other"), None)

    events = follow(storage, request, lambda stored: stored.encoded("v1"))

    assert next(events) == b""
    bookmark = next(events)
    assert b'"type":"BOOKMARK"' in bookmark
    assert b'"resourceVersion":"%d"' % other.revision in bookmark

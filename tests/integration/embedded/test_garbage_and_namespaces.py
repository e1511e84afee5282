"""What goes without being deleted itself."""

import http.client
import threading
from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.embedded.apiserver.collector import Collector
from dra_driver.embedded.apiserver.deletion import Deletion
from dra_driver.embedded.apiserver.kinds import Kind
from dra_driver.embedded.apiserver.options import DeleteOptions
from dra_driver.embedded.apiserver.storage import Change, Key, Stored
from dra_driver.kube.client import Client
from dra_driver.kube.errors import ForbiddenError, NotFoundError
from dra_driver.kube.resources import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

Object = dict[str, Any]
Make = Callable[..., Object]


def gone(obj: Object | None) -> bool:
    return obj is None


def owned_by(kind: str, owner: Object, uid: str | None = None) -> Object:
    metadata = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": kind, "name": metadata["name"], "uid": uid or metadata["uid"]}
    return {"ownerReferences": [reference]}


def delete_node_alone(server: ApiServer, more: str = "") -> None:
    """Ask for the end of node-a that leaves what it owns, which our client cannot."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=90)
    connection.request("DELETE", f"/api/v1/nodes/node-a?propagationPolicy=Orphan{more}")
    connection.getresponse().read()
    connection.close()


def test_a_nodes_slices_go_with_it(
    client: Client, slice_of: Make, node: Object, until: Callable[..., Any]
) -> None:
    body = slice_of()
    body["metadata"] |= owned_by("Node", node)
    client.create(RESOURCE_SLICES, body)

    client.delete(NODES, "node-a")

    assert until(RESOURCE_SLICES, "s", gone) is None


def test_a_slice_of_a_node_that_was_made_again_goes(
    client: Client, slice_of: Make, node: Object, until: Callable[..., Any]
) -> None:
    body = slice_of()
    body["metadata"] |= owned_by("Node", node, uid="of-the-old-node")
    client.create(RESOURCE_SLICES, body)

    assert until(RESOURCE_SLICES, "s", gone) is None


def test_an_object_with_another_owner_left_stays(
    server: ApiServer, client: Client, slice_of: Make, node: Object, until: Callable[..., Any]
) -> None:
    other = client.create(NODES, {"metadata": {"name": "node-b"}})
    both = owned_by("Node", node)["ownerReferences"] + owned_by("Node", other)["ownerReferences"]
    kept, dropped = slice_of("kept"), slice_of("dropped")
    kept["metadata"]["ownerReferences"] = both
    dropped["metadata"] |= owned_by("Node", node)
    client.create(RESOURCE_SLICES, kept)
    client.create(RESOURCE_SLICES, dropped)

    client.delete(NODES, "node-a")
    until(RESOURCE_SLICES, "dropped", gone)

    assert client.get(RESOURCE_SLICES, "kept")


def test_an_owner_of_a_kind_that_is_not_served_is_taken_to_exist(
    client: Client, pod: Make, claim: Make, until: Callable[..., Any]
) -> None:
    body, ghost = claim("kept"), claim("ghost")
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "some-uid"}
    ]
    ghost["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "some-uid"}
    ]
    client.create(RESOURCE_CLAIMS, body)
    client.create(RESOURCE_CLAIMS, ghost)

    until(RESOURCE_CLAIMS, "ghost", gone)

    assert client.get(RESOURCE_CLAIMS, "kept", "team")


def test_what_is_owned_stays_without_its_owner_where_that_is_asked_for_but_not_in_a_dry_run(
    server: ApiServer, client: Client, slice_of: Make, node: Object
) -> None:
    body = slice_of()
    body["metadata"] |= owned_by("Node", node)
    made = client.create(RESOURCE_SLICES, body)

    delete_node_alone(server, "&dryRun=All")
    assert client.get(RESOURCE_SLICES, "s") == made
    delete_node_alone(server)
    assert "ownerReferences" not in client.get(RESOURCE_SLICES, "s")["metadata"]


def test_what_was_left_without_an_owner_stays_however_late_the_collector_hears_of_it(
    server: ApiServer,
    client: Client,
    slice_of: Make,
    node: Object,
    until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, look_at = threading.Event(), Collector._look_at

    def late(collector: Collector, change: Change) -> None:
        assert over.wait(90)
        look_at(collector, change)

    monkeypatch.setattr(Collector, "_look_at", late)
    body, ghost = slice_of(), slice_of("ghost")
    body["metadata"] |= owned_by("Node", node)
    ghost["metadata"] |= owned_by("Node", node, uid="of-no-node")
    client.create(RESOURCE_SLICES, body)
    delete_node_alone(server)
    client.create(RESOURCE_SLICES, ghost)  # which is looked at last

    over.set()
    until(RESOURCE_SLICES, "ghost", gone)

    assert client.get(RESOURCE_SLICES, "s")


def test_what_is_left_to_itself_as_it_is_collected_stays(
    server: ApiServer,
    client: Client,
    slice_of: Make,
    node: Object,
    until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delete = Deletion.delete

    def late(deletion: Deletion, kind: Kind, key: Key, options: DeleteOptions) -> tuple[Stored, bool]:
        if key == ("", "s"):
            server.store.patch(RESOURCE_SLICES, "s", {"metadata": {"ownerReferences": None}})
        return delete(deletion, kind, key, options)

    monkeypatch.setattr(Deletion, "delete", late)
    for body in (slice_of(), slice_of("ghost")):
        body["metadata"] |= owned_by("Node", node, uid="of-no-node")
        client.create(RESOURCE_SLICES, body)

    until(RESOURCE_SLICES, "ghost", gone)

    assert client.get(RESOURCE_SLICES, "s")


def test_a_claim_goes_with_its_pod(client: Client, pod: Make, claim: Make, until: Callable[..., Any]) -> None:
    owner = client.create(PODS, pod())
    client.create(RESOURCE_CLAIMS, claim(**owned_by("Pod", owner)))

    client.delete(PODS, "p", namespace="team")

    assert until(RESOURCE_CLAIMS, "c", gone) is None


def test_nothing_is_created_in_a_namespace_that_is_not_there(client: Client, claim: Make) -> None:
    with pytest.raises(NotFoundError, match='namespaces "nowhere" not found'):
        client.create(RESOURCE_CLAIMS, claim(namespace="nowhere"))


def test_a_namespace_takes_its_content_along(
    client: Client, claim: Make, pod: Make, until: Callable[..., Any]
) -> None:
    client.create(RESOURCE_CLAIMS, claim())
    client.create(PODS, pod())

    client.delete(NAMESPACES, "team")

    assert until(NAMESPACES, "team", gone) is None
    assert client.list(RESOURCE_CLAIMS)["items"] == []
    assert client.list(PODS)["items"] == []


def test_a_namespace_that_ends_waits_for_finalizers_and_takes_nothing_new(
    client: Client, claim: Make, until: Callable[..., Any]
) -> None:
    client.create(RESOURCE_CLAIMS, claim(finalizers=["example.com/hold"]))

    client.delete(NAMESPACES, "team")

    assert client.get(NAMESPACES, "team")["status"] == {"phase": "Terminating"}
    with pytest.raises(ForbiddenError, match="because it is being terminated"):
        client.create(RESOURCE_CLAIMS, claim("new"))
    client.patch(RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": None}}, namespace="team")
    assert until(NAMESPACES, "team", gone) is None


def test_the_default_namespace_stays(client: Client) -> None:
    with pytest.raises(ForbiddenError, match="this namespace may not be deleted"):
        client.delete(NAMESPACES, "default")

"""Events about Pods, as controllers, scheduler and kubelet write them."""

from collections.abc import Callable
from typing import Any

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.embedded.events import PodEvents
from dra_driver.kube.client import Client
from dra_driver.kube.resources import EVENTS, PODS

Make = Callable[..., dict[str, Any]]


def test_what_is_said_again_is_counted_and_what_differs_is_not(client: Client, pod: Make) -> None:
    about = client.create(PODS, pod())
    events = PodEvents(client, "kubelet", "node-a")

    for _ in range(3):
        events.warning(about, "Failed", "no device", "spec.containers{main}")
    events.warning(about, "Failed", "no device")

    listed = client.list(EVENTS, namespace="team")["items"]
    assert [(event["count"], event["involvedObject"].get("fieldPath")) for event in listed] == [
        (3, "spec.containers{main}"),
        (1, None),
    ]
    assert listed[0]["source"] == {"component": "kubelet", "host": "node-a"}


def test_an_event_that_has_expired_is_written_anew(client: Client, pod: Make) -> None:
    about = client.create(PODS, pod())
    events = PodEvents(client, "kubelet")
    events.normal(about, "Started", "Container started")
    [first] = client.list(EVENTS, namespace="team")["items"]
    client.delete(EVENTS, first["metadata"]["name"], namespace="team")

    events.normal(about, "Started", "Container started")

    [second] = client.list(EVENTS, namespace="team")["items"]
    assert second["count"] == 1
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


def test_a_pod_of_the_longest_name_has_events(client: Client, pod: Make) -> None:
    about = client.create(PODS, pod("a" * 199 + "." + "b" * 53))

    PodEvents(client, "kubelet").normal(about, "Started", "Container started")

    [event] = client.list(EVENTS, namespace="team")["items"]
    assert event["involvedObject"]["name"] == about["metadata"]["name"]


def test_an_event_that_cannot_be_written_is_told_later(server: ApiServer, client: Client, pod: Make) -> None:
    about = client.create(PODS, pod())
    events = PodEvents(client, "kubelet")
    server.faults.refuse(500, "create", EVENTS)

    events.warning(about, "Failed", "no device")
    events.warning(about, "Failed", "no device")

    assert [event["count"] for event in client.list(EVENTS, namespace="team")["items"]] == [1]

"""Events about objects, as kubectl describe shows them."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube import events
from dra_driver.kube.client import Client
from dra_driver.kube.events import Recorder, Reference
from dra_driver.kube.reasons import Reason
from dra_driver.kube.resources import EVENTS

PATIENCE_SECONDS = 90.0
NODE = Reference("v1", "Node", "node-a", uid="node-uid")
CLAIM = Reference("resource.k8s.io/v1", "ResourceClaim", "claim", "default", "claim-uid")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def client(server: ApiServer, tmp_path: Path) -> Iterator[Client]:
    server.write_kubeconfig(tmp_path / "kubeconfig")
    client = Client.connect(tmp_path / "kubeconfig", timeout=PATIENCE_SECONDS)
    yield client
    client.close()


@pytest.fixture
def recorder(client: Client) -> Iterator[Recorder]:
    recorder = Recorder(client, component="gpu.nvidia.com", host="node-a")
    recorder.start()
    yield recorder
    recorder.stop()


def recorded(client: Client, count: int = 1) -> list[dict[str, Any]]:
    """The Events, once there are `count` of them."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        items: list[dict[str, Any]] = client.list(EVENTS)["items"]
        if len(items) >= count or time.monotonic() > give_up:
            return items
        threading.Event().wait(0.02)


def counted(client: Client, count: int) -> dict[str, Any]:
    """The one Event, once it has counted so far."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        (item,) = recorded(client)
        if item["count"] >= count or time.monotonic() > give_up:
            return item
        threading.Event().wait(0.02)


def test_an_event_names_object_reason_message_and_source(recorder: Recorder, client: Client) -> None:
    recorder.record(CLAIM, Reason.CLAIM_NOT_SATISFIABLE, "no node has\n two H100", type="Normal")
    (item,) = recorded(client)
    assert item["metadata"]["namespace"] == "default"
    assert item["metadata"]["name"].startswith("claim.")
    assert item["involvedObject"] == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "name": "claim",
        "namespace": "default",
        "uid": "claim-uid",
    }
    assert (item["reason"], item["message"], item["type"], item["count"]) == (
        "ClaimNotSatisfiable",
        "no node has two H100",
        "Normal",
        1,
    )
    assert item["source"] == {"component": "gpu.nvidia.com", "host": "node-a"}
    assert item["firstTimestamp"] == item["lastTimestamp"]


def test_events_about_objects_without_a_namespace_are_in_default(recorder: Recorder, client: Client) -> None:
    recorder.record(NODE, Reason.DRIVER_CONFLICT, "another driver")
    (item,) = recorded(client)
    assert item["metadata"]["namespace"] == "default"
    assert "namespace" not in item["involvedObject"]


def test_repetitions_are_counted_in_one_event_and_not_written_each_time(
    recorder: Recorder, client: Client, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_REPEAT_SECONDS", 0.5)
    recorder.record(NODE, Reason.DEVICE_UNHEALTHY, "Xid 79 on gpu-0")
    recorded(client)
    written, begin = server.store.revision, time.monotonic()
    for _ in range(99):
        recorder.record(NODE, Reason.DEVICE_UNHEALTHY, "Xid 79 on gpu-0")
    item = counted(client, 100)
    assert item["count"] == 100
    assert server.store.revision - written <= 2 + (time.monotonic() - begin) / 0.5


def test_a_restarted_process_goes_on_counting(recorder: Recorder, client: Client) -> None:
    recorder.record(NODE, Reason.DEVICE_UNHEALTHY, "Xid 79 on gpu-0")
    recorded(client)
    other = Recorder(client, component="gpu.nvidia.com", host="node-a")
    other.start()
    other.record(NODE, Reason.DEVICE_UNHEALTHY, "Xid 79 on gpu-0")
    assert counted(client, 2)["count"] == 2
    other.stop()


def test_another_message_is_another_event(recorder: Recorder, client: Client) -> None:
    recorder.record(NODE, Reason.DEVICE_UNHEALTHY, "Xid 79 on gpu-0")
    recorder.record(NODE, Reason.DEVICE_UNHEALTHY, "Xid 79 on gpu-1")
    assert len(recorded(client, 2)) == 2


def test_long_texts_and_names_are_cut(recorder: Recorder, client: Client) -> None:
    long = Reference("v1", "Pod", "p" * 253, "default")
    recorder.record(long, Reason.DEVICE_UNHEALTHY, "x" * 5000)
    (item,) = recorded(client)
    assert len(item["message"]) == 1024
    assert item["message"].endswith("x...")
    assert len(item["metadata"]["name"]) == 253


def test_a_flood_is_held_back(client: Client) -> None:
    recorder = Recorder(client, component="gpu.nvidia.com", burst=25, per_second=0.01)
    recorder.start()
    for n in range(200):
        recorder.record(NODE, Reason.DEVICE_UNHEALTHY, f"message {n}")
    assert 25 <= len(recorded(client, 25)) < 40
    recorder.stop()


def first_is_lost_and_logged(recorder: Recorder, client: Client) -> None:
    with capture_logs() as logs:
        recorder.record(NODE, Reason.DEVICE_UNHEALTHY, "lost")
        recorder.record(NODE, Reason.DEVICE_RECOVERED, "told")
        (item,) = recorded(client)
    assert item["message"] == "told"
    assert [entry["event"] for entry in logs] == ["event not recorded"]


def test_what_cannot_be_sent_is_logged_and_let_go(
    server: ApiServer, recorder: Recorder, client: Client
) -> None:
    server.faults.refuse(500, "create", EVENTS)

    first_is_lost_and_logged(recorder, client)


def test_an_answer_of_another_shape_is_logged_and_the_next_event_is_sent(
    recorder: Recorder, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = client.create

    def fail_once(*arguments: Any) -> dict[str, Any]:
        monkeypatch.setattr(client, "create", create)
        raise KeyError("metadata")

    monkeypatch.setattr(client, "create", fail_once)

    first_is_lost_and_logged(recorder, client)


def test_what_is_still_true_is_sent_once_the_server_takes_it(
    server: ApiServer, recorder: Recorder, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_REPEAT_SECONDS", 0.0)
    server.faults.refuse(503, "create", EVENTS, times=2)
    recorder.record(CLAIM, Reason.CLAIM_NOT_SATISFIABLE, "no GPU is free", replaces=True)
    (item,) = recorded(client)
    assert (item["message"], item["count"]) == ("no GPU is free", 1)


def test_what_the_server_refuses_for_good_is_let_go_also_where_it_is_true(
    server: ApiServer, recorder: Recorder, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_REPEAT_SECONDS", 0.0)
    server.faults.refuse(403, "create", EVENTS)
    recorder.record(CLAIM, Reason.CLAIM_NOT_SATISFIABLE, "no GPU is free", replaces=True)
    recorder.record(NODE, Reason.DEVICE_RECOVERED, "told")
    (item,) = recorded(client)
    assert item["message"] == "told"
    assert recorder.backlog == 0


def test_stop_sends_what_is_waiting(client: Client) -> None:
    recorder = Recorder(client, component="gpu.nvidia.com")
    recorder.record(NODE, Reason.DEVICE_UNHEALTHY, "before the start")
    recorder.start()
    recorder.stop()
    assert [item["message"] for item in recorded(client)] == ["before the start"]


def test_a_reference_is_made_from_an_object() -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
    assert Reference.to(body) == Reference("v1", "Pod", "p", "ns", "u")


def test_news_replaces_what_was_said_before_for_the_same_reason(
    recorder: Recorder, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_REPEAT_SECONDS", 0.0)
    for number, message in enumerate(("no GPU is free", "no GPU has 80Gi", "no GPU has 80Gi"), start=1):
        recorder.record(CLAIM, Reason.CLAIM_NOT_SATISFIABLE, message, replaces=True)
        counted(client, number)
    (item,) = recorded(client)
    assert (item["message"], item["count"]) == ("no GPU has 80Gi", 3)


def test_what_is_no_longer_true_is_not_sent(client: Client) -> None:
    recorder = Recorder(client, component="gpu.nvidia.com", burst=1)
    recorder.record(NODE, Reason.DRIVER_CONFLICT, "first", type="Normal")
    recorder.record(CLAIM, Reason.CLAIM_NOT_SATISFIABLE, "no GPU is free", replaces=True)
    recorder.withdraw(CLAIM, Reason.CLAIM_NOT_SATISFIABLE)
    assert recorder.backlog == 1
    recorder.start()
    (item,) = recorded(client)
    recorder.stop()
    assert item["message"] == "first"

"""Faults on demand, as a client meets them."""

import threading
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.errors import UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import GoneError, NotFoundError, ServerError, TooManyRequestsError
from dra_driver.kube.resources import NODES, RESOURCE_SLICES

Object = dict[str, Any]
NODE = {"metadata": {"name": "node-a"}}


def test_a_dropped_request_is_not_done(server: ApiServer, client: Client) -> None:
    server.faults.drop("create", NODES)

    with pytest.raises(UnavailableError):
        client.create(NODES, NODE)

    assert client.list(NODES)["items"] == []


def test_a_lost_answer_leaves_the_object_behind(server: ApiServer, client: Client) -> None:
    server.faults.drop("create", NODES, done=True)

    with pytest.raises(UnavailableError):
        client.create(NODES, NODE)

    assert client.get(NODES, "node-a")["metadata"]["name"] == "node-a"


def test_load_is_shed_with_a_time_to_come_back(server: ApiServer, client: Client) -> None:
    server.faults.refuse(429, "list", retry_after=7)

    with pytest.raises(TooManyRequestsError) as caught:
        client.list(NODES)

    assert caught.value.retry_after == 7
    assert client.list(NODES)["items"] == []


@pytest.mark.parametrize("code", [500, 503])
def test_the_server_fails_as_often_as_asked(server: ApiServer, client: Client, code: int) -> None:
    server.faults.refuse(code, "get", NODES, times=2)

    for _ in range(2):
        with pytest.raises(ServerError) as caught:
            client.get(NODES, "node-a")
        assert caught.value.status == code
    with pytest.raises(NotFoundError):
        client.get(NODES, "node-a")


def test_a_fault_strikes_only_its_verb_and_resource(server: ApiServer, client: Client) -> None:
    server.faults.refuse(500, "list", RESOURCE_SLICES)

    assert client.list(NODES)["items"] == []
    assert client.create(NODES, NODE)
    with pytest.raises(ServerError):
        client.list(RESOURCE_SLICES)


def test_a_server_can_be_away_and_come_back(server: ApiServer, client: Client) -> None:
    away = server.faults.unavailable()

    with pytest.raises(UnavailableError):
        client.list(NODES)
    server.faults.remove(away)

    assert client.list(NODES)["items"] == []


def test_a_delayed_request_is_done(server: ApiServer, client: Client) -> None:
    server.faults.delay(0.01, "list")

    assert client.list(NODES)["items"] == []


def test_a_long_delay_does_not_hold_up_the_end() -> None:
    with ApiServer() as server:
        server.faults.delay(3600, times=None)
        done = threading.Event()

        def ask() -> None:
            import urllib.request

            try:
                urllib.request.urlopen(f"{server.url}/api/v1/nodes", timeout=90)
            except OSError:
                done.set()

        thread = threading.Thread(target=ask)
        thread.start()
        server.faults.taken.wait(90)
    thread.join()
    assert done.is_set()


def watch(client: Client, version: str) -> Any:
    return client.watch(NODES, resource_version=version, timeout_seconds=90, stop=threading.Event())


def test_running_watches_can_be_expired(server: ApiServer, client: Client) -> None:
    events = watch(client, "0")
    server.store.create(NODES, NODE)
    next(events)

    server.faults.expire_watches(NODES)

    with pytest.raises(GoneError):
        next(events)


def test_running_watches_can_be_cut(server: ApiServer, client: Client) -> None:
    events = watch(client, "0")
    server.store.create(NODES, NODE)
    next(events)

    server.faults.break_watches()

    with pytest.raises(UnavailableError):
        next(events)

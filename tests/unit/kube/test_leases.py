"""Leader election: one replica leads, another takes over, and there are never two."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube import leases
from dra_driver.kube.client import Client
from dra_driver.kube.endpoint import Endpoint, StaticToken
from dra_driver.kube.leases import Election, Timing
from dra_driver.kube.resources import LEASES

QUICK = Timing(duration=0.6, renew_within=0.3, retry=0.05)  # for who is to lose the lead
SLOW = Timing(duration=600, renew_within=400, retry=0.05)  # for who is not, on whatever machine
NAME, NAMESPACE = "controller", "default"
Stand = Callable[..., Election]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> Iterator[Client]:
    client = Client(Endpoint(server.url, StaticToken()), timeout=60)
    yield client
    client.close()


@pytest.fixture
def stand(client: Client) -> Iterator[Stand]:
    """Lets a replica stand for election until the end of the test."""
    with ExitStack() as stack:

        def start(identity: str, timing: Timing = SLOW) -> Election:
            election = Election(client, namespace=NAMESPACE, name=NAME, identity=identity, timing=timing)
            stack.callback(election.stop)
            election.start()
            return election

        yield start


def until(condition: Callable[[], object], timeout: float = 90.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it has not come to that"
        threading.Event().wait(0.01)


def lease(client: Client) -> dict[str, Any]:
    return client.get(LEASES, NAME, NAMESPACE)


def written(holder: str, seconds: int = 1, renewed: str = "2001-01-01T00:00:00.000000Z") -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": spec,
    }


def test_the_first_replica_leads_and_the_second_waits(stand: Stand, client: Client) -> None:
    first = stand("pod-a")
    until(lambda: first.is_leader)
    second = stand("pod-b")
    until(lambda: second.leader)
    assert not second.is_leader
    assert lease(client)["spec"]["holderIdentity"].startswith("pod-a_")
    assert second.leader == first.leader


def test_a_leader_that_stops_gives_the_lease_back_at_once(stand: Stand, client: Client) -> None:
    first = stand("pod-a")
    until(lambda: first.is_leader)
    second = stand("pod-b")
    first.stop()
    until(lambda: second.is_leader)
    assert not first.is_leader
    assert lease(client)["spec"]["leaseTransitions"] == 1


def test_a_leader_that_died_is_followed_after_its_lease_only(stand: Stand, client: Client) -> None:
    client.create(LEASES, written("pod-dead_1"))
    begin = time.monotonic()
    second = stand("pod-b", QUICK)
    until(lambda: second.is_leader)
    assert time.monotonic() - begin >= 1.0
    assert lease(client)["spec"]["leaseTransitions"] == 1


class _Clock:
    """Stands in for the module `time`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_the_clock_of_another_machine_does_not_matter(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Clock()
    monkeypatch.setattr(leases, "time", clock)
    second = Election(client, namespace=NAMESPACE, name=NAME, identity="pod-b")
    created = client.create(LEASES, written("pod-a_1", seconds=15))
    for number in range(12):  # renewed all the time, by a clock that is decades behind
        spec = {**created["spec"], "renewTime": f"2001-01-01T00:00:{number:02}.000000Z"}
        created = client.replace(LEASES, {**created, "spec": spec})
        second._turn()
        clock.now += 14.9
        second._turn()
        assert not second.is_leader
    clock.now += 0.2
    second._turn()
    assert second.is_leader


def test_a_leader_that_cannot_renew_stops_before_another_may_start(
    stand: Stand, server: ApiServer, client: Client
) -> None:
    first = stand("pod-a", QUICK)
    until(lambda: first.is_leader)
    fault = server.faults.drop("update", LEASES, times=None)
    until(lambda: first.error is not None and not first.is_leader)
    assert lease(client)["spec"]["holderIdentity"] == first.leader or first.leader is None
    server.faults.remove(fault)
    until(lambda: first.error is None and first.is_leader)


def replica(client: Client, identity: str, timing: Timing = SLOW) -> Election:
    """One whose turns the test takes."""
    return Election(client, namespace=NAMESPACE, name=NAME, identity=identity, timing=timing)


def test_of_two_that_find_no_lease_the_faster_one_leads(client: Client) -> None:
    first, second = replica(client, "pod-a"), replica(client, "pod-b")
    second._read()
    first._turn()
    second._take()
    assert (first.is_leader, second.is_leader) == (True, False)


def test_the_lead_counts_from_before_the_write_was_sent(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, create = _Clock(), client.create
    monkeypatch.setattr(leases, "time", clock)

    def create_slowly(*arguments: Any) -> dict[str, Any]:
        clock.now += 11
        return create(*arguments)

    monkeypatch.setattr(client, "create", create_slowly)
    election = replica(client, "pod-a", Timing(renew_within=10))
    election._turn()
    assert (election.error, election.is_leader) == (None, False)


def test_who_was_overruled_reads_again_who_leads(client: Client) -> None:
    election = replica(client, "pod-a")
    election._turn()
    client.replace(LEASES, {**lease(client), "spec": written("pod-b_1", 600)["spec"]})
    for _ in range(2):
        election._turn()
    assert election.leader == "pod-b_1"


def test_who_does_not_lead_gives_nothing_back(stand: Stand, client: Client) -> None:
    first = replica(client, "pod-a")
    first._turn()
    second = stand("pod-b")
    until(lambda: second.leader)
    second.stop()
    assert lease(client)["spec"]["holderIdentity"] == first.leader


def test_an_answer_of_another_shape_is_no_end(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    election = replica(client, "pod-a")
    with monkeypatch.context() as odd:
        odd.setattr(client, "get", lambda *_: {})
        election._turn()
    assert (election.error, election.is_leader) == ("'metadata'", False)
    election._turn()
    assert (election.error, election.is_leader) == (None, True)


def test_an_answer_that_got_lost_does_not_cost_the_lead(
    stand: Stand, server: ApiServer, client: Client
) -> None:
    first = stand("pod-a")
    until(lambda: first.is_leader)
    server.faults.drop("update", LEASES, times=3, done=True)
    seen = {lease(client)["metadata"]["resourceVersion"]}
    while len(seen) < 10:
        seen.add(lease(client)["metadata"]["resourceVersion"])
        assert first.is_leader
    assert lease(client)["spec"].get("leaseTransitions", 0) == 0


def test_a_lease_that_somebody_deleted_is_made_again(stand: Stand, client: Client) -> None:
    first = stand("pod-a")
    until(lambda: first.is_leader)
    client.delete(LEASES, NAME, namespace=NAMESPACE)
    until(lambda: client.list(LEASES, namespace=NAMESPACE)["items"])
    assert first.is_leader


def test_of_many_replicas_exactly_one_leads(stand: Stand) -> None:
    replicas = [stand(f"pod-{number}") for number in range(5)]
    until(lambda: any(replica.is_leader for replica in replicas))
    for _ in range(30):
        assert sum(replica.is_leader for replica in replicas) <= 1
        threading.Event().wait(0.02)
    until(lambda: all(replica.leader for replica in replicas))


def test_one_that_restarts_does_not_go_on_with_what_its_predecessor_held(
    stand: Stand, client: Client
) -> None:
    client.create(LEASES, written("pod-a_of-before", seconds=60))
    again = stand("pod-a")
    until(lambda: again.leader)
    assert again.leader == "pod-a_of-before"
    assert not again.is_leader


def test_whoever_gets_the_lead_is_told(client: Client) -> None:
    elected = threading.Event()
    election = Election(client, namespace=NAMESPACE, name=NAME, identity="pod-a", on_elected=elected.set)
    election.start()
    try:
        assert elected.wait(90)
    finally:
        election.stop()

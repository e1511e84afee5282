"""Claims are told of the MIG devices that were made for them, and nobody waits for it."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra_driver.devices.model import Device, Target
from dra_driver.errors import UnavailableError
from dra_driver.kube.errors import ForbiddenError, NotFoundError, ObjectConflictError, ServerError
from dra_driver.node.claim_status import ClaimStatus
from dra_driver.prepare import ClaimRef, Record
from dra_driver.prepare.record import RecordedDevice, State
from dra_driver.steps import Partition

SHARE = "0a000000-0000-4000-8000-000000000000"


class Server:
    """Takes what is applied, after the errors that are to come first."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.called = threading.Semaphore(0)

    def apply(self, namespace: str, name: str, body: dict[str, Any]) -> None:
        self.calls.append((namespace, name, body))
        self.called.release()
        if self.errors:
            raise self.errors.pop(0)

    def wait(self, number: int) -> None:
        for _ in range(number):
            assert self.called.acquire(timeout=60)


def record(name: str, *uuids: str | None, share_id: str | None = None) -> Record:
    devices = tuple(
        RecordedDevice(
            Device(f"dev-{i}", Target("partition", "", "GPU-1", "0000:65:00.0", 19, i)),
            "p",
            ("r",),
            share_id,
            partition=None if uuid is None else Partition(uuid, 7, 0),
        )
        for i, uuid in enumerate(uuids)
    )
    return Record(ClaimRef("ns", name, f"uid-{name}"), "boot", State.COMPLETED, devices)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def status(server: Server) -> Iterator[ClaimStatus]:
    status = ClaimStatus("gpu.nvidia.com", server.apply)
    status.start()
    yield status
    status.stop()


def finish(status: ClaimStatus, server: Server) -> None:
    """Wait until all before is told."""
    status.tell(record("last", "MIG-last"))
    while server.calls[-1:] == [] or server.calls[-1][1] != "last":
        server.wait(1)


def test_the_uuid_is_applied_to_the_status_of_the_very_claim(server: Server, status: ClaimStatus) -> None:
    status.tell(record("a", "MIG-1", None, share_id=SHARE))
    server.wait(1)
    entry = {
        "driver": "gpu.nvidia.com",
        "pool": "p",
        "device": "dev-0",
        "shareID": SHARE,
        "data": {"uuid": "MIG-1"},
    }
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a", "namespace": "ns", "uid": "uid-a"},
        "status": {"devices": [entry]},
    }
    assert server.calls == [("ns", "a", body)]


def test_it_is_told_once_and_again_when_it_is_another(server: Server, status: ClaimStatus) -> None:
    for uuid in ("MIG-1", "MIG-1", "MIG-2"):
        status.tell(record("a", uuid))
    status.forget("uid-a")
    status.tell(record("a", "MIG-2"))
    server.wait(3)
    finish(status, server)
    told = [body["status"]["devices"][0]["data"]["uuid"] for _, _, body in server.calls]
    assert told == ["MIG-1", "MIG-2", "MIG-2", "MIG-last"]


def test_a_claim_without_mig_devices_is_told_nothing(server: Server, status: ClaimStatus) -> None:
    status.tell(record("a", None))
    finish(status, server)
    assert len(server.calls) == 1


@pytest.mark.parametrize("error", [UnavailableError("away"), ServerError("busy", status=503)])
def test_a_server_that_is_away_is_asked_again(server: Server, error: Exception) -> None:
    server.errors = [error]
    status = ClaimStatus("gpu.nvidia.com", server.apply)
    status._stopping = _NoWaiting()
    status.start()
    status.tell(record("a", "MIG-1"))
    server.wait(2)
    status.stop()
    assert [name for _, name, _ in server.calls] == ["a", "a"]


class _NoWaiting(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return False


def refusal(kind: Callable[..., Exception], status: int) -> Exception:
    return kind(f"cannot patch ResourceClaim a: no ({status})", status=status)


def test_a_refusal_is_logged_and_told_anew_when_the_kubelet_asks_again(
    server: Server, status: ClaimStatus
) -> None:
    server.errors = [refusal(ForbiddenError, 403)]
    with capture_logs() as logs:
        status.tell(record("a", "MIG-1"))
        finish(status, server)
    assert [(entry["claim"], entry["err"]) for entry in logs] == [
        ("ns/a", "cannot patch ResourceClaim a: no (403)")
    ]
    status.tell(record("a", "MIG-1"))
    server.wait(1)


@pytest.mark.parametrize(("kind", "code"), [(NotFoundError, 404), (ObjectConflictError, 409)])
def test_a_claim_that_is_gone_is_none_of_our_business(
    server: Server, status: ClaimStatus, kind: Callable[..., Exception], code: int
) -> None:
    server.errors = [refusal(kind, code)]
    with capture_logs() as logs:
        status.tell(record("a", "MIG-1"))
        finish(status, server)
    assert logs == []


def test_a_fault_of_ours_does_not_end_the_thread(server: Server, status: ClaimStatus) -> None:
    server.errors = [RuntimeError("a fault")]
    with capture_logs() as logs:
        status.tell(record("a", "MIG-1"))
        finish(status, server)
    assert [entry["log_level"] for entry in logs] == ["error"]

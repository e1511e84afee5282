import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from dra_driver.errors import ConflictError, UnavailableError
from dra_driver.kubelet import sockets
from dra_driver.kubelet.pb import dra_v1_pb2, dra_v1_pb2_grpc, dra_v1beta1_pb2, dra_v1beta1_pb2_grpc
from dra_driver.kubelet.plugin import KubeletPlugin
from dra_driver.prepare.claim import ClaimRef
from dra_driver.process.logs import Fields


def _request(*names: str, pb: Any = dra_v1_pb2, message: str = "NodePrepareResourcesRequest") -> Any:
    claims = [{"namespace": "ns", "name": name, "uid": f"uid-{name}"} for name in names]
    return getattr(pb, message)(claims=claims)


def _fail(error: Exception) -> Any:
    def answer(ref: ClaimRef) -> Any:
        raise error

    return answer


class _SilentError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


def test_a_prepared_device_is_told_with_all_its_fields(channel: grpc.Channel) -> None:
    response = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(_request("a"))

    (device,) = response.claims["uid-a"].devices
    assert "" == response.claims["uid-a"].error
    assert ["gpu"] == list(device.request_names)
    assert ("node-a/gpu", "gpu-0", "share-1") == (device.pool_name, device.device_name, device.share_id)
    assert ["k8s.gpu.nvidia.com/claim=uid-a-gpu-0"] == list(device.cdi_device_ids)


def test_v1beta1_answers_the_same_without_share_ids(channel: grpc.Channel) -> None:
    stub = dra_v1beta1_pb2_grpc.DRAPluginStub(channel)

    response = stub.NodePrepareResources(_request("a", pb=dra_v1beta1_pb2))

    assert "gpu-0" == response.claims["uid-a"].devices[0].device_name


@pytest.mark.parametrize(
    "error",
    [
        ConflictError("device gpu-0 is held by claim ns/b"),
        ConflictError("half of a surrogate: \ud800"),
        ZeroDivisionError("x"),
        _SilentError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_one_bad_claim_never_fails_the_batch(channel: grpc.Channel, claims: Any, error: Exception) -> None:
    claims.answers["b"] = _fail(error)

    response = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(_request("a", "b", "c"))

    assert {"uid-a", "uid-b", "uid-c"} == set(response.claims)
    assert ["uid-b"] == [uid for uid, entry in response.claims.items() if entry.error]
    assert [] == list(response.claims["uid-b"].devices)
    assert {"prepare"} == {operation for operation, _ in claims.observed}


def test_every_uid_has_an_entry_even_without_devices(channel: grpc.Channel, claims: Any) -> None:
    claims.answers["a"] = lambda ref: ()

    response = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(_request("a"))

    assert ["uid-a"] == list(response.claims)
    message = _request("a", "b", message="NodeUnprepareResourcesRequest")
    unprepared = dra_v1_pb2_grpc.DRAPluginStub(channel).NodeUnprepareResources(message)
    assert {"uid-a": "", "uid-b": ""} == {uid: entry.error for uid, entry in unprepared.claims.items()}


@pytest.mark.parametrize("pb", [dra_v1_pb2, dra_v1beta1_pb2], ids=["v1", "v1beta1"])
def test_an_unprepare_that_fails_is_told_so_that_the_kubelet_comes_again(
    channel: grpc.Channel, claims: Any, pb: Any
) -> None:
    claims.answers["b"] = _fail(UnavailableError("the GPU does not answer"))
    stub = {dra_v1_pb2: dra_v1_pb2_grpc, dra_v1beta1_pb2: dra_v1beta1_pb2_grpc}[pb].DRAPluginStub(channel)

    request = _request("a", "b", pb=pb, message="NodeUnprepareResourcesRequest")
    response = stub.NodeUnprepareResources(request)

    errors = {uid: entry.error for uid, entry in response.claims.items()}
    assert {"uid-a": "", "uid-b": "the GPU does not answer"} == errors


def test_no_claims_are_no_entries(channel: grpc.Channel) -> None:
    response = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(
        dra_v1_pb2.NodePrepareResourcesRequest()
    )

    assert 0 == len(response.claims)


def test_an_error_is_one_line_whatever_its_cause(channel: grpc.Channel, claims: Any) -> None:
    claims.answers["a"] = _fail(ConflictError("first\nsecond"))

    response = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(_request("a"))

    assert "first second" == response.claims["uid-a"].error


def test_a_fault_of_ours_says_where_to_look(channel: grpc.Channel, claims: Any) -> None:
    claims.answers["a"] = _fail(ZeroDivisionError("division by zero"))

    with capture_logs() as logs:
        response = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(_request("a"))

    assert "internal error: division by zero; the log of the driver on this node has more" == (
        response.claims["uid-a"].error
    )
    assert ["error"] == [line["log_level"] for line in logs]


def test_one_waiting_claim_does_not_hold_up_the_others_of_its_batch(
    channel: grpc.Channel, claims: Any
) -> None:
    others = threading.Semaphore(0)

    def wait_for_others(ref: ClaimRef) -> Any:
        assert all(others.acquire(timeout=60) for _ in range(2))
        return ()

    def release(ref: ClaimRef) -> Any:
        others.release()
        return ()

    claims.answers.update(a=wait_for_others, b=release, c=release)

    response = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(
        _request("a", "b", "c"), timeout=60
    )

    assert {"uid-a": "", "uid-b": "", "uid-c": ""} == {uid: e.error for uid, e in response.claims.items()}


def test_prepares_that_wait_for_the_api_server_never_hold_up_an_unprepare(
    channel: grpc.Channel, claims: Any
) -> None:
    waiting, answered = threading.Semaphore(0), threading.Event()
    names = ("a", "b", "c", "d")

    def wait(ref: ClaimRef) -> Any:
        waiting.release()
        assert answered.wait(60)
        return ()

    claims.answers.update(dict.fromkeys(names, wait))
    stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
    pods = [stub.NodePrepareResources.future(_request(*names), timeout=60) for _ in range(110)]
    try:
        assert all(waiting.acquire(timeout=60) for _ in range(sockets.MAX_WORKERS))

        gone = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=_request("e", "f").claims)
        response = stub.NodeUnprepareResources(gone, timeout=30)

        assert ({"uid-e", "uid-f"}, 0) == (set(response.claims), sum(pod.done() for pod in pods))
    finally:
        answered.set()
    assert [4] * 110 == [len(pod.result().claims) for pod in pods]


def test_two_hundred_claims_of_one_call_are_prepared_each_once(channel: grpc.Channel, claims: Any) -> None:
    names = [f"claim-{number}" for number in range(200)]
    request = _request(*names, *names)  # each of them twice

    response = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(request)

    assert {f"uid-{name}" for name in names} == set(response.claims)
    assert 200 == len(claims.seen)


def test_a_call_that_outlives_its_deadline_is_finished_all_the_same(
    channel: grpc.Channel, claims: Any
) -> None:
    deadline_passed, finished = threading.Event(), threading.Event()

    def slow(ref: ClaimRef) -> Any:
        assert deadline_passed.wait(timeout=60)
        finished.set()
        return ()

    claims.answers["a"] = slow

    with pytest.raises(grpc.RpcError) as caught:
        dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(
            _request("a"), timeout=2
        )  # in which it has begun

    assert grpc.StatusCode.DEADLINE_EXCEEDED == caught.value.code()
    deadline_passed.set()
    assert finished.wait(timeout=60)


def test_running_calls_finish_before_the_plugin_stops(
    plugin: KubeletPlugin, channel: grpc.Channel, claims: Any
) -> None:
    running, go_on = threading.Event(), threading.Event()

    def slow(ref: ClaimRef) -> Any:
        running.set()
        assert go_on.wait(timeout=60)
        return ()

    claims.answers["a"] = slow
    future = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources.future(_request("a"))
    assert running.wait(timeout=60)
    stopper = threading.Thread(target=plugin.stop, args=(60,))
    stopper.start()
    go_on.set()

    assert ["uid-a"] == list(future.result(timeout=60).claims)
    stopper.join(timeout=60)
    assert not stopper.is_alive()
    assert not plugin.endpoint.exists()
    assert not plugin.registration_socket.exists()


def test_calls_that_hang_are_left_behind_by_a_plugin_that_stops(
    plugin: KubeletPlugin, channel: grpc.Channel, claims: Any
) -> None:
    running, go_on = threading.Semaphore(0), threading.Event()

    def hang(ref: ClaimRef) -> Any:
        running.release()
        assert go_on.wait(timeout=60)
        return ()

    claims.answers.update(a=hang, b=hang)
    future = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources.future(_request("a", "b"))
    assert all(running.acquire(timeout=60) for _ in range(2))

    plugin.stop(grace=0)

    assert not plugin.endpoint.exists()
    assert isinstance(future.exception(60), grpc.RpcError)
    go_on.set()


def test_every_line_of_a_call_carries_the_claim_and_one_operation(channel: grpc.Channel, claims: Any) -> None:
    bound: list[Mapping[str, str]] = []

    def remember(ref: ClaimRef) -> Any:
        bound.append(Fields.now())
        return ()

    claims.answers.update(a=remember, b=remember)

    dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(_request("a", "b"))

    assert {"ns/a", "ns/b"} == {line["claim"] for line in bound}
    assert {"uid-a", "uid-b"} == {line["claim_uid"] for line in bound}
    (op_id,) = {line["op_id"] for line in bound}
    assert 8 == len(op_id)


def test_the_sockets_are_for_the_owner_only(plugin: KubeletPlugin) -> None:
    paths: list[Path] = [plugin.endpoint, plugin.registration_socket]

    assert [0o700, 0o700] == [path.stat().st_mode & 0o777 for path in paths]

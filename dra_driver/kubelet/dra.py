"""NodePrepareResources and NodeUnprepareResources, v1 and v1beta1.

The contract with the kubelet, which the code below keeps whatever the claim engine does:

* one entry per requested claim UID, always: a missing entry fails the whole Pod with a text of the kubelet's
  own, and an exception would fail every claim of the batch. So each claim is handled, and fails, alone;
* an entry without error means that the container runtime can resolve every CDI id in it now;
* the kubelet gives a call 45 seconds. A claim that takes longer is finished all the same, on its thread; the
  next call for it waits for the same lock in the engine and answers with the finished result.

v1beta1 is v1 without share ids, so both are served by the same code over their own message classes.
"""

import itertools
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar

import grpc
import structlog

from dra_driver.errors import DriverError, one_line
from dra_driver.kubelet.pb import dra_v1_pb2, dra_v1_pb2_grpc, dra_v1beta1_pb2, dra_v1beta1_pb2_grpc
from dra_driver.prepare.claim import ClaimRef
from dra_driver.prepare.record import PreparedDevice
from dra_driver.process.logs import Fields

log = structlog.get_logger(__name__)

_T = TypeVar("_T")

# Counted from anywhere, so that the calls of one process differ, and most likely those of two.
_op_ids = itertools.count(secrets.randbits(32))

PREPARE = "prepare"
UNPREPARE = "unprepare"


class ClaimHandler(Protocol):
    """What prepares claims; see `dra_driver.prepare.engine.Engine`."""

    def prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]: ...

    def unprepare(self, ref: ClaimRef) -> None: ...


Observer = Callable[[str, DriverError | Exception | None, float], None]
"""Told of each claim handled: operation (PREPARE or UNPREPARE), its error or None, seconds."""


class Handler:
    """The version-independent half: claims in, one outcome per claim out."""

    def __init__(self, claims: ClaimHandler, executors: Mapping[str, Executor], observe: Observer) -> None:
        """`executors`: the threads of each operation, so that one never waits for the other."""
        self._claims = claims
        self._executors = executors
        self._observe = observe

    def prepare(self, refs: Sequence[ClaimRef]) -> dict[str, tuple[tuple[PreparedDevice, ...], str]]:
        """Devices and error text (empty: none) by claim UID."""
        return self._each(PREPARE, refs, self._claims.prepare, ())

    def unprepare(self, refs: Sequence[ClaimRef]) -> dict[str, tuple[None, str]]:
        """Error text (empty: none) by claim UID."""
        return self._each(UNPREPARE, refs, self._claims.unprepare, None)

    def _each(
        self, operation: str, refs: Sequence[ClaimRef], act: Callable[[ClaimRef], _T], nothing: _T
    ) -> dict[str, tuple[_T, str]]:
        op_id = f"{next(_op_ids) & 0xFFFFFFFF:08x}"

        def handle(ref: ClaimRef) -> tuple[_T, str]:
            claim = f"{ref.namespace}/{ref.name}"
            with Fields(op_id=op_id, op=operation, claim=claim, claim_uid=ref.uid):
                return self._one(operation, ref, act, nothing)

        # The kubelet sends all claims of a Pod together. One that waits must not hold up the others.
        outcomes = map(handle, refs) if len(refs) == 1 else self._executors[operation].map(handle, refs)
        return {ref.uid: outcome for ref, outcome in zip(refs, outcomes, strict=True)}

    def _one(
        self, operation: str, ref: ClaimRef, act: Callable[[ClaimRef], _T], nothing: _T
    ) -> tuple[_T, str]:
        begin = time.monotonic()
        failure: Exception | None = None
        result, text = nothing, ""
        try:
            result = act(ref)
        except DriverError as error:
            failure, text = error, one_line(error)
            log.warning("claim failed", err=text)
        except Exception as error:  # a fault of ours must not fail the other claims of the batch
            failure, text = (
                error,
                f"internal error: {one_line(error)}; the log of the driver on this node has more",
            )
            log.exception("claim failed for a reason that is a fault of this driver")
        seconds = time.monotonic() - begin
        if failure is None:
            log.info("claim done", seconds=round(seconds, 4))
        self._observe(operation, failure, seconds)
        return result, text


def _refs(request: Any) -> list[ClaimRef]:
    """The claims of a request, each UID once."""
    return list({c.uid: ClaimRef(c.namespace, c.name, c.uid) for c in request.claims}.values())


class _Translation:
    """One protocol version over the handler. `pb` is that version's generated module."""

    pb: Any
    has_share_id: bool

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def NodePrepareResources(self, request: Any, context: grpc.ServicerContext) -> Any:
        response = self.pb.NodePrepareResourcesResponse()
        for uid, (devices, error) in self._handler.prepare(_refs(request)).items():
            entry = response.claims[uid]
            entry.error = error
            for device in devices:
                entry.devices.append(self._device(device))
        return response

    def NodeUnprepareResources(self, request: Any, context: grpc.ServicerContext) -> Any:
        response = self.pb.NodeUnprepareResourcesResponse()
        for uid, (_, error) in self._handler.unprepare(_refs(request)).items():
            response.claims[uid].error = error
        return response

    def _device(self, device: PreparedDevice) -> Any:
        message = self.pb.Device(
            request_names=device.request_names,
            pool_name=device.pool,
            device_name=device.device,
            cdi_device_ids=device.cdi_ids,
        )
        if self.has_share_id and device.share_id is not None:
            message.share_id = device.share_id
        return message


class DraV1(_Translation, dra_v1_pb2_grpc.DRAPluginServicer):
    """k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin."""

    pb = dra_v1_pb2
    has_share_id = True


class DraV1beta1(_Translation, dra_v1beta1_pb2_grpc.DRAPluginServicer):
    """k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin."""

    pb = dra_v1beta1_pb2
    has_share_id = False


def add_services(server: grpc.Server, handler: Handler) -> None:
    """Serve both versions on `server`."""
    dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(DraV1(handler), server)
    dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(DraV1beta1(handler), server)

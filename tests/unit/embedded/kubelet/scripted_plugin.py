"""A DRA driver that answers what it is told: the fake for a kubelet's tests.

It speaks the real protocols (registration, DRA v1 and v1beta1) on real sockets, by generic handlers that carry
the wire names, so that a kubelet that calls something else gets UNIMPLEMENTED as from a real driver. By default
every claim gets one device, with an id that names the claim.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc

from dra_driver.kubelet import sockets
from dra_driver.kubelet.pb import dra_v1_pb2, dra_v1beta1_pb2
from dra_driver.kubelet.pb import pluginregistration_v1_pb2 as registration_pb
from dra_driver.kubelet.registration import PLUGIN_TYPE, V1, V1BETA1, VERSIONS
from dra_driver.prepare.claim import ClaimRef

_WIRE = {
    V1: "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    V1BETA1: "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}
_PB: dict[str, Any] = {V1: dra_v1_pb2, V1BETA1: dra_v1beta1_pb2}

Prepare = Callable[[list[ClaimRef]], dict[str, Any]]
"""Claims of a call to the entries of its answer: by claim UID, the fields of a NodePrepareResourceResponse."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that came in: protocol ("v1.DRAPlugin"), method, claims, and the caller's deadline in seconds."""

    service: str
    method: str
    claims: tuple[ClaimRef, ...]
    deadline: float


@dataclass(slots=True)
class ScriptedPlugin:
    """Announces `name` in `registry` and serves claims in `directory`. A context manager.

    `prepare` and `unprepare` replace the answers; what they raise fails the whole call with that text. What
    the kubelet said of the registration is in `told`, (registered, error).
    """

    name: str
    registry: Path
    directory: Path
    versions: Sequence[str] = VERSIONS
    type: str = PLUGIN_TYPE
    prepare: Prepare | None = None
    unprepare: Prepare | None = None
    get_info: Callable[[], None] = lambda: None
    calls: list[Call] = field(default_factory=list)
    told: list[tuple[bool, str]] = field(default_factory=list)
    _happened: threading.Condition = field(default_factory=threading.Condition)
    _claims: grpc.Server | None = None
    _announcement: grpc.Server | None = None

    @property
    def endpoint(self) -> Path:
        return self.directory / "dra.sock"

    @property
    def registration_socket(self) -> Path:
        return self.registry / f"{self.name}-reg.sock"

    def start(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._claims = sockets.serve(self.endpoint, self._add_claims)
        self._announcement = self.announce()
        return self

    def announce(self) -> grpc.Server:
        """Serve the registration alone; the caller stops it."""
        return sockets.serve(self.registration_socket, self._add_registration)

    def stop(self) -> None:
        """Withdraw the announcement, then stop serving; this removes the sockets."""
        for server in (self._announcement, self._claims):
            if server is not None:
                server.stop(grace=None).wait()

    def stop_claims(self) -> None:
        """Stop serving claims while the announcement stays, as a driver that is stuck or half dead."""
        if self._claims is not None:
            self._claims.stop(grace=None).wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, condition: Callable[[Self], bool], timeout: float = 90.0) -> None:
        """Wait until `condition` holds of what came in; TimeoutError."""
        with self._happened:
            if not self._happened.wait_for(lambda: condition(self), timeout):
                msg = f"plugin {self.name}: only {self.told} and {self.calls} came within {timeout} s"
                raise TimeoutError(msg)

    def _add_registration(self, server: grpc.Server) -> None:
        handlers: dict[str, Any] = {
            "GetInfo": grpc.unary_unary_rpc_method_handler(
                self._get_info,
                registration_pb.InfoRequest.FromString,
                registration_pb.PluginInfo.SerializeToString,
            ),
            "NotifyRegistrationStatus": grpc.unary_unary_rpc_method_handler(
                self._notify,
                registration_pb.RegistrationStatus.FromString,
                registration_pb.RegistrationStatusResponse.SerializeToString,
            ),
        }
        service = grpc.method_handlers_generic_handler("pluginregistration.Registration", handlers)
        server.add_generic_rpc_handlers((service,))

    def _add_claims(self, server: grpc.Server) -> None:
        for service, wire in _WIRE.items():
            pb = _PB[service]
            handlers = {
                f"Node{method}Resources": grpc.unary_unary_rpc_method_handler(
                    self._handler(service, method),
                    getattr(pb, f"Node{method}ResourcesRequest").FromString,
                    getattr(pb, f"Node{method}ResourcesResponse").SerializeToString,
                )
                for method in ("Prepare", "Unprepare")
            }
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(wire, handlers),))

    def _get_info(self, _request: Any, _context: grpc.ServicerContext) -> registration_pb.PluginInfo:
        self.get_info()
        return registration_pb.PluginInfo(
            type=self.type,
            name=self.name,
            endpoint=str(self.endpoint),
            supported_versions=self.versions,
        )

    def _notify(self, request: Any, _context: grpc.ServicerContext) -> Any:
        with self._happened:
            self.told.append((request.plugin_registered, request.error))
            self._happened.notify_all()
        return registration_pb.RegistrationStatusResponse()

    def _handler(self, service: str, method: str) -> Callable[[Any, grpc.ServicerContext], Any]:
        pb = _PB[service]

        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in request.claims]
            with self._happened:
                self.calls.append(Call(service, method, tuple(refs), context.time_remaining() or 0.0))
                self._happened.notify_all()
            script = self.prepare if method == "Prepare" else self.unprepare
            default = _one_device_each if method == "Prepare" else _nothing_each
            try:
                entries = (script or default)(refs)
            except Exception as error:  # noqa: BLE001 - the script's way to fail the whole call
                context.abort(grpc.StatusCode.INTERNAL, str(error))
            entry = getattr(pb, f"Node{method}ResourceResponse")
            return getattr(pb, f"Node{method}ResourcesResponse")(
                claims={uid: entry(**fields) for uid, fields in entries.items()}
            )

        return handle


def _one_device_each(refs: list[ClaimRef]) -> dict[str, Any]:
    return {
        ref.uid: {
            "devices": [
                {
                    "pool_name": "node/pool",
                    "device_name": "dev-0",
                    "cdi_device_ids": [f"example.com/claim={ref.uid}-dev-0"],
                }
            ]
        }
        for ref in refs
    }


def _nothing_each(refs: list[ClaimRef]) -> dict[str, Any]:
    return {ref.uid: {} for ref in refs}

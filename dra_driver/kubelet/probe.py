"""Is the plugin reachable as the kubelet reaches it?

A probe goes through both unix sockets: GetInfo on the announcing one, an empty NodePrepareResources on the
other. So it fails where a kubelet would fail: a socket file that is gone, a server that is stuck. The same
function answers grpc.health.v1 for the kubelet's gRPC probes, /healthz, and the question who it is that is
already registered under our name.
"""

from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dra_driver.errors import UnavailableError
from dra_driver.kubelet import sockets
from dra_driver.kubelet.pb import dra_v1_pb2, dra_v1_pb2_grpc
from dra_driver.kubelet.pb import pluginregistration_v1_pb2 as registration_pb2
from dra_driver.kubelet.pb import pluginregistration_v1_pb2_grpc as registration_pb2_grpc

_TIMEOUT_SECONDS = 5.0
SERVICES = ("", "liveness")  # names that our health service knows, as the official driver's


def registered_driver(registration_socket: Path) -> tuple[str, str] | None:
    """Driver name and endpoint that a living plugin announces on a socket; None where nobody answers.

    It gets more than the second that a kubelet gives: on a node that is just starting, a plugin that was overlooked
    would have its sockets taken from it.
    """
    if not registration_socket.exists():
        return None
    with sockets.connect(registration_socket) as channel:
        stub = registration_pb2_grpc.RegistrationStub(channel)
        try:
            info = stub.GetInfo(registration_pb2.InfoRequest(), timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError:
            return None
    return info.name, info.endpoint


def probe(registration_socket: Path, endpoint: Path) -> None:
    """Raise UnavailableError, naming the socket, unless both services answer."""
    if registered_driver(registration_socket) is None:
        msg = f"nobody answers on the registration socket {registration_socket}"
        raise UnavailableError(msg)
    with sockets.connect(endpoint) as channel:
        stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
        try:
            stub.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest(), timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            msg = f"nobody answers on the plugin socket {endpoint}"
            raise UnavailableError(msg) from error


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc] # the library has no types
    """grpc.health.v1.Health/Check over `probe`, for probes of the kubelet, which speak TCP only."""

    def __init__(self, registration_socket: Path, endpoint: Path) -> None:
        self._sockets = registration_socket, endpoint

    def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        if request.service not in SERVICES:
            context.abort(grpc.StatusCode.NOT_FOUND, f"unknown service {request.service!r}")
        status = health_pb2.HealthCheckResponse.SERVING
        try:
            probe(*self._sockets)
        except UnavailableError:
            status = health_pb2.HealthCheckResponse.NOT_SERVING
        return health_pb2.HealthCheckResponse(status=status)


def serve_health(port: int, registration_socket: Path, endpoint: Path) -> tuple[grpc.Server, int]:
    """Serve `Health` on a TCP port of all addresses (0: any free one); the server and its port."""
    from concurrent.futures import ThreadPoolExecutor

    # A port that another process serves is refused rather than shared.
    server = grpc.server(
        ThreadPoolExecutor(2, thread_name_prefix="health"), options=(("grpc.so_reuseport", 0),)
    )
    health_pb2_grpc.add_HealthServicer_to_server(Health(registration_socket, endpoint), server)
    try:
        bound = server.add_insecure_port(f"[::]:{port}")
    except RuntimeError as error:
        msg = f"cannot listen on port {port} for health checks: {error}"
        raise UnavailableError(msg) from error
    server.start()
    return server, bound

"""/metrics, /healthz and /readyz over HTTP.

Healthy means that the kubelet could call us; ready means that a Pod could be scheduled here and start. A probe
that fails answers 503 with the sentence that says why, so `kubectl describe` shows it.
"""

import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from dra_driver.errors import UnavailableError, one_line
from dra_driver.process.accepting import PatientServer

log = structlog.get_logger(__name__)

Check = Callable[[], None]
"""Returns where all is well, else raises UnavailableError with one sentence."""


class ProbeServer:
    """An HTTP server on one address; it listens from the beginning, and answers once it is started."""

    def __init__(self, address: str, registry: CollectorRegistry, *, healthy: Check, ready: Check) -> None:
        """`address` is host:port, as `flags.parse` has checked it; UnavailableError where it is not free."""
        host, _, port = address.rpartition(":")
        handler = type(
            "Handler", (_Handler,), {"registry": registry, "checks": {"/healthz": healthy, "/readyz": ready}}
        )
        try:
            self._server = _Server(host.strip("[]"), int(port), handler)
        except OSError as error:
            msg = f"cannot listen on {address} for metrics and probes: {error.strerror}"
            raise UnavailableError(msg) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="probes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(PatientServer, ThreadingHTTPServer):
    """Without a host it listens on all addresses, of IPv4 and of IPv6: a Pod may have either."""

    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._all = not host and socket.has_dualstack_ipv6()
        if self._all or ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        if self._all:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, *_: object) -> None:
        """Called for what a request's thread raised. A client that left early is no news."""
        error = sys.exception()
        if isinstance(error, OSError):
            log.debug("probe not answered", err=str(error))
        else:
            log.error("probe failed for a reason that is a fault of this driver", exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    registry: CollectorRegistry
    checks: dict[str, Check]
    timeout = 10  # a client that sends nothing must not keep its thread

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)
        elif (check := self.checks.get(path)) is not None:
            try:
                check()
            except UnavailableError as error:
                self._answer(503, f"{one_line(error)}\n".encode())
            else:
                self._answer(200, b"ok\n")
        else:
            self._answer(404, b"there are /metrics, /healthz and /readyz\n")

    def _answer(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Probes come every few seconds; they are no news."""

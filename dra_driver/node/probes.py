"""/metrics, /healthz and /readyz over HTTP.

Healthy means that the kubelet could call us; ready means that a Pod could be scheduled here and start. A probe
that fails answers 503 with the sentence that says why, so `kubectl describe` shows it.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from dra_driver.errors import UnavailableError, UsageError, one_line

Check = Callable[[], None]
"""Returns where all is well, else raises UnavailableError with one sentence."""


class ProbeServer:
    """An HTTP server on one address."""

    def __init__(self, address: str, registry: CollectorRegistry, *, healthy: Check, ready: Check) -> None:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            msg = f"--metrics-address: {address!r} is not host:port, such as 127.0.0.1:8080 or :8080"
            raise UsageError(msg)
        handler = type(
            "Handler", (_Handler,), {"registry": registry, "checks": {"/healthz": healthy, "/readyz": ready}}
        )
        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), handler)
        except OSError as error:
            msg = f"cannot listen on {address} for metrics and probes: {error.strerror}"
            raise UnavailableError(msg) from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="probes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    registry: CollectorRegistry
    checks: dict[str, Check]
    timeout = 10  # a client that sends nothing must not keep its thread

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)
        elif (check := self.checks.get(self.path)) is not None:
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

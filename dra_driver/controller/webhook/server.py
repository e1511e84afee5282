"""HTTPS for the webhook: a thread a connection, none of which a client can hold for long.

* There are at most so many connections. API servers keep some and use them again, so for one more an idle one is closed;
  where none is idle, the new one.
* Each connection has a moment at which it is cut off, whatever its client does: the TLS handshake and each request
  must be through by then, byte by byte or not, and an idle connection may wait for a while. A timeout of the socket
  would start anew with each byte.
* Bodies have a length that is said beforehand, and a limit.
* Whatever comes in gets an answer of HTTP, or its connection is closed. A fault of ours is answered with 500 and told
  in the log; what that means for the object is the failurePolicy's.
"""

import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from typing import Any

import structlog

from dra_driver.controller.webhook.protocol import MalformedError
from dra_driver.errors import UnavailableError
from dra_driver.process.accepting import PatientServer

log = structlog.get_logger(__name__)

PATH = "/validate"
MAX_BODY = 7 << 20  # an object and its predecessor, each of at most what etcd takes, and what is around them
_MAX_CONNECTIONS = 128
_REQUEST_SECONDS = 10.0
_IDLE_SECONDS = 120.0
_CHECK_SECONDS = 0.5
_POLL_SECONDS = 0.1  # how long the end of accepting may take
_STOP_SECONDS = 5.0
_LENGTH_DIGITS = 12

Handle = Callable[[bytes], bytes]
"""The body of an answer to the body of a call; MalformedError where it is none."""


class WebhookServer:
    """Listens from the beginning, and answers once it is started."""

    def __init__(
        self,
        address: str,
        context: Callable[[], ssl.SSLContext],
        handle: Handle,
        *,
        request_seconds: float = _REQUEST_SECONDS,
    ) -> None:
        """`address` is host:port; `context` is asked at each connection, so certificates may change at any time."""
        host, _, port = address.rpartition(":")
        try:
            self._server = _Server(host.strip("[]"), int(port), context, handle, request_seconds)
        except OSError as error:
            raise UnavailableError(f"cannot listen on {address} for the webhook: {error.strerror}") from error
        self.port: int = self._server.server_address[1]
        self._threads = [
            threading.Thread(
                target=self._server.serve_forever, args=(_POLL_SECONDS,), name="webhook", daemon=True
            ),
            threading.Thread(target=self._server.cut_off_late_ones, name="webhook-deadlines", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let requests under way be answered, for a while, and close everything."""
        self._server.stopping.set()
        if self._threads[0].is_alive():
            self._server.shutdown()
        self._server.drain(_STOP_SECONDS)
        self._server.server_close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_STOP_SECONDS)


class _Server(PatientServer, socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        context: Callable[[], ssl.SSLContext],
        handle: Handle,
        request_seconds: float,
    ) -> None:
        self.context = context
        self.handle_body = handle
        self.request_seconds = request_seconds
        self.stopping = threading.Event()
        self._changed = threading.Condition()
        self._deadlines: dict[socket.socket, float] = {}
        self._busy: set[socket.socket] = set()
        self._idle: set[socket.socket] = set()  # waiting for a further request
        self._dual = not host and socket.has_dualstack_ipv6()
        if self._dual or ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        if self._dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def get_request(self) -> tuple[socket.socket, Any]:
        """TLS from the beginning; the handshake waits for a thread of its own."""
        plain, address = super().get_request()
        try:
            secure = self.context().wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        except (OSError, UnavailableError) as error:
            plain.close()
            log.debug("connection not accepted", err=str(error))
            raise OSError(str(error)) from error  # what the caller passes over
        return secure, address

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            full = len(self._deadlines) >= _MAX_CONNECTIONS
            oldest = min(self._idle, key=self._deadlines.__getitem__, default=None) if full else None
            if oldest is not None:
                self._idle.remove(oldest)
                _cut(oldest)
            if not full or oldest is not None:
                self._deadlines[request] = time.monotonic() + self.request_seconds
        if full and oldest is None:
            log.warning("too many connections, one was closed", limit=_MAX_CONNECTIONS)
            super().shutdown_request(request)
            return
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._deadlines.pop(request, None)
            self._busy.discard(request)
            self._idle.discard(request)
            self._changed.notify_all()
        super().shutdown_request(request)

    def expect(self, connection: socket.socket, seconds: float, *, busy: bool) -> None:
        """From now on the connection has so long; `busy` while it has a request that shall be answered."""
        with self._changed:
            self._deadlines[connection] = time.monotonic() + seconds
            for group, member in ((self._busy, busy), (self._idle, not busy)):
                (group.add if member else group.discard)(connection)
            self._changed.notify_all()

    def cut_off_late_ones(self) -> None:
        while not self.stopping.wait(_CHECK_SECONDS):
            now = time.monotonic()
            with self._changed:
                late = [connection for connection, deadline in self._deadlines.items() if deadline < now]
            for connection in late:
                _cut(connection)

    def drain(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, seconds)
            for connection in self._deadlines:
                _cut(connection)
            self._changed.wait_for(lambda: not self._deadlines, seconds)

    def handle_error(self, *_: object) -> None:
        """Called for what a connection's thread raised. A client that left, or spoke no TLS, is no news."""
        error = sys.exception()
        if isinstance(error, OSError | ValueError):  # ValueError: the socket was closed under it
            log.debug("connection ended", err=str(error))
        else:
            log.error("connection failed for a reason that is a fault of this driver", exc_info=error)


def _cut(connection: socket.socket) -> None:
    """End the connection for both sides; its thread notices and closes it."""
    try:
        socket.socket.shutdown(
            connection, socket.SHUT_RDWR
        )  # TLS's own would take the thread's state from it
    except OSError:
        log.debug("connection was closed already")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"
    server: _Server
    rfile: BufferedReader

    def handle(self) -> None:
        self.connection.do_handshake()
        super().handle()

    def handle_one_request(self) -> None:
        if not self.rfile.peek(1):
            self.close_connection = True
            return
        self.server.expect(self.connection, self.server.request_seconds, busy=True)
        super().handle_one_request()
        self.server.expect(self.connection, _IDLE_SECONDS, busy=False)
        if self.server.stopping.is_set():
            self.close_connection = True

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path.partition("?")[0] != PATH:
            self._refuse(404, f"there is {PATH}")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(415, "the body has to be application/json")
        elif len(self.headers.get_all("Content-Length", ())) > 1:
            self._refuse(400, "the body has more than one length")
        elif "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self._refuse(411, "the length of the body has to be said")
        elif len(length) > _LENGTH_DIGITS or int(length) > MAX_BODY:
            self._refuse(413, f"the body has more than {MAX_BODY} bytes")
        else:
            self._review(int(length))

    def do_GET(self) -> None:
        self._refuse(405, "there is POST only")

    do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_GET  # noqa: N815 - names that http.server looks for

    def _review(self, length: int) -> None:
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True  # the client left, or was too slow
            return
        try:
            answer = self.server.handle_body(body)
        except MalformedError as error:
            self._answer(400, f"{error}\n".encode(errors="backslashreplace"), "text/plain; charset=utf-8")
        except Exception:  # an answer is owed, and the other requests are not to suffer
            log.exception("review failed for a reason that is a fault of this driver")
            self._answer(500, b"the webhook failed, see its log\n", "text/plain; charset=utf-8")
        else:
            self._answer(200, answer, "application/json")

    def _refuse(self, status: int, text: str) -> None:
        """An answer without the body being read, which ends the connection."""
        self.close_connection = True
        self._answer(status, f"{text}\n".encode(), "text/plain; charset=utf-8")

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Requests are counted, see the metrics; they are no news."""

"""An HTTP server on loopback that answers what it is told: the fake for what no real API server does on demand.

Semantics (conflicts, selectors, watches) are the embedded API server's; this one is for broken streams, proxies'
pages, silence, and for looking at what was asked. `answers` are given in order, and after the last one
`otherwise` decides.
"""

import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    """What came in; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: `body` as JSON, or bytes as they are."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch: each of `events` as a line, or bytes as they are; then held open until the server stops, or ended."""

    events: Sequence[Any] = ()
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed without an answer."""


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer comes until the server stops."""


Reply = Answer | Stream | Drop | Silence


def status(code: int, reason: str, message: str = "no", **details: Any) -> Answer:
    """The Status that an API server sends with an error."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return Answer(code, {**body, "message": message, "details": details})


class ScriptedServer:
    """The server; a context manager. `requests` grows as they come in."""

    def __init__(
        self,
        answers: Sequence[Reply] = (),
        *,
        otherwise: Callable[[Request], Reply] = lambda _request: Answer(),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.connections: list[Any] = []  # the client's address of each that was accepted
        self.answers = deque(answers)
        self.otherwise = otherwise
        self.arrived = threading.Condition()  # notified for each request
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler_for(self), self.connections)
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def wait_for(self, count: int, timeout: float = 60.0) -> list[Request]:
        """The requests, once there are `count` of them; TimeoutError."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: len(self.requests) >= count, timeout):
                msg = f"{len(self.requests)} of {count} requests came within {timeout} s"
                raise TimeoutError(msg)
            return list(self.requests)

    def reply(self, request: Request) -> Reply:
        with self.arrived:
            self.requests.append(request)
            self.arrived.notify_all()
            if self.answers:
                return self.answers.popleft()
        return self.otherwise(request)

    def hold(self) -> None:
        self._stopping.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], accepted: list[Any]
    ) -> None:
        super().__init__(address, handler)
        self._accepted = accepted
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._connections.add(request)
            self._accepted.append(client_address)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or trusts no certificate, is what many tests are about."""

    def close_connections(self) -> None:
        """End kept-alive connections, whose handlers otherwise wait for a next request for ever."""
        with self._guard:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # closed by its client already


def _handler_for(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(data) if data else None
            match server.reply(
                Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
            ):
                case Answer() as answer:
                    self._answer(answer)
                case Stream(events, hold):
                    self._stream(events, hold=hold)
                case Drop():
                    self.close_connection = True
                case Silence():
                    self.close_connection = True
                    server.hold()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - http.server's names

        def _answer(self, answer: Answer) -> None:
            data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(data)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, events: Sequence[Any], *, hold: bool) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in events:
                data = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            if hold:
                server.hold()
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
            """Requests are looked at through `requests`."""

    return Handler

"""HTTP on the loopback interface: one thread a connection, kept alive as clients do.

Requests are handed to the `application`, its answers and refusals written back; `faults` are looked at before.
Ending is the server's own: it lets answers under way be finished, then closes every connection, so that no
thread or socket stays behind.
"""

import json
import select
import socket
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import structlog

from dra_driver.embedded.apiserver import faults, paths, status
from dra_driver.embedded.apiserver.answers import Answer, Request
from dra_driver.embedded.apiserver.application import Application, verb
from dra_driver.embedded.apiserver.faults import BrokenStreamError, Fault, Faults
from dra_driver.embedded.apiserver.options import decimal
from dra_driver.embedded.apiserver.storage import encode

log = structlog.get_logger(__name__)

_MAX_BODY_BYTES = 3 << 20  # as the real server
_LAST_ANSWER_SECONDS = 2.0  # that a client may take to read its answer when the server stops


class HttpServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1, at `port` or (0) any."""

    daemon_threads = False  # server_close() waits for them
    request_queue_size = 128

    def __init__(
        self,
        port: int,
        application: Application,
        injected: Faults,
        stopping: threading.Event,
    ) -> None:
        self.application = application
        self.faults = injected
        self.stopping = stopping  # ends what waits on purpose
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own looks its host name up, which may take seconds.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._connections.discard(request)
            self._changed.notify_all()
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Let answers under way be finished, then close what is left."""
        with self._changed:
            for how in (socket.SHUT_RD, socket.SHUT_RDWR):
                for connection in self._connections:
                    _shut(connection, how)
                self._changed.wait_for(lambda: not self._connections, _LAST_ANSWER_SECONDS)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's signature
        log.error("request handler failed", err=repr(sys.exc_info()[1]))


def _shut(connection: socket.socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError:
        log.debug("connection was closed already")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together
    server: HttpServer

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, BrokenStreamError):
            self.close_connection = True  # the client went away, or a fault says so

    def finish(self) -> None:
        try:
            super().finish()
        except (ConnectionError, ValueError):
            log.debug("client went away before its answer")

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names that http.server looks for

    def _serve(self) -> None:
        try:
            request = self._request()
            target = paths.parse(request.path)
            plural = target.kind.resource.plural if target else None
            fault = self.server.faults.take(verb(request, target), plural)
            if fault is not None:
                self._strike(fault)
            answer = self.server.application.handle(request, target)
        except status.StatusError as error:
            self._send_status(error)
            return
        except BrokenStreamError:
            raise
        except Exception as error:
            log.exception("request failed", method=self.command, path=self.path)
            self._send_status(
                status.StatusError(500, "InternalError", f"Internal error occurred: {error}", {})
            )
            return
        if fault is not None and fault.kind is faults.Kind.LOSE:
            raise BrokenStreamError
        if answer.stream is None:
            self._send(answer)
        else:
            self._stream(answer)

    def _strike(self, fault: Fault) -> None:
        if fault.kind is faults.Kind.DROP:
            raise BrokenStreamError
        if fault.kind is faults.Kind.DELAY and self.server.stopping.wait(fault.seconds):
            raise BrokenStreamError
        if fault.refusal is not None:
            raise fault.refusal

    def _request(self) -> Request:
        url = urlsplit(self.path)
        headers = self.headers
        length = decimal(headers.get("Content-Length") or "0")
        if length is None or "Transfer-Encoding" in headers:
            self.close_connection = True  # nobody knows where the next request begins
            raise status.bad_request("a body must come in one piece, with its Content-Length")
        if length > _MAX_BODY_BYTES:
            self.close_connection = True
            text = f"Request entity too large: limit is {_MAX_BODY_BYTES}"
            raise status.StatusError(413, "RequestEntityTooLarge", text, {})
        return Request(
            self.command,
            url.path,
            dict(parse_qsl(url.query, keep_blank_values=True)),
            self.rfile.read(length) if length else b"",
            headers.get("Content-Type") or "application/json",
            headers.get("Accept") or "application/json",
            headers.get("User-Agent") or "unknown",
        )

    def _send_status(self, error: status.StatusError) -> None:
        answer = Answer(encode(error.status()), error.code)
        retry_after = (error.details or {}).get("retryAfterSeconds")
        self._send(answer, {"Retry-After": str(retry_after)} if retry_after else {})

    def _send(self, answer: Answer, headers: dict[str, str] | None = None) -> None:
        self._head(answer, {"Content-Length": str(len(answer.body)), **(headers or {})})
        self.wfile.write(answer.body)
        self.wfile.flush()

    def _head(self, answer: Answer, headers: dict[str, str]) -> None:
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.content_type)
        for warning in answer.warnings:
            self.send_header("Warning", f"299 - {json.dumps(warning)}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, answer: Answer) -> None:
        assert answer.stream is not None
        self._head(answer, {"Transfer-Encoding": "chunked"})
        self.wfile.flush()
        try:
            for line in answer.stream:
                if line:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
                elif self._is_gone() and not self.server.stopping.is_set():  # which looks the same from here
                    self.close_connection = True
                    return
        finally:
            answer.stream.close()  # type: ignore[attr-defined]
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _is_gone(self) -> bool:
        """Whether the client has closed a connection on which it has nothing to say."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Requests are no news."""

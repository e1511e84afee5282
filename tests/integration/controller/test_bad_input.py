"""Whatever comes to the webhook's port: an answer of HTTP or a clean close, within its time, and it goes on."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from typing import Any

import pytest

from dra_driver.controller.certificates import authority
from dra_driver.controller.certificates.authority import Authorities
from dra_driver.controller.certificates.material import Material
from dra_driver.controller.webhook import server as server_module
from dra_driver.controller.webhook.protocol import MalformedError
from dra_driver.controller.webhook.server import MAX_BODY, WebhookServer
from dra_driver.errors import UnavailableError
from tests.exhausted import fail_first_accept

Headers = dict[str, str]
JSON = {"Content-Type": "application/json"}
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def tls() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's side and a client's."""
    made = Authorities.fresh(["localhost"], authority.now())
    served = Material(authority.pem(made.serving.certificate), made.serving.key_pem(), None)
    return served.context(), ssl.create_default_context(cadata=made.trusted_pem().decode())


def handle(body: bytes) -> bytes:
    if body == b"fault":
        raise ZeroDivisionError
    if body == b"malformed":
        raise MalformedError("the body is no AdmissionReview")
    return b'{"read": %d}' % len(body)


@pytest.fixture
def seconds() -> float:
    """How long a request may take: as long as this machine needs, but in tests of those who take too long."""
    return PATIENCE_SECONDS


too_slow = pytest.mark.parametrize("seconds", [1.0])


@pytest.fixture
def served(tls: tuple[ssl.SSLContext, ssl.SSLContext], seconds: float) -> Iterator[WebhookServer]:
    server = WebhookServer("127.0.0.1:0", lambda: tls[0], handle, request_seconds=seconds)
    server.start()
    yield server
    server.stop()
    assert not [thread for thread in threading.enumerate() if "webhook" in thread.name]


class Caller:
    """Calls a server over TLS."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.port = port
        self.context = context

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS)
        return self.context.wrap_socket(plain, server_hostname="localhost")

    def call(self, method: str, path: str, body: bytes | None, headers: Headers) -> tuple[int, bytes]:
        connection = HTTPSConnection("localhost", self.port, context=self.context, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def raw(self, data: bytes) -> bytes:
        """All that comes back for these bytes; empty for a close without an answer."""
        with self.connect() as connection:
            connection.sendall(data)
            return everything(connection)


def everything(connection: socket.socket) -> bytes:
    got = b""
    try:
        while part := connection.recv(65536):
            got += part
    except (ConnectionError, ssl.SSLError):
        pass  # the server closed without TLS's goodbye, which is a close all the same
    return got


@pytest.fixture
def caller(served: WebhookServer, tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> Caller:
    return Caller(served.port, tls[1])


@pytest.fixture(autouse=True)
def still_there(caller: Caller) -> Iterator[None]:
    """After each test a next request is answered, unless this machine took too long for it."""
    yield
    assert (200, b'{"read": 2}') == answered(caller)


def answered(caller: Caller) -> tuple[int, bytes]:
    """What comes back for a request, once it is not cut off."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return caller.call("POST", "/validate", b"{}", JSON)
        except OSError:
            assert time.monotonic() < give_up


def test_a_connection_is_used_again(caller: Caller) -> None:
    connection = HTTPSConnection("localhost", caller.port, context=caller.context, timeout=PATIENCE_SECONDS)
    for size in (0, 10, 100_000):
        connection.request("POST", "/validate?timeout=5s", b"x" * size, JSON)
        answer = connection.getresponse()
        assert (200, b'{"read": %d}' % size) == (answer.status, answer.read())
    connection.close()


REFUSED: dict[str, tuple[str, str, bytes | None, Headers, int]] = {
    "method": ("GET", "/validate", None, {}, 405),
    "another method": ("DELETE", "/validate", b"", JSON, 405),
    "path": ("POST", "/mutate", b"{}", JSON, 404),
    "no content type": ("POST", "/validate", b"{}", {}, 415),
    "content type": ("POST", "/validate", b"{}", {"Content-Type": "application/yaml"}, 415),
    "charset is fine": ("POST", "/validate", b"{}", {"Content-Type": "application/json; charset=utf-8"}, 200),
    "chunks": ("POST", "/validate", None, {**JSON, "Transfer-Encoding": "chunked"}, 411),
    "length": ("POST", "/validate", None, {**JSON, "Content-Length": "-1"}, 411),
    "length in words": ("POST", "/validate", None, {**JSON, "Content-Length": "ten"}, 411),
    "too large": ("POST", "/validate", None, {**JSON, "Content-Length": str(MAX_BODY + 1)}, 413),
    "endless": ("POST", "/validate", None, {**JSON, "Content-Length": "9" * 5000}, 413),
    "no review": ("POST", "/validate", b"malformed", JSON, 400),
    "our fault": ("POST", "/validate", b"fault", JSON, 500),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_is_wrong_is_refused_with_a_sentence(caller: Caller, name: str) -> None:
    method, path, body, headers, status = REFUSED[name]

    answered, text = caller.call(method, path, body, headers)

    assert status == answered
    assert text.strip()


HEAD = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
RAW: dict[str, tuple[bytes, bytes]] = {
    "no HTTP": (b"\x00\x01\x02\r\n\r\n", b"400"),
    "words": (b"what is this thing called\r\n\r\n", b"400"),
    "HTTP of the future": (b"POST /validate HTTP/9.9\r\n\r\n", b"505"),
    "a method that is none": (b"BREW /validate HTTP/1.1\r\nHost: x\r\n\r\n", b"501"),
    "an endless line": (b"POST /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    "an endless header": (HEAD + b"A: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
    "endless headers": (HEAD + b"".join(b"A%d: x\r\n" % n for n in range(300)) + b"\r\n", b"431"),
    "two lengths": (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"400"),
}


@pytest.mark.parametrize("name", RAW)
def test_bytes_that_are_no_request_are_answered_or_the_connection_is_closed(
    caller: Caller, name: str
) -> None:
    sent, status = RAW[name]

    assert status in caller.raw(sent)[:20]


SLOW = {
    "nothing": b"",
    "half a line": b"POST /vali",
    "half a head": HEAD,
    "half a body": HEAD + b"Content-Length: 100\r\n\r\n{",
}


@too_slow
@pytest.mark.parametrize("name", SLOW)
def test_a_client_that_stops_halfway_is_cut_off(caller: Caller, name: str) -> None:
    assert b"200" not in caller.raw(SLOW[name])


@too_slow
def test_a_client_that_sends_byte_by_byte_is_cut_off_as_well(caller: Caller) -> None:
    with caller.connect() as connection:
        ended = threading.Event()

        def drip() -> None:
            try:
                while not ended.wait(0.1):
                    connection.sendall(b"x")
            except OSError:
                return

        thread = threading.Thread(target=drip)
        connection.sendall(HEAD + b"Content-Length: 5000\r\n\r\n")
        thread.start()
        assert b"" == everything(connection)
        ended.set()
        thread.join()


@too_slow
def test_a_client_that_speaks_no_tls_is_cut_off(served: WebhookServer) -> None:
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_SECONDS) as silent:
        with socket.create_connection(("127.0.0.1", served.port), PATIENCE_SECONDS) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert b"HTTP/" not in everything(plain)
        assert b"" == everything(silent)


def test_a_client_that_leaves_is_no_news(caller: Caller) -> None:
    for data in (b"", HEAD, HEAD + b"Content-Length: 2\r\n\r\n{}"):
        connection = caller.connect()
        connection.sendall(data)
        connection.close()


def test_one_connection_too_many_is_closed_at_once(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 3)
    held = [socket.create_connection(("127.0.0.1", caller.port), PATIENCE_SECONDS) for _ in range(3)]
    with socket.create_connection(("127.0.0.1", caller.port), PATIENCE_SECONDS) as fourth:
        assert b"" == everything(fourth)
    for connection in held:
        connection.close()
    answered(caller)  # once their threads have noticed


def test_for_one_connection_too_many_an_idle_one_is_closed(
    served: WebhookServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 3)
    idle: list[HTTPSConnection] = []
    for _ in range(3):
        connection = HTTPSConnection(
            "localhost", caller.port, context=caller.context, timeout=PATIENCE_SECONDS
        )
        connection.request("POST", "/validate", b"{}", JSON)
        assert b'{"read": 2}' == connection.getresponse().read()
        idle.append(connection)
        while len(served._server._idle) < len(
            idle
        ):  # it has answered, and waits for the next request in a moment
            time.sleep(0.001)

    assert 200 == caller.call("POST", "/validate", b"{}", JSON)[0]

    assert b"" == everything(idle[0].sock)
    for connection in idle:
        connection.close()


def test_without_a_certificate_connections_are_closed_and_later_served(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    state: dict[str, Any] = {}

    def context() -> ssl.SSLContext:
        if "context" not in state:
            raise UnavailableError("the webhook has no certificate yet")
        found: ssl.SSLContext = state["context"]
        return found

    server = WebhookServer("127.0.0.1:0", context, handle)
    server.start()
    early = Caller(server.port, tls[1])
    with pytest.raises(OSError):
        early.call("POST", "/validate", b"{}", JSON)
    state["context"] = tls[0]

    assert 200 == early.call("POST", "/validate", b"{}", JSON)[0]
    server.stop()


def test_without_a_file_descriptor_the_webhook_waits_before_it_accepts_again(
    served: WebhookServer, tls: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fail_first_accept(monkeypatch, served.port)

    assert 200 == Caller(served.port, tls[1]).call("POST", "/validate", b"{}", JSON)[0]
    assert tried[1] - tried[0] >= 1.0


def test_a_port_that_is_taken_is_told(
    served: WebhookServer, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    with pytest.raises(UnavailableError, match="cannot listen on"):
        WebhookServer(f"127.0.0.1:{served.port}", lambda: tls[0], handle)


def test_a_request_under_way_is_answered_when_the_server_stops(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    begun, go = threading.Event(), threading.Event()

    def slowly(_: bytes) -> bytes:
        begun.set()
        go.wait(PATIENCE_SECONDS)
        return b"{}"

    server = WebhookServer("127.0.0.1:0", lambda: tls[0], slowly)
    server.start()
    caller = Caller(server.port, tls[1])
    answers: list[tuple[int, bytes]] = []
    calling = threading.Thread(target=lambda: answers.append(caller.call("POST", "/validate", b"{}", JSON)))
    calling.start()
    begun.wait(PATIENCE_SECONDS)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    go.set()
    stopping.join()
    calling.join()

    assert [(200, b"{}")] == answers


def test_every_address_may_be_listened_on(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    server = WebhookServer(":0", lambda: tls[0], handle)
    server.start()

    assert 200 == Caller(server.port, tls[1]).call("POST", "/validate", b"{}", JSON)[0]
    server.stop()

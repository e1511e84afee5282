"""Answers as they may come over a socket: cut anywhere, chunked, open-ended, too many, too slow, or none."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pytest
import urllib3

from dra_driver.errors import UnavailableError
from dra_driver.kube import connection
from dra_driver.kube.client import Client
from dra_driver.kube.connection import PlainConnection
from dra_driver.kube.endpoint import Endpoint, StaticToken
from dra_driver.kube.errors import UnauthorizedError
from dra_driver.kube.resources import NODES
from dra_driver.process.collector import paused

BODY = b'{"kind":"Node"}'
SIZED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n" + BODY
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4;x=y\r\n%b\r\nB\r\n%b\r\n0\r\nTrailer: t\r\n\r\n"
    % (
        BODY[:4],
        BODY[4:],
    )
)
OPEN_ENDED = b"HTTP/1.1 200 OK\r\n\r\n" + BODY


@dataclass
class RawServer:
    """Sends `parts` as the answer to each request, `pause` seconds apart, and keeps the connection, or closes it."""

    parts: Sequence[bytes]
    closes: bool = False
    pause: float = 0.0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    left: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))  # by a client
    url: str = ""

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return  # the test is over
            self.connections += 1
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with closing(peer):
            while request := peer.recv(65536):
                self.requests.append(request)
                try:
                    for part in self.parts:
                        peer.sendall(part)
                        time.sleep(self.pause)
                except OSError:
                    return  # the client gave up
                if self.closes:
                    return
            self.left.release()


@contextmanager
def serving(
    *parts: bytes, host: str = "127.0.0.1", closes: bool = False, pause: float = 0.0
) -> Iterator[RawServer]:
    server = RawServer(parts, closes, pause)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        port = listener.getsockname()[1]
        server.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def client_of(server: RawServer, timeout: float = 60.0) -> Iterator[Client]:
    with closing(Client(Endpoint(server.url, StaticToken()), timeout=timeout)) as client:
        yield client


@pytest.mark.parametrize("answer", [SIZED, CHUNKED], ids=["sized", "chunked"])
def test_an_answer_may_be_cut_anywhere(answer: bytes) -> None:
    for place in range(1, len(answer)):
        with serving(answer[:place], answer[place:], pause=0.001) as server, client_of(server) as client:
            assert client.raw_get("/a") == {"kind": "Node"}, place


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    with serving(OPEN_ENDED, closes=True) as server, client_of(server) as client:
        assert [client.raw_get("/a"), client.raw_get("/a")] == [{"kind": "Node"}] * 2
    assert server.connections == 2


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_a_connection_that_the_server_will_close_is_not_used_again(head: bytes) -> None:
    with serving(head + SIZED.partition(b"\r\n")[2]) as server, client_of(server) as client:
        assert [client.raw_get("/a"), client.raw_get("/a")] == [{"kind": "Node"}] * 2
    assert server.connections == 2


def test_a_client_that_is_refused_leaves_no_connection_open() -> None:
    with (
        serving(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n") as server,
        client_of(server) as client,
        paused(),  # the garbage collector may come late
    ):
        for _ in range(3):
            with pytest.raises(UnauthorizedError):
                client.raw_get("/a")
            assert server.left.acquire(timeout=60)
    assert server.connections == 3


def test_what_comes_before_the_answer_is_not_the_answer() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    with serving(early + SIZED) as server, client_of(server) as client:
        assert client.raw_get("/a") == {"kind": "Node"}
        assert client.raw_get("/a") == {"kind": "Node"}
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        SIZED[:-1],
        CHUNKED[:-10],
        SIZED[:20],
        b"",
        SIZED + SIZED,
        b"SSH-2.0-OpenSSH_9.9\r\n",
        SIZED.replace(b"15", b"-1"),
        SIZED.replace(b"Content-Type", b"Content-Length: 3\r\nContent-Type"),
        CHUNKED.replace(b"\r\nB\r\n", b"\r\nZ\r\n"),
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    ],
    ids=[
        "short",
        "short chunk",
        "half a head",
        "nothing",
        "two",
        "no HTTP",
        "negative",
        "two lengths",
        "no chunk",
        "wait",
        "other protocol",
    ],
)
def test_half_an_answer_and_nonsense_are_no_answer(answer: bytes) -> None:
    with (
        serving(answer, closes=True) as server,
        client_of(server) as client,
        pytest.raises(UnavailableError, match=r"cannot get /a: no answer from \S+ \(the connection broke\)"),
    ):
        client.raw_get("/a")
    assert len(server.requests) == 2  # a GET is sent again


def test_a_server_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PARTS", 1 / 60)  # a second, where a part may take a minute
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    with serving(endless, *[b" "] * 1000, pause=0.05) as server, client_of(server) as client:
        begin = time.monotonic()
        with pytest.raises(UnavailableError, match="too slow"):
            client.raw_get("/a")
        assert time.monotonic() - begin > 1.0


def test_a_large_answer_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PARTS", 1 / 60)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1_000_000 + 5 + len(BODY))
    with (
        serving(head + b" " * 1_000_000, *[b" "] * 5, BODY, pause=0.25) as server,
        client_of(server) as client,
    ):
        begin = time.monotonic()
        assert client.raw_get("/a") == {"kind": "Node"}
        assert time.monotonic() - begin > 1.0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_request_is_whole_and_names_its_host(host: str) -> None:
    with serving(SIZED, host=host) as server, client_of(server) as client:
        client.raw_get("/a b\u00e9\n?c=d e")
    lines = server.requests[0].decode().split("\r\n")
    assert lines[0] == "GET /a%20b%C3%A9%0A?c=d%20e HTTP/1.1"
    assert {line.partition(": ")[0]: line.partition(": ")[2] for line in lines[1:-2]} == {
        "Host": server.url.removeprefix("http://"),
        "User-Agent": lines[2].removeprefix("User-Agent: "),
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    assert lines[-2:] == ["", ""]


def test_a_zone_is_used_and_not_told() -> None:
    with serving(SIZED, host="::1") as server:
        server.url = server.url.replace("::1", "::1%251")
        with client_of(server) as client:
            client.raw_get("/a")
    assert (
        f"\r\nHost: {server.url.removeprefix('http://').replace('%251', '')}\r\n".encode()
        in server.requests[0]
    )


@pytest.mark.parametrize(
    "answer",
    [
        SIZED,
        CHUNKED,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 429 \r\nRetry-After: 7\r\nWarning: 299 - a\r\nwarning: 299 - b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 Internal Server Error\r\nX: \xe9\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_what_is_read_is_what_urllib3_reads(answer: bytes) -> None:
    found = []
    for kind in (PlainConnection, urllib3.connection.HTTPConnection):
        with serving(answer) as server:
            pool = urllib3.PoolManager(retries=False, timeout=60.0).connection_from_url(server.url)
            pool.ConnectionCls = kind
            response = pool.urlopen("GET", "/a", headers={"Host": "h"}, retries=False)
            found.append((response.status, response.data, sorted(response.headers.items())))
            pool.close()

    assert found[0] == found[1]


def test_a_body_is_sent_with_its_length() -> None:
    with serving(SIZED) as server, client_of(server) as client:
        client.create(NODES, {"metadata": {"name": "\u00e9"}})
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert json.loads(body) == {"metadata": {"name": "\u00e9"}}
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")


def test_who_does_not_read_a_request_after_a_stream_is_given_up() -> None:
    def serve(listener: socket.socket) -> None:
        with closing(listener.accept()[0]) as peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            given_up.wait(60)

    given_up = threading.Event()
    server = RawServer(())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        with client_of(server, timeout=2.0) as client:
            assert not list(
                client.watch(NODES, resource_version="1", timeout_seconds=300, stop=threading.Event())
            )
            begin = time.monotonic()
            with pytest.raises(UnavailableError):
                client.create(NODES, {"metadata": {"name": "a" * 10_000_000}})
            assert time.monotonic() - begin < 20  # the kernel gives up after 30
        given_up.set()

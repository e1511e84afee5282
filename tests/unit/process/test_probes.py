"""/healthz, /readyz and /metrics for whoever asks, however they ask."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from dra_driver.errors import UnavailableError
from dra_driver.process.probes import ProbeServer
from tests.exhausted import fail_first_accept

needs_ipv6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")


def fine() -> None:
    """A check that finds nothing."""


def unavailable() -> None:
    raise UnavailableError("the hardware\nhas not answered yet")


def require(condition: bool) -> None:
    assert condition


def faulty() -> None:
    raise KeyError("a fault of ours")


@contextmanager
def serving(address: str = "127.0.0.1:0", ready: object = fine) -> Iterator[int]:
    server = ProbeServer(address, CollectorRegistry(), healthy=fine, ready=ready)  # type: ignore[arg-type] # a check
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_check_that_finds_nothing_is_ok(port: int) -> None:
    assert (200, "ok\n") == get(f"http://127.0.0.1:{port}/healthz")


def test_a_check_that_fails_says_why_in_one_line() -> None:
    with serving(ready=unavailable) as port:
        assert (503, "the hardware has not answered yet\n") == get(f"http://127.0.0.1:{port}/readyz")


def test_other_pages_are_not_found(port: int) -> None:
    assert (404, "there are /metrics, /healthz and /readyz\n") == get(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize("page", ["/healthz?verbose", "/readyz?", "/metrics?name[]=up"])
def test_a_query_does_not_matter(port: int, page: str) -> None:
    assert 200 == get(f"http://127.0.0.1:{port}{page}")[0]


@needs_ipv6
def test_without_a_host_it_listens_on_addresses_of_both_kinds() -> None:
    with serving(":0") as port:
        urls = [f"http://{host}:{port}/healthz" for host in ("127.0.0.1", "[::1]")]
        assert [200, 200] == [get(url)[0] for url in urls]


@needs_ipv6
def test_an_address_of_ipv6_stands_in_brackets() -> None:
    with serving("[::1]:0") as port:
        assert 200 == get(f"http://[::1]:{port}/healthz")[0]


def test_an_address_that_is_taken_is_told(port: int) -> None:
    message = r"cannot listen on 127.0.0.1:\d+ for metrics and probes: Address already in use"
    with pytest.raises(UnavailableError, match=message):
        ProbeServer(f"127.0.0.1:{port}", CollectorRegistry(), healthy=fine, ready=fine)


def test_a_client_that_resets_its_connection_leaves_no_trace(capfd: pytest.CaptureFixture[str]) -> None:
    answered = threading.Event()
    with capture_logs() as lines, serving(ready=lambda: require(answered.wait(60))) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset at close
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
        answered.set()
        get(f"http://127.0.0.1:{port}/healthz")

    assert "Traceback" not in capfd.readouterr().err
    assert [] == [line for line in lines if line["log_level"] != "debug"]


def test_a_fault_of_ours_in_a_check_is_logged() -> None:
    with capture_logs() as lines, serving(ready=faulty) as port, pytest.raises(OSError):
        get(f"http://127.0.0.1:{port}/readyz")

    assert ["error"] == [line["log_level"] for line in lines]


def test_without_a_file_descriptor_a_server_says_so_and_waits_before_it_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving() as port, capture_logs() as logs:
        tried = fail_first_accept(monkeypatch, port)
        answer = get(f"http://127.0.0.1:{port}/healthz")

    assert answer == (200, "ok\n")
    (line,) = (line for line in logs if line["event"] == "connections cannot be accepted")
    assert (line["log_level"], line["err"]) == ("error", "Too many open files")
    assert tried[1] - tried[0] >= 1.0

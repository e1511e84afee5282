"""HTTP to one API server: a pool of kept-alive connections, JSON in and out, answers told from silence.

urllib3 directly, because it is a fifth of the memory of the `kubernetes` client and NodePrepareResources waits
for one GET.

Nothing is retried here, since only the caller knows whether a second try makes sense, with one exception: a
GET whose connection broke before an answer came is sent once more, as a server may close a kept-alive
connection at the moment it is reused. Every wait ends: connecting, each read, an answer as a whole, and a stream
that is silent for longer than it asked for. After a time-out, a TLS failure or a 401 the pool is thrown away, since the other
connections are as likely dead and the certificates may have been renewed.
"""

import contextlib
import logging
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    LocationValueError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from dra_driver import strictjson
from dra_driver.errors import UnavailableError, one_line
from dra_driver.kube.connection import PlainConnection, TlsConnection
from dra_driver.kube.endpoint import Endpoint
from dra_driver.kube.errors import from_answer

_MAX_CONNECTIONS = 24  # kept alive: 16 threads of Prepare, watches, the publisher, Events
_CONNECT_SECONDS = 5.0
_GUARD_SECONDS = 5.0  # how long a stream's guard may outlive it
# A peer that vanished without a word is noticed after about a minute (client-go asks for the same), and
# unacknowledged data after half of one. Values are seconds, the last one milliseconds; Linux only.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
_SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _KEEPALIVE.items()
        if hasattr(socket, name)
    ),
]

# It warns of each connection above the number kept, which is a busy moment and no trouble.
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


class Transport:
    """Requests to one endpoint, from any thread. Refusals are `kube.errors`, silence is UnavailableError.

    `attempt` of each method is what the request is for, put into error texts behind "cannot".
    """

    def __init__(self, endpoint: Endpoint, *, user_agent: str, timeout: float) -> None:
        """`timeout`: seconds to wait for each part of an answer. UnavailableError: URL or certificates are no use."""
        self.url = endpoint.url
        self._endpoint = endpoint
        self._timeout = urllib3.Timeout(connect=min(timeout, _CONNECT_SECONDS), read=timeout)
        try:
            self._pool = self._new_pool()
            url = urllib3.util.parse_url(endpoint.url)
        except LocationValueError as error:
            raise UnavailableError(f"{endpoint.url!r} or its proxy is no URL: {one_line(error)}") from error
        self._headers = {
            "Host": re.sub(r"%[^]]*(?=])", "", url.netloc or ""),  # an IPv6 zone is no business of the peer
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # who does not say so takes any, by the letter of HTTP
        }
        # A proxy for plain HTTP is told the whole URL, everybody else the path.
        proxied = endpoint.proxy and url.scheme == "http"
        self._prefix = endpoint.url if proxied else (url.path or "").rstrip("/")

    def request(
        self,
        method: str,
        target: str,
        attempt: object,
        body: Any = None,
        content_type: str = "application/json",
        loads: Callable[[bytes], Any] = strictjson.loads_plain,
    ) -> dict[str, Any]:
        """Send `body` as JSON to `target` (path and query) and return the object that comes back, as `loads` reads it."""
        response = self._send(method, target, attempt, body, content_type, self._timeout)
        try:
            content = loads(response.data)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            msg = f"cannot {attempt}: {self.url} answered with something that is no JSON object"
            raise UnavailableError(msg)
        return content

    def stream(
        self, target: str, attempt: object, *, silence_seconds: float, stop: threading.Event
    ) -> Iterator[bytes]:
        """The lines of an answer as they come, until it ends, `stop` is set, or nothing came for too long."""
        timeout = urllib3.Timeout(connect=self._timeout.connect_timeout, read=silence_seconds)
        response = self._send("GET", target, attempt, None, "", timeout, stream=True)
        ended = threading.Event()
        threading.Thread(
            target=_guard, args=(response, stop, ended), name="stream-guard", daemon=True
        ).start()
        try:
            rest = b""
            while not stop.is_set() and (
                chunk := response.read1()
            ):  # never waits for more than what is there
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line for line in lines if line.strip())
        except (HTTPError, OSError, ValueError) as error:
            if not stop.is_set():
                raise self._unavailable(attempt, error) from error
        finally:
            ended.set()
            response.close()  # and so never back into the pool: the answer was not read to its end

    def close(self) -> None:
        self._pool.close()

    def _send(
        self,
        method: str,
        target: str,
        attempt: object,
        body: Any,
        content_type: str,
        timeout: urllib3.Timeout,
        *,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        data = None if body is None else strictjson.compact(body).encode()
        headers = dict(self._headers)
        if data is not None:
            headers["Content-Type"] = content_type
        if authorization := self._endpoint.credentials.authorization():
            if not (authorization.isascii() and authorization.isprintable()):  # not told: it may be a secret
                raise UnavailableError(f"cannot {attempt}: the token for {self.url} is none, or half-written")
            headers["Authorization"] = authorization
        pool = self._pool

        def send() -> urllib3.BaseHTTPResponse:
            return pool.urlopen(
                method,
                self._prefix + target,
                data,
                headers,
                retries=False,
                redirect=False,
                assert_same_host=False,  # a plain-HTTP proxy's pool is told of another host
                timeout=timeout,
                preload_content=not stream,
            )

        try:
            response = _again_if_stale(send) if method == "GET" else send()
            if not 200 <= response.status < 300:
                answer = response.data  # a stream's as well: a refusal is short
        except (HTTPError, OSError) as error:
            if isinstance(error, ReadTimeoutError | ConnectTimeoutError | SSLError):
                self._renew(pool)
            raise self._unavailable(attempt, error) from error
        if 200 <= response.status < 300:
            return response
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._endpoint.credentials.renew()
            self._renew(pool)
        # Under no name here, or error and frame would refer to each other, and keep the old pool's connections open.
        raise from_answer(str(attempt), response.status, answer, response.headers.get("Retry-After"))

    def _new_pool(self) -> urllib3.HTTPConnectionPool:
        endpoint = self._endpoint
        options: dict[str, Any] = {"maxsize": _MAX_CONNECTIONS, "socket_options": _SOCKET_OPTIONS}
        if endpoint.tls is not None:
            if not endpoint.tls.verify:  # the kubeconfig says so; a warning with each connection helps nobody
                urllib3.disable_warnings(InsecureRequestWarning)
            try:
                options["ssl_context"] = endpoint.tls.ssl_context()
            except (OSError, ValueError) as error:
                msg = f"cannot use the certificates for {endpoint.url}: {_reason(error)}"
                raise UnavailableError(msg) from error
            if endpoint.server_name:
                options |= {"server_hostname": endpoint.server_name, "assert_hostname": endpoint.server_name}
        manager = (
            urllib3.ProxyManager(endpoint.proxy, proxy_headers=_who_asks(endpoint.proxy), **options)
            if endpoint.proxy
            else urllib3.PoolManager(**options)
        )
        pool = manager.connection_from_url(endpoint.url)
        pool.ConnectionCls = TlsConnection if pool.scheme == "https" else PlainConnection  # type: ignore[assignment]
        return pool

    def _renew(self, pool: urllib3.HTTPConnectionPool) -> None:
        """Replace `pool`, unless another thread did; its idle connections are closed with it."""
        if self._pool is pool:
            self._pool = self._new_pool()

    def _unavailable(self, attempt: object, error: Exception) -> UnavailableError:
        return UnavailableError(f"cannot {attempt}: no answer from {self.url} ({_reason(error)})")


def _who_asks(proxy: str) -> dict[str, str]:
    """The headers for a proxy, in whose URL a user and a password may stand."""
    user = urllib3.util.parse_url(proxy).auth
    return {} if user is None else urllib3.make_headers(proxy_basic_auth=unquote(user))


def _again_if_stale(send: Callable[[], urllib3.BaseHTTPResponse]) -> urllib3.BaseHTTPResponse:
    try:
        return send()
    except ProtocolError:
        return send()


def _guard(response: urllib3.BaseHTTPResponse, stop: threading.Event, ended: threading.Event) -> None:
    """Wake the thread that reads `response` once `stop` is set: a blocked read has no other ear."""
    while not ended.is_set():
        if stop.wait(_GUARD_SECONDS):
            # The errors mean that the reader was faster, and has closed it.
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                response.shutdown()
            return


def _reason(error: Exception) -> str:
    """Why there was no answer, without the addresses of objects that urllib3's texts carry."""
    match error:
        case ReadTimeoutError():
            return "connected, but silent for too long, or too slow"
        case NewConnectionError() | ProxyError() if error.__cause__ is not None:
            return (
                _reason(error.__cause__) if isinstance(error.__cause__, Exception) else str(error.__cause__)
            )
        case ConnectTimeoutError():  # of which NewConnectionError is one
            return "no connection in time"
        case SSLError() if error.args and isinstance(error.args[0], Exception):
            return _reason(error.args[0])
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ProtocolError():
            return "the connection broke"
        case OSError() if error.strerror:
            return error.strerror.lower()
        case _:
            return one_line(error, 200)

"""Connections on which an exchange costs half the processor time that it costs on urllib3's own.

A Prepare waits for one GET, and the way in which http.client writes a request and reads an answer was as much work as all
that is done with the claim. urllib3 still makes the connections, with TLS and proxies, keeps them, and names what fails;
only the exchange is ours: a request is one `sendall`, and what comes back goes to httptools, the parser of Node.js. Streams,
and requests through a proxy for plain HTTP, go urllib3's way.
"""

import http.client
import time
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import httptools
from urllib3 import HTTPHeaderDict, HTTPResponse
from urllib3.connection import HTTPConnection, HTTPSConnection

_CHUNK_BYTES = 65_536
# A server may send a byte now and then for ever. With ten seconds for each part an answer may take a minute, as long
# as an API server gives a request by default, and a large one the time that it needs on a slow line.
_PARTS = 6
_SLOW = 65_536  # bytes a second


class _Whole(HTTPConnection):
    """A connection that reads answers whole, unless they are streams; see the module."""

    _asked: str | None = None  # the path, while an answer to a request of ours is due
    _streamed = False  # so that the socket still has the patience for a stream

    # Like urllib3's own, not that of http.client.
    def request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        preload_content: bool = True,
        **options: Any,
    ) -> None:
        """Send a request; `headers` has the Host."""
        if not (preload_content and _is_plain_path(url)):
            self._asked, self._streamed = None, True
            super().request(method, url, body, headers, preload_content=preload_content, **options)
            return
        self._asked = url
        lines = [f"{method} {url} HTTP/1.1", *(f"{name}: {value}" for name, value in (headers or {}).items())]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        if self.sock is None:
            self.connect()
        elif self._streamed:
            self.sock.settimeout(self.timeout)
        self._streamed = False
        self.sock.sendall("\r\n".join((*lines, "", "")).encode("latin-1") + (body or b""))

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        """The answer; the errors are those of sockets and of http.client, which the pool expects."""
        url, self._asked = self._asked, None
        if url is None:
            return super().getresponse()
        answer = _Answer()
        parser = answer.parser = httptools.HttpResponseParser(answer)
        try:
            for data in self._parts():
                parser.feed_data(data)
                if answer.complete:
                    break
            else:
                answer.end()
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise http.client.HTTPException(f"the answer is no HTTP: {error}") from error
        answer.parser = None  # they refer to each other, and would wait for the garbage collector
        if not answer.keeps_open:
            self.close()
        return HTTPResponse(
            b"".join(answer.body) or BytesIO(),  # urllib3 takes b"" for no body at all
            answer.headers,
            parser.get_status_code(),
            preload_content=False,
            decode_content=False,  # no encoding was offered
            request_url=url,
        )

    def _parts(self) -> Iterator[bytes]:
        """What comes, as it comes, until the peer closes; TimeoutError where nothing comes, or no end."""
        sock, seconds = self.sock, self.timeout
        assert isinstance(seconds, float | int)  # a request that may wait for ever is a stream
        if sock.gettimeout() != seconds:  # each of these is a system call
            sock.settimeout(seconds)
        end = time.monotonic() + _PARTS * seconds
        while data := sock.recv(_CHUNK_BYTES):
            yield data
            end += len(data) / _SLOW
            if time.monotonic() > end:
                raise TimeoutError("the answer does not end")


class PlainConnection(_Whole):
    """HTTP."""


class TlsConnection(_Whole, HTTPSConnection):
    """HTTPS."""


class _Answer:
    """What the parser has found so far; its methods are called by the parser."""

    def __init__(self) -> None:
        self.parser: httptools.HttpResponseParser | None = None
        self.complete = False
        self.keeps_open = False  # the peer, for a next request
        self.on_message_begin()

    def on_message_begin(self) -> None:
        if self.complete:
            raise ValueError("two answers to one request")
        self.headers = HTTPHeaderDict()
        self.body: list[bytes] = []
        self._has_head = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else it comes behind the body, where nobody expects one
            self.headers.add(name.decode("latin-1"), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, part: bytes) -> None:
        self.body.append(part)

    def on_message_complete(self) -> None:
        assert self.parser is not None
        self.complete = self.parser.get_status_code() >= 200
        self._has_head = self.complete  # before it others may come, which say: wait
        self.keeps_open = self.parser.should_keep_alive()

    def end(self) -> None:
        """The peer closed: the end of an answer that does not say how long it is, and of any other too early."""
        if not self._has_head:
            raise http.client.RemoteDisconnected("closed without an answer")
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            raise http.client.IncompleteRead(b"".join(self.body))


def _is_plain_path(url: str) -> bool:
    """Whether it can stand in a request as it is; else urllib3 says what is wrong with it, or it is a proxy's."""
    return url.startswith("/") and url.isascii() and url.isprintable() and " " not in url

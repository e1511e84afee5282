"""URLs: url("https://host:80/path?x=1") and its parts. Only absolute URLs and absolute paths are URLs here."""

import re
from urllib.parse import SplitResult, parse_qs, quote, unquote_to_bytes, urlsplit

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.declarations import Library, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.types import BOOL, STRING, list_of, map_of, opaque
from dra_driver.cel.values import Opaque

URL = opaque("kubernetes.URL")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_PRICE = 40  # of taking one apart
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


class Url(Opaque):
    __slots__ = ("parts", "text")
    type_name = URL.name

    def __init__(self, text: str, parts: SplitResult) -> None:
        self.text = text
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def _url(text: str) -> Url:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from error
    absolute = text.startswith("/") or _SCHEME.match(text) is not None
    host = parts.netloc.rpartition("@")[2]
    if (
        not absolute
        or _FORBIDDEN.search(text)
        or _BAD_ESCAPE.search(parts.path)
        or (port is not None and port < 0)
    ):
        raise EvaluationError(f"URL parse error during conversion from string: parse {text!r}: invalid URI")
    if "[" in host and not re.fullmatch(r"\[[^\]]*\](?::\d*)?", host):
        raise EvaluationError(f"URL parse error during conversion from string: parse {text!r}: invalid host")
    return Url(text, parts)


def _is_url(text: str) -> bool:
    try:
        _url(text)
    except EvaluationError:
        return False
    return True


def _host(url: Url) -> str:
    return url.parts.netloc.rpartition("@")[2]


def _hostname(url: Url) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: Url) -> str:
    return "" if url.parts.port is None else str(url.parts.port)


def _escaped_path(frame: Frame, url: Url) -> str:
    charge(frame, _PRICE + len(url.text))
    return quote(unquote_to_bytes(url.parts.path), safe="/$&+,:;=@!'()*~") if url.parts.path else ""


def _query(frame: Frame, url: Url) -> dict[str, list[str]]:
    charge(frame, _PRICE + len(url.text))
    return parse_qs(url.parts.query, keep_blank_values=True)


LIBRARY = Library(
    (
        function("url", (STRING,), URL, _url, price=_PRICE),
        function("isURL", (STRING,), BOOL, _is_url, price=_PRICE),
        method("getScheme", (URL,), STRING, lambda url: url.parts.scheme),
        method("getHost", (URL,), STRING, _host),
        method("getHostname", (URL,), STRING, _hostname),
        method("getPort", (URL,), STRING, _port),
        method("getEscapedPath", (URL,), STRING, _escaped_path, metered=True),
        method("getQuery", (URL,), map_of(STRING, list_of(STRING)), _query, metered=True),
    )
)

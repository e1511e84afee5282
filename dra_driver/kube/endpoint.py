"""An API server, and who we are there.

Tokens and certificates rotate. A token file is read again every minute and after a 401; certificates are read
whenever `ssl_context` is called, which the client does each time it opens a fresh pool of connections.
"""

import ssl
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dra_driver.errors import UnavailableError, one_line

_TOKEN_SECONDS = 60.0  # as client-go; kubelet replaces a projected token well before it expires


class Credentials(Protocol):
    """Who we are, as the value of an Authorization header; None where a client certificate, or nothing, says it."""

    def authorization(self) -> str | None: ...

    def renew(self) -> None:
        """The server did not accept us: forget what is cached."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How to check the server, and our certificate; each part is a file, data, or None."""

    authority_file: str | None = None
    authority: bytes | None = None
    certificate: bytes | Path | None = None
    key: bytes | Path | None = None
    verify: bool = True

    def ssl_context(self) -> ssl.SSLContext:
        """A context from the files as they are now; OSError, ssl.SSLError or ValueError where they are no use."""
        context = ssl.create_default_context(
            cafile=self.authority_file, cadata=self.authority.decode() if self.authority else None
        )
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            # OpenSSL's interface takes files only, so data goes through ones that live for this call.
            with tempfile.TemporaryDirectory(prefix="dra-driver-") as directory:
                certificate = _as_file(self.certificate, Path(directory, "tls.crt"))
                key = None if self.key is None else _as_file(self.key, Path(directory, "tls.key"))
                context.load_cert_chain(certificate, key)
        return context


def _as_file(content: bytes | Path, path: Path) -> Path:
    if isinstance(content, Path):
        return content
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server, with all that a connection to it needs."""

    url: str  # with a path where the server is behind one, without a slash at its end
    credentials: Credentials
    tls: Tls | None = None  # None: plain HTTP
    server_name: str | None = None  # in the certificate, where it is not the URL's host
    proxy: str | None = None


class StaticToken:
    """A token that stands in the kubeconfig, or no token."""

    def __init__(self, token: str | None = None) -> None:
        self._header = f"Bearer {token}" if token else None

    def authorization(self) -> str | None:
        return self._header

    def renew(self) -> None:
        """It stays what it is."""


class TokenFile:
    """A token in a file that somebody keeps fresh; UnavailableError while it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: str | None = None
        self._read_at = 0.0

    def authorization(self) -> str | None:
        now = time.monotonic()
        if self._header is None or now - self._read_at > _TOKEN_SECONDS:
            # Two threads may both read it: harmless, and cheaper than a lock on every request.
            try:
                self._header = f"Bearer {self._path.read_text().strip()}"
            except (OSError, UnicodeDecodeError) as error:
                msg = f"cannot read the token {self._path}: {why(error)}"
                raise UnavailableError(msg) from error
            self._read_at = now
        return self._header

    def renew(self) -> None:
        self._header = None


class LibraryCredentials:
    """Credentials that the `kubernetes` library obtains and renews, of `configuration`."""

    def __init__(self, configuration: Any) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()  # its hook writes into the configuration

    def authorization(self) -> str | None:
        with self._lock:
            header: str | None = self._configuration.get_api_key_with_prefix("BearerToken")
            return header

    def renew(self) -> None:
        """The library looks at the expiry itself, on every use."""


def why(error: Exception) -> str:
    """What is wrong with a file, without its name."""
    match error:
        case OSError() if error.strerror:
            return error.strerror.lower()
        case KeyError():
            return f"it has no {error}"
        case UnicodeDecodeError():
            return "it is no text"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return one_line(error)

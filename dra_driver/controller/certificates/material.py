"""What a TLS server needs: a certificate and its key, and the authorities that clients are to trust for it."""

import contextlib
import os
import ssl
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cryptography import x509

from dra_driver.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class Material:
    """All in PEM."""

    certificate: bytes  # with what is between it and the authority, if anything
    key: bytes
    authorities: bytes | None  # None: whoever made the certificate tells the API server

    @property
    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    def context(self) -> ssl.SSLContext:
        """TLS with this certificate; UnavailableError where the parts do not belong together, or are none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The ssl module reads files only. This one is in memory: a key has no business on a disk.
        descriptor = os.memfd_create("webhook-certificate")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(self.key.rstrip() + b"\n" + self.certificate)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise UnavailableError(f"the webhook's certificate and key cannot be used: {error}") from error
        finally:
            os.close(descriptor)
        return context

    def prove(self, name: str) -> None:
        """UnavailableError where a client that trusts just `authorities` would not take this for the server `name`."""
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an authority need not be a root, as in Go
        client.load_verify_locations(cadata=(self.authorities or b"").decode())
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        asking = client.wrap_bio(back, there, server_hostname=name)
        answering = self.context().wrap_bio(there, back, server_side=True)
        try:
            for side in (asking, answering, asking):  # who answers has still to hear the end
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise UnavailableError(
                f"API servers would not take the webhook's certificate: {error.verify_message}"
            ) from error


class Source(Protocol):
    """Where the material comes from."""

    def read(self) -> Material:
        """What is to be used now; UnavailableError or ApiError where that is not known now."""


def _no_password() -> str:
    """Without it, OpenSSL would ask for one at a terminal."""
    raise ValueError("the key is encrypted")

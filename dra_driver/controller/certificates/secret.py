"""Certificates made here, in a Secret that all replicas share.

The Secret is the only truth: whoever finds that something is due writes it, with the resource version that was read, and
who loses the race uses what the winner wrote. So replicas agree without a leader, and one that was cut off for a month
starts with what there is. A Secret that holds something else is not overwritten; one that is damaged is made anew.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from cryptography import x509

from dra_driver.controller.certificates import authority
from dra_driver.controller.certificates.authority import Authorities, Pair
from dra_driver.controller.certificates.material import Material
from dra_driver.errors import UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import AlreadyExistsError, NotFoundError, ObjectConflictError
from dra_driver.kube.resources import SECRETS

log = structlog.get_logger(__name__)

_TRIES = 5
_TYPE = "kubernetes.io/tls"
Object = Mapping[str, Any]


class SharedSecret:
    """A `Source` that makes what is missing, and renews it in time."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        names: Sequence[str],
        now: Callable[[], datetime] = authority.now,
    ) -> None:
        """`names` are the DNS names that the API server calls."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._names = names
        self._now = now

    def read(self) -> Material:
        for _ in range(_TRIES):
            secret = self._get()
            known = None if secret is None else self._parse(secret)
            now = self._now()
            wanted = Authorities.fresh(self._names, now) if known is None else known.renewed(self._names, now)
            if known is wanted or self._write(secret, wanted):
                return Material(
                    authority.pem(wanted.serving.certificate), wanted.serving.key_pem(), wanted.trusted_pem()
                )
        raise UnavailableError(f"others keep changing Secret {self._namespace}/{self._name}")

    def _get(self) -> Object | None:
        try:
            return self._client.get(SECRETS, self._name, self._namespace)
        except NotFoundError:
            return None

    def _parse(self, secret: Object) -> Authorities | None:
        """What the Secret holds; None where it is empty or damaged."""
        data: Mapping[str, str] = secret.get("data") or {}
        if not any(data.values()):
            return None
        if not data.get("ca.key"):
            raise UnavailableError(
                f"Secret {self._namespace}/{self._name} holds a certificate that was not made here: mount it and name "
                "the directory in --certificate-dir, or delete it"
            )
        try:
            return _decoded({name: base64.b64decode(value, validate=True) for name, value in data.items()})
        except (KeyError, ValueError, TypeError, binascii.Error) as error:
            log.warning("damaged certificates are made anew", secret=self._name, err=str(error))
            return None

    def _write(self, secret: Object | None, wanted: Authorities) -> bool:
        """Whether it is stored; if not, somebody else was first."""
        data = {
            "ca.crt": wanted.trusted_pem(),
            "ca.key": wanted.newest.key_pem(),
            "tls.crt": authority.pem(wanted.serving.certificate),
            "tls.key": wanted.serving.key_pem(),
        }
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        metadata = {"name": self._name, "namespace": self._namespace}
        try:
            if secret is None:
                body = {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": _TYPE,
                    "metadata": metadata,
                    "data": encoded,
                }
                self._client.create(SECRETS, body)
            else:
                self._client.replace(SECRETS, {**secret, "data": encoded})
        except (AlreadyExistsError, ObjectConflictError, NotFoundError):
            return False
        log.info(
            "certificates written",
            secret=self._name,
            expires=str(wanted.serving.certificate.not_valid_after_utc),
        )
        return True


def _decoded(data: Mapping[str, bytes]) -> Authorities:
    trusted = x509.load_pem_x509_certificates(data["ca.crt"])
    newest = Pair.parse(authority.pem(trusted[0]), data["ca.key"])
    return Authorities(newest, tuple(trusted[1:]), Pair.parse(data["tls.crt"], data["tls.key"]))

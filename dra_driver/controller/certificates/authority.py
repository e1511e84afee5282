"""Keys and certificates of our own: an authority, and what it signs for the webhook's Service. Pure.

Elliptic curve P-256, as every API server takes it. Certificates are valid from an hour ago on, since clocks differ.
Each is renewed when a third of its time is left. A new authority is trusted for an hour before anything that it signed
is shown, unless what is shown is of no use any more: all API servers have to read the new caBundle first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=730)
SERVING_LIFE = timedelta(days=90)
SETTLING = timedelta(hours=1)
_SKEW = timedelta(hours=1)
_MAX_AUTHORITIES = 3

_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def parse(cls, certificate: bytes, key: bytes) -> Self:
        """From PEM; ValueError where they are none, or do not belong together."""
        found = x509.load_pem_x509_certificate(certificate)
        secret = serialization.load_pem_private_key(key, None)
        if not isinstance(secret, ec.EllipticCurvePrivateKey) or found.public_key() != secret.public_key():
            raise ValueError("the key is not that of the certificate")
        return cls(found, secret)

    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


@dataclass(frozen=True, slots=True)
class Authorities:
    """All that is kept: the newest authority, older ones that are still trusted, and what is served."""

    newest: Pair
    older: tuple[x509.Certificate, ...]
    serving: Pair

    @classmethod
    def fresh(cls, names: Sequence[str], now: datetime) -> Self:
        newest = make_authority(now)
        return cls(newest, (), make_serving(newest, names, now))

    def renewed(self, names: Sequence[str], now: datetime) -> "Authorities":
        """The same object where nothing is due."""
        newest, serving = self.newest, self.serving
        older = tuple(old for old in self.older if old.not_valid_after_utc > now)[: _MAX_AUTHORITIES - 1]
        if _is_due(newest.certificate, now):
            older = (newest.certificate, *older)[: _MAX_AUTHORITIES - 1]
            newest = make_authority(now)
            if older[0].not_valid_after_utc <= now:
                older = ()
        shown = serving.certificate
        unusable = (
            not is_signed_by(shown, (newest.certificate, *older))
            or names_of(shown) != list(names)
            or not shown.not_valid_before_utc <= now < shown.not_valid_after_utc
        )
        settled = now - newest.certificate.not_valid_before_utc >= _SKEW + SETTLING
        outdated = _is_due(shown, now) or not is_signed_by(shown, (newest.certificate,))
        if unusable or (outdated and settled):
            serving = make_serving(newest, names, now)
        if (newest, older, serving) == (self.newest, self.older, self.serving):
            return self
        return Authorities(newest, older, serving)

    def trusted_pem(self) -> bytes:
        """The newest authority first."""
        return b"".join(map(pem, (self.newest.certificate, *self.older)))


def make_authority(now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("dra-driver webhook CA")
    return Pair(_sign(name, name, key, key, AUTHORITY_LIFE, now, _of_authority(key)), key)


def make_serving(authority: Pair, names: Sequence[str], now: datetime) -> Pair:
    """A server's certificate for DNS `names`."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate.subject
    extensions = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), False),
    ]
    subject = _name("dra-driver webhook")
    return Pair(_sign(subject, issuer, key, authority.key, SERVING_LIFE, now, extensions), key)


def names_of(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return names.value.get_values_for_type(x509.DNSName)


def is_signed_by(certificate: x509.Certificate, authorities: Sequence[x509.Certificate]) -> bool:
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def now() -> datetime:
    return datetime.now(UTC)


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= end - (end - start) / 3 or now < start


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _of_authority(key: ec.EllipticCurvePrivateKey) -> list[tuple[x509.ExtensionType, bool]]:
    return [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_usage("key_cert_sign", "crl_sign"), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    ]


def _usage(*wanted: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in wanted for usage in _USAGES})


def _sign(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    life: timedelta,
    now: datetime,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    builder = x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), now - _SKEW, now + life
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(by, hashes.SHA256())

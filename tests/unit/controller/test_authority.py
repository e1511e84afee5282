"""Certificates of our own: what they are good for, and when they are renewed."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from dra_driver.controller.certificates import authority
from dra_driver.controller.certificates.authority import Authorities, Pair
from dra_driver.controller.certificates.material import Material
from dra_driver.errors import UnavailableError

NAMES = ("webhook.dra-driver.svc", "webhook.dra-driver.svc.cluster.local")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def fresh() -> Authorities:
    return Authorities.fresh(NAMES, NOW)


def chain_holds(found: Authorities) -> bool:
    trusted = x509.load_pem_x509_certificates(found.trusted_pem())
    return authority.is_signed_by(found.serving.certificate, trusted)


def test_what_is_fresh_needs_nothing(fresh: Authorities) -> None:
    assert fresh is fresh.renewed(NAMES, NOW + timedelta(days=30))
    assert chain_holds(fresh)
    assert list(NAMES) == authority.names_of(fresh.serving.certificate)


def test_the_certificate_is_renewed_when_a_third_of_its_time_is_left(fresh: Authorities) -> None:
    assert fresh is fresh.renewed(NAMES, NOW + timedelta(days=59))

    later = fresh.renewed(NAMES, NOW + timedelta(days=61))

    assert fresh.newest == later.newest
    assert later.serving.certificate != fresh.serving.certificate
    assert chain_holds(later)


def test_a_certificate_for_other_names_is_renewed(fresh: Authorities) -> None:
    renamed = fresh.renewed(("other.dra-driver.svc",), NOW)

    assert ["other.dra-driver.svc"] == authority.names_of(renamed.serving.certificate)


def test_a_new_authority_is_trusted_before_it_signs_what_is_shown(fresh: Authorities) -> None:
    due = NOW + timedelta(days=500)
    kept = fresh.renewed(NAMES, due - timedelta(days=20))
    rotated = kept.renewed(NAMES, due)

    assert rotated.newest != kept.newest
    assert (kept.newest.certificate,) == rotated.older
    assert kept.serving == rotated.serving
    settled = rotated.renewed(NAMES, due + timedelta(hours=2))
    assert authority.is_signed_by(settled.serving.certificate, [rotated.newest.certificate])
    assert kept.newest.certificate in settled.older


def test_after_years_everything_is_made_anew_at_once(fresh: Authorities) -> None:
    later = fresh.renewed(NAMES, NOW + timedelta(days=2000))

    assert () == later.older
    assert chain_holds(later)


def test_an_authority_that_is_over_is_forgotten(fresh: Authorities) -> None:
    rotated = fresh.renewed(NAMES, NOW + timedelta(days=500))

    assert () == rotated.renewed(NAMES, NOW + timedelta(days=740)).older


def test_a_clock_that_was_set_back_makes_no_endless_new_ones(fresh: Authorities) -> None:
    before = fresh.renewed(NAMES, NOW - timedelta(days=365))

    assert before is before.renewed(NAMES, NOW - timedelta(days=365))


def test_a_key_of_another_certificate_is_refused(fresh: Authorities) -> None:
    other = Authorities.fresh(NAMES, NOW)

    with pytest.raises(ValueError, match="not that of the certificate"):
        Pair.parse(authority.pem(fresh.serving.certificate), other.serving.key_pem())


def material(found: Authorities, **parts: bytes) -> Material:
    whole = {"certificate": authority.pem(found.serving.certificate), "key": found.serving.key_pem()}
    return Material(**{**whole, **parts}, authorities=None)


def test_a_context_is_made_without_a_file_on_disk(fresh: Authorities) -> None:
    assert ssl.TLSVersion.TLSv1_2 == material(fresh).context().minimum_version


@pytest.mark.parametrize("part", ["certificate", "key"])
@pytest.mark.parametrize("cut", [0, 40, -40])
def test_half_of_a_certificate_or_key_makes_no_context(fresh: Authorities, part: str, cut: int) -> None:
    whole = {"certificate": authority.pem(fresh.serving.certificate), "key": fresh.serving.key_pem()}

    with pytest.raises(UnavailableError, match="cannot be used"):
        material(fresh, **{part: whole[part][:cut]}).context()


def test_an_encrypted_key_is_refused_rather_than_asked_a_password_for(fresh: Authorities) -> None:
    from cryptography.hazmat.primitives import serialization

    key = fresh.serving.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )

    with pytest.raises(UnavailableError, match="cannot be used"):
        material(fresh, key=key).context()

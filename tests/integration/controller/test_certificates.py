"""Certificates in the cluster: made, agreed on, renewed, repaired, and taken from files."""

import base64
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from dra_driver.controller.certificates import authority
from dra_driver.controller.certificates.authority import Authorities, Pair
from dra_driver.controller.certificates.files import Directory
from dra_driver.controller.certificates.keeper import Keeper
from dra_driver.controller.certificates.secret import SharedSecret
from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.resources import RESOURCE_CLAIMS, SECRETS
from dra_driver.kube.resources import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS

NAMES = ("webhook.dra-driver.svc", "webhook.dra-driver.svc.cluster.local")
NAMESPACE, NAME = "dra-driver", "webhook-certificate"


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def replica(door: Any, clock: Clock) -> Callable[[], SharedSecret]:
    return lambda: SharedSecret(door.client, NAMESPACE, NAME, NAMES, clock)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[Authorities], Directory]:
    """A directory with what was made elsewhere."""

    def write(found: Authorities) -> Directory:
        (tmp_path / "tls.crt").write_bytes(authority.pem(found.serving.certificate))
        (tmp_path / "tls.key").write_bytes(found.serving.key_pem())
        (tmp_path / "ca.crt").write_bytes(found.trusted_pem())
        return Directory(tmp_path, NAMES[0])

    return write


def bundles(door: Any) -> set[bytes]:
    found = door.client.get(CONFIGURATIONS, "dra-driver")["webhooks"]
    return {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in found}


def data(door: Any) -> dict[str, Any]:
    found: dict[str, Any] = door.client.get(SECRETS, NAME, NAMESPACE)["data"]
    return found


def test_replicas_use_one_certificate_whoever_is_first(replica: Callable[[], SharedSecret]) -> None:
    one, other = replica(), replica()

    assert one.read() == other.read() == one.read()


def test_a_replica_that_loses_the_race_uses_what_the_winner_wrote(
    door: Any, replica: Callable[[], SharedSecret], clock: Clock
) -> None:
    first = replica().read()
    clock.now += timedelta(days=61)
    slow, fast = replica(), replica()
    stale = door.client.get(SECRETS, NAME, NAMESPACE)
    winner = fast.read()
    known = slow._parse(stale)
    assert known is not None

    assert not slow._write(stale, known.renewed(NAMES, clock.now))

    assert winner == slow.read() != first


def test_a_rotation_never_shows_what_is_not_trusted(
    door: Any, replica: Callable[[], SharedSecret], clock: Clock
) -> None:
    door.register()
    secret = replica()
    keeper = Keeper(door.client, secret, "dra-driver")
    for _ in range(60):
        keeper.look()
        shown = x509.load_pem_x509_certificate(secret.read().certificate)
        (bundle,) = bundles(door)
        assert authority.is_signed_by(shown, x509.load_pem_x509_certificates(bundle))
        assert shown.not_valid_after_utc > clock.now
        clock.now += timedelta(days=29, hours=5)


DAMAGED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "cut certificate": lambda found: {**found, "tls.crt": found["tls.crt"][:40]},
    "no key": lambda found: {**found, "tls.key": ""},
    "key of another": lambda found: {**found, "tls.key": found["ca.key"]},
    "no base64": lambda found: {**found, "ca.crt": "!"},
    "certificates gone": lambda found: {"ca.key": found["ca.key"]},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_secret_is_made_anew(door: Any, replica: Callable[[], SharedSecret], name: str) -> None:
    first = replica().read()
    secret = door.client.get(SECRETS, NAME, NAMESPACE)
    door.client.replace(SECRETS, {**secret, "data": DAMAGED[name](secret["data"])})

    second = replica().read()

    assert first != second == replica().read()
    assert second.context()


def test_an_empty_secret_is_filled(door: Any, replica: Callable[[], SharedSecret]) -> None:
    door.client.create(SECRETS, {"metadata": {"name": NAME, "namespace": NAMESPACE}})

    assert replica().read().context()
    assert {"ca.crt", "ca.key", "tls.crt", "tls.key"} == set(data(door))


def test_a_secret_of_somebody_else_is_not_overwritten(door: Any, replica: Callable[[], SharedSecret]) -> None:
    made = {
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "stringData": {"tls.crt": "x", "tls.key": "y"},
    }
    door.client.create(SECRETS, made)

    with pytest.raises(UnavailableError, match="was not made here: mount it and name"):
        replica().read()
    assert {"tls.crt", "tls.key"} == set(data(door))


def test_a_bundle_that_somebody_took_away_is_written_again(
    door: Any, replica: Callable[[], SharedSecret]
) -> None:
    door.register()
    keeper = Keeper(door.client, replica(), "dra-driver")
    keeper.look()
    before = bundles(door)
    hooks = [{"name": "claims.gpu.nvidia.com", "clientConfig": {"caBundle": ""}}]
    kind = "application/strategic-merge-patch+json"
    door.client.patch(CONFIGURATIONS, "dra-driver", {"webhooks": hooks}, content_type=kind)
    assert before != bundles(door)

    keeper.look()

    assert before == bundles(door)


def test_a_controller_that_may_not_write_the_bundle_serves_all_the_same(
    door: Any, replica: Callable[[], SharedSecret]
) -> None:
    door.register()
    door.server.faults.refuse(403, "patch", CONFIGURATIONS)
    keeper = Keeper(door.client, replica(), "dra-driver")

    with pytest.raises(ApiError):
        keeper.look()

    keeper.ready()


def test_without_a_webhook_configuration_there_is_a_certificate_all_the_same(
    door: Any, replica: Callable[[], SharedSecret]
) -> None:
    keeper = Keeper(door.client, replica(), "dra-driver")

    keeper.look()

    keeper.ready()
    assert keeper.expires() > 0


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("size", [0, 100, -30], ids=["empty", "begun", "nearly whole"])
def test_while_a_file_is_half_written_the_old_certificate_stays_in_use(
    door: Any, files: Callable[[Authorities], Directory], tmp_path: Path, name: str, size: int
) -> None:
    door.register()
    source = files(Authorities.fresh(NAMES, authority.now()))
    keeper = Keeper(door.client, source, "dra-driver")
    keeper.look()
    before, told = keeper.context(), bundles(door)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix in {".crt", ".key"}}
    files(Authorities.fresh(NAMES, authority.now()))
    new = (tmp_path / name).read_bytes()
    for other in set(whole) - {name}:
        (tmp_path / other).write_bytes(whole[other])
    (tmp_path / name).write_bytes(new[:size])

    if not (name == "ca.crt" and size == 0):  # which is how cert-manager says that clients know it
        with pytest.raises(UnavailableError):
            keeper.look()
    assert before is keeper.context()
    assert told == bundles(door)


def test_while_new_and_old_files_are_mixed_nobody_is_told_of_them(
    door: Any, files: Callable[[Authorities], Directory], tmp_path: Path
) -> None:
    door.register()
    source = files(Authorities.fresh(NAMES, authority.now()))
    keeper = Keeper(door.client, source, "dra-driver")
    keeper.look()
    before, told = keeper.context(), bundles(door)
    (tmp_path / "ca.crt").write_bytes(Authorities.fresh(NAMES, authority.now()).trusted_pem())

    with pytest.raises(UnavailableError, match="unable to get local issuer certificate"):
        keeper.look()

    assert (before, told) == (keeper.context(), bundles(door))


REFUSED: dict[str, tuple[tuple[str, ...], timedelta, str]] = {
    "expired": (NAMES, timedelta(days=100), "certificate has expired"),
    "of the future": (NAMES, timedelta(days=-1), "certificate is not yet valid"),
    "of another server": (("elsewhere.svc",), timedelta(0), "not valid for 'webhook.dra-driver.svc'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_api_servers_would_refuse_are_not_used(
    door: Any, files: Callable[[Authorities], Directory], name: str
) -> None:
    names, age, why = REFUSED[name]
    source = files(Authorities.fresh(names, authority.now() - age))

    with pytest.raises(UnavailableError, match=why):
        Keeper(door.client, source, "dra-driver").look()


def test_an_authority_in_the_middle_is_enough(
    door: Any, files: Callable[[Authorities], Directory], tmp_path: Path
) -> None:
    source = files(chained(NAMES))

    assert source.read().context()


def chained(names: tuple[str, ...]) -> Authorities:
    """Of an authority that another one has signed, which is not there."""
    now = authority.now()
    root, middle = authority.make_authority(now), authority.make_authority(now)
    signed = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")]),
        middle.certificate.subject,
        middle.key.public_key(),
        x509.random_serial_number(),
        now - timedelta(hours=1),
        now + timedelta(days=1),
    )
    signed = signed.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    certificate = signed.sign(root.key, hashes.SHA256())
    return Authorities(
        Pair(certificate, middle.key), (), authority.make_serving(Pair(certificate, middle.key), names, now)
    )


def test_a_certificate_that_expires_in_use_makes_the_replica_unready(
    door: Any, files: Callable[[Authorities], Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(door.client, files(Authorities.fresh(NAMES, authority.now())), "dra-driver")
    keeper.look()
    keeper.ready()
    end = keeper.expires()
    monkeypatch.setattr(time, "time", lambda: end)

    with pytest.raises(UnavailableError, match="has expired"):
        keeper.ready()


def test_new_files_are_used_without_a_restart(
    door: Any, files: Callable[[Authorities], Directory], claim: Callable[..., Any], until: Any
) -> None:
    door.register()
    source = files(Authorities.fresh(NAMES, authority.now()))
    part = door.controller("--certificate-dir", str(source._path))
    until(part.ready)
    door.client.create(RESOURCE_CLAIMS, claim(name="before"))
    before = bundles(door)

    files(Authorities.fresh(NAMES, authority.now()))
    part.keeper.look()

    assert before != bundles(door)
    door.client.create(RESOURCE_CLAIMS, claim(name="after"))
    assert {"allowed": 2.0} == outcomes(part)


def outcomes(part: Any) -> dict[str, float]:
    """How requests ended, as the metrics say."""
    counted = next(iter(part._metrics._requests.collect())).samples
    return {s.labels["outcome"]: s.value for s in counted if s.name.endswith("_total") and s.value}


def test_a_directory_without_files_is_waited_for(door: Any, tmp_path: Path) -> None:
    part = door.controller("--certificate-dir", str(tmp_path / "empty"))

    with pytest.raises(UnavailableError, match=r"no certificate yet|tls\.crt cannot be read"):
        part.ready()


def test_a_public_issuer_needs_no_bundle(files: Callable[[Authorities], Directory], tmp_path: Path) -> None:
    source = files(Authorities.fresh(NAMES, authority.now()))
    (tmp_path / "ca.crt").unlink()

    assert source.read().authorities is None

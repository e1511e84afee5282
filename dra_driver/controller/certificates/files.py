"""A certificate in a directory: cert-manager's, mounted from its Secret, or one that was made by hand.

`tls.crt` and `tls.key`, and `ca.crt` where the API server shall be told whom to trust. Files that are just being written
do not belong together, or are cut short: what was read before stays in use until they do. So it does where API servers
would refuse what is there, since it has expired or is for another name.
"""

from pathlib import Path

from cryptography import x509

from dra_driver.controller.certificates.material import Material
from dra_driver.errors import UnavailableError

_MAX_BYTES = 1 << 20


class Directory:
    """A `Source` of files."""

    def __init__(self, path: Path, name: str) -> None:
        """`name` is the DNS name that the API server calls."""
        self._path = path
        self._name = name

    def read(self) -> Material:
        material = Material(self._file("tls.crt"), self._file("tls.key"), self._authorities())
        _check(self._path / "tls.crt", material.certificate)
        if material.authorities is not None:
            material.prove(self._name)
        return material

    def _authorities(self) -> bytes | None:
        path = self._path / "ca.crt"
        if not path.exists():
            return None
        authorities = self._file("ca.crt")
        if not authorities.strip():
            return None  # cert-manager writes an empty one where the issuer is public
        _check(path, authorities)
        return authorities

    def _file(self, name: str) -> bytes:
        path = self._path / name
        try:
            with path.open("rb") as file:
                return file.read(_MAX_BYTES)
        except OSError as error:
            raise UnavailableError(f"{path} cannot be read: {error.strerror}") from error


def _check(path: Path, certificates: bytes) -> None:
    try:
        x509.load_pem_x509_certificates(certificates)
    except ValueError as error:
        raise UnavailableError(f"{path} is no certificate in PEM, or not yet a whole one") from error

"""The CDI directory: one spec file per claim, in a directory that we share with others.

The file of a claim is `k8s.<driver>-claim_<claim uid>.json`, its kind `k8s.<driver>/claim`, a device in it
`<claim uid>-<device>[-<share id>]`: so a name never stands for two contents, which container runtimes cache,
and nobody else writes files with our prefix. All that is listed or removed here has that prefix.

Specs are not synced to disk: the directory is a tmpfs in practice, a killed process loses nothing that was
written, and after a reboot the specs are dropped anyway (see `dra_driver.prepare.engine`).
"""

from collections.abc import Iterator
from pathlib import Path

import structlog

import dra_driver.files
from dra_driver.cdi.names import check_claim_uid, is_claim_uid
from dra_driver.cdi.proof import SpecProof
from dra_driver.cdi.spec import Spec
from dra_driver.errors import UnavailableError
from dra_driver.files import Files

log = structlog.get_logger(__name__)


class SpecStore:
    """The specs of one driver in one CDI directory; safe to use from threads as long as claims differ.

    A directory that cannot be written raises UnavailableError; a UID that is none raises ClaimError before
    any path is made of it.
    """

    def __init__(
        self,
        cdi_dir: Path,
        driver_name: str,
        *,
        files: Files = dra_driver.files,
        fresh_seconds: float = 0.0,
    ) -> None:
        """The files of others are taken to be what they were for `fresh_seconds`."""
        self.directory = cdi_dir
        self.kind = f"k8s.{driver_name}/claim"
        self._prefix = f"k8s.{driver_name}-claim_"
        self._start = f"{cdi_dir}/{self._prefix}"
        self._files = files
        self._proof = SpecProof(cdi_dir, self._prefix, fresh_seconds)

    def path(self, claim_uid: str) -> Path:
        return Path(self._path(claim_uid))

    def _path(self, claim_uid: str) -> str:
        return f"{self._start}{check_claim_uid(claim_uid)}.json"

    def device_name(self, claim_uid: str, device: str, share_id: str | None = None) -> str:
        """The name of a claim's device in the claim's spec."""
        return "-".join(part for part in (claim_uid, device, share_id) if part is not None)

    def qualified_name(self, claim_uid: str, device: str, share_id: str | None = None) -> str:
        """What the kubelet hands to the container runtime for a claim's device."""
        return f"{self.kind}={self.device_name(claim_uid, device, share_id)}"

    def ensure(self, claim_uid: str, spec: Spec) -> bool:
        """Have `spec` be the claim's, written whole or not at all; False where it was so already.

        HardwareError or ConflictError where runtimes would not find its devices; see `proof`.
        """
        path = self._path(claim_uid)
        self._proof.check(claim_uid, spec)
        data = spec.to_json()
        if self.read(claim_uid) == data:
            return False
        try:
            try:
                self._write(path, data)
            except FileNotFoundError:  # somebody cleaned up below /run
                self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
                self._write(path, data)
        except OSError as error:
            raise UnavailableError(
                f"the CDI spec of claim {claim_uid} cannot be written into {self.directory} on the node: "
                f"{error.strerror}"
            ) from error
        return True

    def _write(self, path: str, data: bytes) -> None:
        # Runtimes may run as another user, so the mode is that of NVIDIA's toolkit.
        self._files.write_atomic(path, data, mode=0o644, sync=False)

    def read(self, claim_uid: str) -> bytes | None:
        """The claim's spec file as it is; None where there is none, or none that can be read.

        Unreadable is as good as missing: the caller writes it again, and hears of trouble then.
        """
        return dra_driver.files.read(self._path(claim_uid))

    def remove(self, claim_uid: str) -> bool:
        """Delete the claim's spec; False where there was none."""
        try:
            return self._files.remove(self._path(claim_uid), sync=False)
        except OSError as error:
            raise UnavailableError(
                f"the CDI spec of claim {claim_uid} cannot be removed from {self.directory} on the node: "
                f"{error.strerror}"
            ) from error

    def claims(self) -> list[str]:
        """The UIDs of all claims that have a spec here."""
        return sorted(
            uid
            for path in self._entries()
            if path.name.startswith(self._prefix)
            and path.suffix == ".json"
            and is_claim_uid(uid := path.name[len(self._prefix) : -len(".json")])
        )

    def remove_temporary(self) -> None:
        """Delete what interrupted writes of this store left behind."""
        leftovers = [
            path for path in self._entries() if dra_driver.files.is_temporary(path.name, of=self._prefix)
        ]
        for path in leftovers:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:  # the next start tries again
                log.warning("left-over cannot be removed", path=str(path), err=str(error))

    def _entries(self) -> Iterator[Path]:
        try:
            yield from self.directory.iterdir()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UnavailableError(
                f"the CDI directory {self.directory} cannot be read: {error.strerror}"
            ) from error

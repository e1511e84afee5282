"""The directory of device metadata files, `<claim uid>_<request>.json`, from which they are mounted into containers.

A container cannot start without the file that its claim's CDI spec mounts, so files are written before the spec and
removed after it. They are not synced to disk, for the reason that records are not. A UID has no underscore, so names
are told apart by the first one.
"""

from collections.abc import Iterable
from pathlib import Path

import structlog

import dra_driver.files
from dra_driver.cdi.names import check_claim_uid, is_claim_uid
from dra_driver.cdi.spec import Mount
from dra_driver.errors import UnavailableError
from dra_driver.files import Files
from dra_driver.prepare import metadata
from dra_driver.prepare.record import Record

_MODE = 0o644  # containers read it as whatever user they run as

log = structlog.get_logger(__name__)


class MetadataStore:
    """The files of one driver; safe to use from threads as long as claims differ.

    UnavailableError where the directory cannot be read or written.
    """

    def __init__(self, directory: Path, driver_name: str, *, files: Files = dra_driver.files) -> None:
        self.directory = directory
        self._driver_name = driver_name
        self._files = files

    def ensure(self, record: Record) -> bool:
        """Have the claim's files be there and right; False where they were so already."""
        changed = False
        for request, data in metadata.documents(record, self._driver_name).items():
            path = self._path(record.ref.uid, request)
            try:
                if not self._write_new(path, data):
                    if dra_driver.files.read(path) == data:
                        continue
                    self._files.write_atomic(path, data, mode=_MODE, sync=False)
            except OSError as error:
                raise UnavailableError(
                    f"the device metadata of claim {record.ref} cannot be written into {self.directory} on the node: "
                    f"{error.strerror}"
                ) from error
            changed = True
        return changed

    def mount(self, record: Record, request: str) -> Mount:
        """The mount of a request's file into containers."""
        path = self._path(record.ref.uid, request)
        return metadata.mount(record, self._driver_name, request, path)

    def remove(self, claim_uid: str, record: Record | None) -> None:
        """Delete the claim's files; `record` tells which, without it they are looked for."""
        if record is None:
            paths = [str(path) for path in self._entries() if path.name.startswith(f"{claim_uid}_")]
        else:
            requests = {request for device in record.devices for request in device.requests}
            paths = [self._path(claim_uid, request) for request in requests]
        try:
            for path in paths:
                self._files.remove(path, sync=False)
        except OSError as error:
            raise UnavailableError(
                f"the device metadata of claim {claim_uid} cannot be removed from {self.directory} on the node: "
                f"{error.strerror}"
            ) from error

    def claims(self) -> set[str]:
        """The UIDs of all claims with files here."""
        return {uid for path in self._entries() if is_claim_uid(uid := path.name.partition("_")[0])}

    def remove_temporary(self) -> None:
        """Delete what interrupted writes left behind."""
        for path in self._entries():
            if dra_driver.files.is_temporary(path.name):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:  # the next start tries again
                    log.warning("left-over cannot be removed", path=str(path), err=str(error))

    def _path(self, claim_uid: str, request: str) -> str:
        return f"{self.directory}/{check_claim_uid(claim_uid)}_{request}.json"

    def _write_new(self, path: str, data: bytes) -> bool:
        try:
            return self._files.write_new(path, data, mode=_MODE)
        except FileNotFoundError:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            return self._files.write_new(path, data, mode=_MODE)

    def _entries(self) -> Iterable[Path]:
        try:
            return list(self.directory.iterdir())
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise UnavailableError(
                f"the device metadata in {self.directory} cannot be read: {error.strerror}"
            ) from error

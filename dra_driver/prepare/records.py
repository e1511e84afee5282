"""The directory of records, one file per claim that holds devices, and what they say, in memory.

Calls read memory only; files are read once, at the start, and written one at a time. So preparing a claim
costs the same whether none or five hundred are held, claims are independent, and a file that cannot be read
is set aside alone, into `damaged/<boot id>/`, and listed until its claim is unprepared.

Records need to outlive the process, not the machine: after a reboot no container runs that got a device, the
kubelet prepares again, and `load` drops every record of another boot. So the files are not synced: on a
node's disk that takes several times as long as all else in a Prepare. Were a power cut to leave a
torn file, its checksum tells. `sync=True` is for a file system that loses writes of a killed process.
"""

import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

import dra_driver.files
from dra_driver.cdi.names import check_claim_uid, is_claim_uid
from dra_driver.devices.model import Device
from dra_driver.errors import RecordError, UnavailableError
from dra_driver.files import Files, is_temporary
from dra_driver.prepare.record import NewerRecordError, Record, decode, encode

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

log = structlog.get_logger(__name__)


def read_boot_id(path: Path = BOOT_ID) -> str:
    """What the kernel calls this boot; UnavailableError where it does not say."""
    try:
        boot_id = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnavailableError(
            f"the boot id cannot be read from {path}, so no record can be trusted: {error}"
        ) from error
    if not is_claim_uid(boot_id):  # it becomes a directory's name, and has the same syntax
        raise UnavailableError(f"{path} holds no boot id, so no record can be trusted")
    return boot_id


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """A file that should be a record; `reason` is a sentence's end."""

    claim_uid: str
    path: Path
    reason: str


class RecordStore:
    """Records in `directory`, stamped with `boot_id`.

    Thread-safe as long as two threads do not write the same claim. UnavailableError where the directory
    cannot be read or written; what is in memory then is what was there before.
    """

    def __init__(
        self, directory: Path, *, boot_id: str, files: Files = dra_driver.files, sync: bool = False
    ) -> None:
        self.directory = directory
        self.boot_id = boot_id
        self._files = files
        self._sync = sync
        self._mutex = threading.Lock()  # guards the three below, and is never held during I/O
        self._records: dict[str, Record] = {}
        self._damaged: dict[str, DamagedRecord] = {}
        self._published: dict[str, Device] = {}  # one object for all records of a device: 500 cost little

    def load(self) -> tuple[Record, ...]:
        """Read the directory anew; the records of other boots, which are deleted."""
        found: list[Record] = []
        stale: list[Record] = []
        damaged = self._set_aside_before()
        for path in self._entries():
            if is_temporary(path.name):
                self._delete_quietly(path)
            elif path.suffix == ".json":
                try:
                    record = self._read(path)
                except RecordError as error:
                    damaged.append(self._set_aside(path, error))
                else:
                    (found if record.boot_id == self.boot_id else stale).append(record)
        with self._mutex:
            self._published = {}
            self._records = {record.ref.uid: self._interned(record) for record in found}
            self._damaged = {record.claim_uid: record for record in damaged}
        for record in stale:
            self._delete_quietly(Path(self._path(record.ref.uid)))
        return tuple(stale)

    def get(self, claim_uid: str) -> Record | None:
        with self._mutex:
            return self._records.get(claim_uid)

    def all(self) -> tuple[Record, ...]:
        with self._mutex:
            return tuple(self._records.values())

    def damaged(self) -> tuple[DamagedRecord, ...]:
        """Files that were set aside, of claims that were not unprepared since."""
        with self._mutex:
            return tuple(self._damaged.values())

    def write(self, record: Record) -> None:
        """Keep the record, on disk and then in memory."""
        path, data = self._path(record.ref.uid), encode(record)
        try:
            try:
                self._files.write_atomic(path, data, sync=self._sync)
            except FileNotFoundError:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._files.write_atomic(path, data, sync=self._sync)
        except OSError as error:
            raise UnavailableError(
                f"claim {record.ref} cannot be recorded in {self.directory} on the node: {error.strerror}"
            ) from error
        with self._mutex:
            self._records[record.ref.uid] = self._interned(record)

    def write_if_possible(self, record: Record) -> None:
        """Keep the record of a claim that ends: in memory at least, for a full disk must not stop its Pod from ending."""
        try:
            self.write(record)
        except UnavailableError as error:
            log.warning("what was taken back is not recorded", claim_uid=record.ref.uid, err=str(error))
            with self._mutex:
                self._records[record.ref.uid] = self._interned(record)

    def remove(self, claim_uid: str) -> None:
        """Forget the claim, and what was set aside of it; no error where it is unknown."""
        path = self._path(claim_uid)
        with self._mutex:
            damaged = self._damaged.get(claim_uid)
        try:
            self._files.remove(path, sync=self._sync)
            if damaged is not None:
                _delete(damaged.path)
        except OSError as error:
            raise UnavailableError(
                f"the record of claim {claim_uid} cannot be removed from {self.directory} on the node: "
                f"{error.strerror}"
            ) from error
        with self._mutex:
            self._records.pop(claim_uid, None)
            self._damaged.pop(claim_uid, None)

    def _path(self, claim_uid: str) -> str:
        return f"{self.directory}/{check_claim_uid(claim_uid)}.json"

    def _interned(self, record: Record) -> Record:
        """The same record on the device objects that other records have already."""
        devices = []
        for recorded in record.devices:
            known = self._published.setdefault(recorded.name, recorded.device)
            if known != recorded.device:
                known = self._published[recorded.name] = recorded.device
            devices.append(recorded if known is recorded.device else replace(recorded, device=known))
        same = all(one is other for one, other in zip(devices, record.devices, strict=True))
        return record if same else replace(record, devices=tuple(devices))

    def _entries(self) -> Iterable[Path]:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return sorted(self.directory.iterdir())
        except OSError as error:
            raise UnavailableError(
                f"the records in {self.directory} cannot be read: {error.strerror}"
            ) from error

    @staticmethod
    def _delete_quietly(path: Path) -> None:
        """Delete what nobody will read; if it cannot be, the next start tries again."""
        try:
            _delete(path)
        except OSError as error:
            log.warning("left-over cannot be removed", path=str(path), err=str(error))

    @staticmethod
    def _read(path: Path) -> Record:
        if not is_claim_uid(path.stem):
            raise RecordError("its name is not the UID of a claim")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RecordError(f"it cannot be read: {error.strerror}") from error
        record = decode(data)
        if record.ref.uid != path.stem:
            raise RecordError(f"it is the record of claim {record.ref.uid[:64]!r}")
        return record

    def _set_aside(self, path: Path, error: RecordError) -> DamagedRecord:
        """Move a file that is no record out of the way; it stays where it is if even that fails."""
        place = path
        if not isinstance(error, NewerRecordError):
            target = self._damaged_directory() / path.name
            try:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                place = path.rename(target)
            except OSError as trouble:
                log.warning("damaged record cannot be moved", path=str(path), err=str(trouble))
        log.error("record set aside", claim_uid=path.stem, path=str(place), err=str(error))
        return DamagedRecord(path.stem, place, str(error))

    def _set_aside_before(self) -> list[DamagedRecord]:
        """What earlier starts set aside during this boot; what is of other boots is deleted."""
        here = self._damaged_directory()
        try:
            if not here.parent.is_dir():
                return []
            for other in here.parent.iterdir():
                if other != here:
                    self._delete_quietly(other)
            entries = sorted(here.iterdir()) if here.is_dir() else ()
        except OSError as error:
            raise UnavailableError(
                f"the damaged records in {here} cannot be listed: {error.strerror}"
            ) from error
        return [DamagedRecord(path.stem, path, "it was set aside before") for path in entries]

    def _damaged_directory(self) -> Path:
        return self.directory / "damaged" / self.boot_id


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

"""The claim engine: what Prepare and Unprepare do, and what is kept of it."""

from dra_driver.prepare.claim import ClaimRef, ClaimSource
from dra_driver.prepare.engine import Engine
from dra_driver.prepare.metadata_store import MetadataStore
from dra_driver.prepare.record import PreparedDevice, Record
from dra_driver.prepare.records import DamagedRecord, RecordStore, read_boot_id
from dra_driver.prepare.restore import RestoreReport, Unresolved

__all__ = [
    "ClaimRef",
    "ClaimSource",
    "DamagedRecord",
    "Engine",
    "MetadataStore",
    "PreparedDevice",
    "Record",
    "RecordStore",
    "RestoreReport",
    "Unresolved",
    "read_boot_id",
]

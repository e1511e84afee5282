"""What a start, or a later look, found in the records, and did about it."""

from dataclasses import dataclass

from dra_driver.prepare.claim import ClaimRef
from dra_driver.prepare.records import DamagedRecord


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A claim that is held, but whose spec could not be checked against the hardware; `reason` is a sentence."""

    ref: ClaimRef
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Claims by what became of them."""

    held: int
    dropped: tuple[ClaimRef, ...] = ()  # of another boot
    damaged: tuple[DamagedRecord, ...] = ()
    undone: tuple[ClaimRef, ...] = ()  # half done
    rewritten: tuple[ClaimRef, ...] = ()  # whose spec was missing or stale
    orphans: tuple[str, ...] = ()  # UIDs of specs without a record
    unresolved: tuple[Unresolved, ...] = ()

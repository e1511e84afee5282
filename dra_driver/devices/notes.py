"""Tells people about notes: once each, not once a scan.

Scans follow each other every few seconds and repeat their notes while the cause lasts. A line is logged when
a note appears and when it is settled; metrics read the notes that stand.
"""

from collections.abc import Iterable
from threading import Lock

import structlog

from dra_driver.devices.model import Note, NoteReason

_log = structlog.get_logger(__name__)


class NoteLog:
    """Remembers the notes that stand; safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._standing: dict[Note, None] = {}

    def update(self, notes: Iterable[Note]) -> None:
        """Log what is new or settled since the last call."""
        now = dict.fromkeys(notes)
        with self._lock:
            before, self._standing = self._standing, now
        for note in (note for note in now if note not in before):
            _log.warning("device note", reason=note.reason.value, device=note.device, note=note.message)
        for note in (note for note in before if note not in now):
            _log.info("device note settled", reason=note.reason.value, device=note.device, note=note.message)

    def counts(self) -> dict[NoteReason, int]:
        """How many notes stand, for every reason."""
        with self._lock:
            standing = tuple(self._standing)
        return {reason: sum(note.reason is reason for note in standing) for reason in NoteReason}

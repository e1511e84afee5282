"""Notes are told once, and counted while they stand."""

from structlog.testing import capture_logs

from dra_driver.devices.model import Note, NoteReason
from dra_driver.devices.notes import NoteLog

_EMPTY = Note(NoteReason.MIG_EMPTY, "gpu-1", "GPU 1 has no MIG devices")
_DROPPED = Note(NoteReason.VALUE_DROPPED, "gpu-2", "device gpu-2 is published without a name")


def test_a_note_is_logged_when_it_appears_and_when_it_is_settled() -> None:
    notes = NoteLog()
    with capture_logs() as lines:
        notes.update([_EMPTY])
        notes.update([_EMPTY, _DROPPED])
        notes.update([_DROPPED])

    assert [
        ("device note", "warning", "gpu-1", "mig-empty"),
        ("device note", "warning", "gpu-2", "value-dropped"),
        ("device note settled", "info", "gpu-1", "mig-empty"),
    ] == [(line["event"], line["log_level"], line["device"], line["reason"]) for line in lines]


def test_standing_notes_are_counted_for_every_reason() -> None:
    notes = NoteLog()
    with capture_logs():
        notes.update([_EMPTY, _DROPPED, _EMPTY])
        counts = notes.counts()

    assert set(NoteReason) == set(counts)
    assert {NoteReason.MIG_EMPTY: 1, NoteReason.VALUE_DROPPED: 1} == {r: n for r, n in counts.items() if n}

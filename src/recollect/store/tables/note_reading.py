"""Reading what is stored about notes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from recollect.note_ledger import Distillation, NoteMark, NoteTrial
from recollect.store.records import NoteVersion
from recollect.store.tables.ledger import RUN_NAME, Select
from recollect.types import NoteAction, NoteId

LIST_NOTES = "List what is there with: recollect notes ls"

_COUNTED = ("notes", "note_marks", "fences")


def note_marks(select: Select, note: NoteId | None) -> list[NoteMark]:
    """Read what happened to a note, or to all, oldest first."""
    where, values = _of(note)
    sql = f"SELECT note, action, reason, {RUN_NAME}, step FROM note_marks {where} ORDER BY number"
    return [
        NoteMark(NoteId(row[0]), NoteAction(row[1]), row[2], row[3], row[4])
        for row in select(sql, values)
    ]


def note_trials(select: Select, note: NoteId | None) -> list[NoteTrial]:
    """Read what a note did, or all, oldest first."""
    where, values = _of(note)
    columns = f"note, group_id, rows, wins, bare_rows, bare_wins, {RUN_NAME}, step"
    found = select(f"SELECT {columns} FROM note_trials {where} ORDER BY number", values)
    return [NoteTrial(NoteId(row[0]), *row[1:]) for row in found]


def distillation(select: Select, key: str) -> Distillation | None:
    """Read one answer of a distiller."""
    found = select("SELECT data FROM distillations WHERE key = ?", [key])
    return Distillation(key, json.loads(found[0][0])) if found else None


def note_version(given: Mapping[str, int]) -> NoteVersion:
    """Pick from the numbers that were given out last, by table."""
    return NoteVersion(*(int(given.get(name, 0)) for name in _COUNTED))


def _of(note: NoteId | None) -> tuple[str, list[object]]:
    return ("WHERE fence = 0", []) if note is None else ("WHERE fence = 0 AND note = ?", [note])
